/** The result at a possible tag: not a tag, a tag that continues beyond the bytes read, or a tag and the position after it. */
export type XmlTag = 'none' | 'cut' | { behind: number };

/**
 * Reads the tag or processing instruction that begins at `at` (XML 1.0, 2.6 and 3.1). `behind` is the position after it and after any white
 * space. Reads at most `bytesMax` bytes, and never past another `<`, so that all tags of a text take time in proportion to it.
 */
export function xmlTagAt(data: Buffer, at: number, bytesMax: number): XmlTag {
  const end = Math.min(data.length, at + bytesMax);
  let position = at + (isClosing(data[at + 1]) ? 2 : 1);
  while (position < end && isNameByte(data[position])) position += 1;
  for (;;) {
    position = skipSpace(data, position, end);
    if (position >= end) return 'cut';
    if (isClosing(data[position])) position += 1;
    else if (data[position] === GREATER) return { behind: skipSpace(data, position + 1, data.length) };
    else {
      const next = attributeEnd(data, position, end);
      if (typeof next === 'string') return next;
      position = next;
    }
  }
}

const GREATER = 0x3e;
const LESS = 0x3c;
const EQUALS = 0x3d;

function attributeEnd(data: Buffer, start: number, end: number): number | 'none' | 'cut' {
  let position = start;
  while (position < end && isNameByte(data[position])) position += 1;
  if (position === start) return 'none';
  position = skipSpace(data, position, end);
  if (position >= end) return 'cut';
  if (data[position] !== EQUALS) return 'none';
  position = skipSpace(data, position + 1, end);
  const quote = data[position];
  if (position >= end) return 'cut';
  if (quote !== 0x22 && quote !== 0x27) return 'none';
  for (position += 1; position < end; position += 1) {
    if (data[position] === quote) return position + 1;
    if (data[position] === LESS) return 'none';
  }
  return 'cut';
}

function skipSpace(data: Buffer, start: number, end: number): number {
  let position = start;
  while (position < end && isSpace(data[position])) position += 1;
  return position;
}

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x09 || byte === 0x0a || byte === 0x0d;
}

/** `/` of an end tag or an empty element, `?` of a processing instruction. */
function isClosing(byte: number | undefined): boolean {
  return byte === 0x2f || byte === 0x3f;
}

/** 1 for bytes in names: more than XML allows, but no byte that ends a name. */
const NAME_BYTES = new Uint8Array(256).fill(1);
for (const char of ' \t\n\r<>=/?"\'()[]{}') NAME_BYTES[char.charCodeAt(0)] = 0;

function isNameByte(byte: number | undefined): boolean {
  return byte !== undefined && NAME_BYTES[byte] === 1;
}
