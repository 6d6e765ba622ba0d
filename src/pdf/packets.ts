/** What XMP looks like wherever it lies (ISO 16684-1, 7.3; ISO 16684-3). */
interface Mark {
  bytes: Buffer;
  /** What must follow the mark, as far as it can be seen: prose about XMP has the words but not the syntax. */
  follows?: RegExp;
}

/** The names that begin the XMP segments of JPEG (ISO 16684-3, 3.1.3). */
export const JPEG_SEGMENT_NAMES = ['http://ns.adobe.com/xap/1.0/\0', 'http://ns.adobe.com/xmp/extension/\0'];
/** The name of the XMP box of JPEG 2000 (ISO 16684-3, 3.1.4). */
export const JP2_BOX_NAME = Buffer.from('be7acfcb97a942e89c71999491e3afac', 'hex');

const HEADER = /^[^>]{0,2000}\?>\s*(<|$)/;
const ELEMENT = /^\s[^>]{0,2000}>\s*(<|$)/;

const MARKS: readonly Mark[] = [
  { bytes: Buffer.from('<?xpacket begin'), follows: HEADER },
  { bytes: Buffer.from('<x:xmpmeta'), follows: ELEMENT },
  { bytes: Buffer.from('<x:xapmeta'), follows: ELEMENT },
  // In UTF-16 and UTF-32, of either byte order.
  { bytes: spread('<?xpacket begin', 1) },
  { bytes: spread('<?xpacket begin', 3) },
  ...JPEG_SEGMENT_NAMES.map((name) => ({ bytes: Buffer.from(name) })),
  { bytes: JP2_BOX_NAME },
];

/** Longest that a mark and what must follow it can be; bytes that have to be at hand to judge one. */
export const MARK_BYTES_MAX = 4096;

function spread(text: string, zeros: number): Buffer {
  return Buffer.from([...text].join('\0'.repeat(zeros)));
}

/** Where XMP begins in `data`, in order, of marks before `end`. */
export function marksIn(data: Buffer, end = data.length): number[] {
  return MARKS.flatMap((mark) => [...find(data, mark, end)]).sort((a, b) => a - b);
}

function* find(data: Buffer, { bytes, follows }: Mark, end: number): Iterable<number> {
  for (let at = data.indexOf(bytes); at >= 0 && at < end; at = data.indexOf(bytes, at + 1)) {
    const after = at + bytes.length;
    if (follows === undefined || follows.test(data.toString('latin1', after, at + MARK_BYTES_MAX))) yield at;
  }
}

/** Looks for a mark in bytes that come in chunks. */
export class PacketSearch {
  #kept = Buffer.alloc(0);
  found = false;

  push(chunk: Buffer): void {
    if (this.found) return;
    const data = this.#kept.length === 0 ? chunk : Buffer.concat([this.#kept, chunk]);
    const end = Math.max(0, data.length - MARK_BYTES_MAX);
    this.found = marksIn(data, end).length > 0;
    this.#kept = Buffer.from(data.subarray(end));
  }

  end(): void {
    this.found ||= marksIn(this.#kept).length > 0;
  }
}
