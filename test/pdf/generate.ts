/** Hostile documents, each made of one seed: XMP in places, forms and encodings that readers take differently. */
import { deflateSync } from 'node:zlib';
import { jpeg, pdfFile } from '../support/pdf.ts';
import { ascii85, asciiHex, lzw, pngPredicted, runLength, tiffPredicted } from './encoders.ts';

/** Choices that a seed gives (mulberry32). */
export class Chance {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** From 0 inclusive to 1 exclusive. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  below(count: number): number {
    return Math.floor(this.next() * count);
  }

  /** Whether something that happens once in so many times happens. */
  once(times: number): boolean {
    return this.below(times) === 0;
  }

  of<T>(...choices: readonly [T, ...T[]]): T {
    return choices[this.below(choices.length)] ?? choices[0];
  }
}

/** What all XMP of the document with this number holds, and nothing else does: whoever shows it shows XMP. */
export function secretOf(seed: number): string {
  return `SECRET${String(seed).padStart(10, '0')}X`;
}

interface Written {
  /** Between `obj` and `endobj`. */
  content: Buffer;
  number: number;
}

const RDF = 'http://www.w3.org/1999/02/22-rdf-syntax-ns#';

/** One document under way. */
class Making {
  readonly chance: Chance;
  readonly secret: string;
  readonly objects: Written[] = [];
  /** Objects that are no streams, to go into an object stream. */
  readonly packed: Map<number, string> = new Map();
  /** Entries for the catalog, the page, the trailer. */
  catalog = '';
  page = '';
  trailer = '';
  #nextNumber = 5;

  constructor(seed: number) {
    this.chance = new Chance(seed);
    this.secret = secretOf(seed);
  }

  number(): number {
    this.#nextNumber += 1;
    return this.#nextNumber - 1;
  }

  add(content: Buffer | string, number = this.number()): number {
    this.objects.push({ content: Buffer.from(content), number });
    return number;
  }

  /** A value of its own somewhere: in the dictionary, in an object, in an object stream. */
  value(text: string): string {
    const where = this.chance.below(20);
    if (where > 2) return text;
    const number = this.number();
    if (where === 0) this.packed.set(number, text);
    else this.add(text, number);
    if (where === 2 && this.chance.once(2))
      this.add(this.chance.of('/FlateDecode', '1', 'null', '-7'), number);
    return `${number} 0 R`;
  }
}

/** The document of this seed. */
export function hostileDocument(seed: number): Buffer {
  const making = new Making(seed);
  const { chance } = making;
  const count = 1 + chance.below(3);
  for (let i = 0; i < count; i += 1) chance.of(...PLACES)(making);
  const document = assembled(making);
  return chance.once(8) ? damaged(document, chance) : document;
}

function packet({ chance, secret }: Making): Buffer {
  const description = `<rdf:Description rdf:about="" xmlns:dc="http://purl.org/dc/elements/1.1/" dc:source="${secret}"/>`;
  const rdf = `<rdf:RDF xmlns:rdf="${RDF}">${description}</rdf:RDF>`;
  const meta = `<x:xmpmeta xmlns:x="adobe:ns:meta/">${rdf}</x:xmpmeta>`;
  const whole = `<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>${meta}<?xpacket end="w"?>`;
  const text = chance.of(
    whole,
    whole,
    meta,
    rdf,
    meta.replaceAll('x:', 'q:').replace('xmlq:', 'xmlns:'),
    meta.replaceAll('rdf:', 'r:'),
  );
  const encoding = chance.below(12);
  if (encoding === 0) return Buffer.from(text, 'utf16le');
  if (encoding === 1) return Buffer.from(`\ufeff${text}`, 'utf16le').swap16();
  if (encoding === 2)
    return Buffer.concat(
      [...text].map((char) => Buffer.of(0, 0, char.charCodeAt(0) >> 8, char.charCodeAt(0) & 255)),
    );
  return Buffer.from(text);
}

type Place = (making: Making) => void;

const PLACES: readonly [Place, ...Place[]] = [
  typed,
  typed,
  typed,
  untyped,
  untyped,
  inString,
  inImage,
  attachment,
  attachedDocument,
  harmless,
  harmless,
];

function typed(making: Making): void {
  const type = making.chance.of(
    '/Type /Metadata /Subtype /XML',
    '/Type /Metadata',
    '/Type/Met#61data',
    '/Type % type\n/Metadata',
    `/Type ${making.value('/Metadata')}`,
    '/Type /XML /Type /Metadata',
  );
  name(making, making.add(stream(making, type, packet(making))));
}

function untyped(making: Making): void {
  const number = making.add(
    stream(making, making.chance.of('', '/Subtype /XML', '/Type /XObject'), packet(making)),
  );
  if (!making.chance.once(3)) name(making, number);
}

/** Metadata of the catalog, of the page, of another object, or nobody's. */
function name(making: Making, number: number): void {
  const key = making.chance.of('/Metadata', '/Metadata', '/Meta#64ata');
  const entry = ` ${key} ${number} 0 R`;
  const where = making.chance.below(8);
  if (where < 4) making.catalog += entry;
  else if (where === 4) making.page += entry;
  else if (where === 5) making.packed.set(making.number(), `<<${entry} >>`);
  else if (where === 6) making.add(`<<${entry} >>`);
}

function inString(making: Making): void {
  const data = packet(making);
  const literal = `(${data.toString('latin1').replace(/[()\\]/g, '\\$&')})`;
  const octal = `(${[...data].map((byte) => `\\${byte.toString(8).padStart(3, '0')}`).join('')})`;
  const text = making.chance.of(literal, `<${data.toString('hex')}>`, octal);
  if (making.chance.once(3)) making.packed.set(making.number(), text);
  else making.add(Buffer.from(making.chance.of(text, `<< /A [${text}] >>`), 'latin1'));
}

function inImage(making: Making): void {
  const segment = Buffer.concat([Buffer.from('http://ns.adobe.com/xap/1.0/\0'), packet(making)]);
  const data = jpeg({ marker: making.chance.of(0xe1, 0xe1, 0xed), data: segment });
  const entries =
    '/Type /XObject /Subtype /Image /Width 8 /Height 8 /ColorSpace /DeviceGray /BitsPerComponent 8 /Filter';
  const isDeflated = making.chance.once(5);
  const filter = isDeflated ? '[/FlateDecode /DCTDecode]' : '/DCTDecode';
  const encoded = isDeflated ? deflateSync(data) : data;
  const number = making.add(written(making, `${entries} ${filter}`, encoded));
  making.page += ` /Resources << /XObject << /Im${number} ${number} 0 R >> >>`;
}

function attachment(making: Making): void {
  const number = making.add(stream(making, '/Type /EmbeddedFile', packet(making)));
  attach(making, number);
}

function attach(making: Making, number: number): void {
  making.catalog += ` /Names << /EmbeddedFiles << /Names [(a) << /Type /Filespec /F (a) /EF << /F ${number} 0 R >> >>] >> >>`;
}

/** The attached document has no XMP half of the time. */
function attachedDocument(making: Making): void {
  const inner = new Making(0);
  Object.assign(inner, { chance: making.chance, secret: making.secret });
  (making.chance.once(2) ? typed : harmless)(inner);
  const file = assembled(inner);
  const isDeflated = making.chance.once(2);
  const entries = `/Type /EmbeddedFile ${isDeflated ? '/Filter /FlateDecode' : ''}`;
  attach(making, making.add(written(making, entries, isDeflated ? deflateSync(file) : file)));
}

function harmless(making: Making): void {
  making.add(stream(making, '', Buffer.from('BT (no metadata) Tj ET '.repeat(1 + making.chance.below(5)))));
}

/** A stream of the data, through up to three filters. */
function stream(making: Making, entries: string, plain: Buffer): Buffer {
  const { chance } = making;
  const [names, parameters]: [string[], string[]] = [[], []];
  let data = plain;
  for (let count = chance.of(0, 0, 1, 1, 1, 2, 3); count > 0; count -= 1) {
    const { filter, parms, encoded } = filtered(chance, data);
    names.unshift(filter);
    parameters.unshift(parms);
    data = encoded;
  }
  if (chance.once(40)) names.unshift('/Crypt');
  return written(making, `${entries} ${filterEntries(making, names, parameters)}`, data);
}

function filtered(chance: Chance, data: Buffer): { filter: string; parms: string; encoded: Buffer } {
  const plain = (filter: string, encoded: Buffer) => ({ filter, parms: 'null', encoded });
  switch (chance.below(8)) {
    case 0:
      return plain(chance.of('/ASCIIHexDecode', '/AHx', '/ASCIIH#65xDecode'), asciiHex(data));
    case 1:
      return plain('/ASCII85Decode', ascii85(data));
    case 2:
      return plain('/RunLengthDecode', runLength(data));
    case 3:
      return plain(chance.of('/LZWDecode', '/LZW'), lzw(data));
    case 4: {
      const parms = '<< /Predictor 15 /Columns 16 >>';
      return { filter: '/FlateDecode', parms, encoded: deflateSync(pngPredicted(data)) };
    }
    case 5: {
      const parms = `<< /Predictor 2 /Columns ${data.length} >>`;
      return { filter: '/FlateDecode', parms, encoded: deflateSync(tiffPredicted(data)) };
    }
    default:
      return plain(chance.of('/FlateDecode', '/Fl'), deflated(chance, data));
  }
}

/** As it should be, mostly; or with a wrong checksum, cut off, with something behind it, or behind a line end. */
function deflated(chance: Chance, data: Buffer): Buffer {
  const good = deflateSync(data, { level: chance.below(10) });
  switch (chance.below(12)) {
    case 0:
      return Buffer.concat([good.subarray(0, -1), Buffer.of(((good.at(-1) ?? 0) + 1) & 255)]);
    case 1:
      return good.subarray(0, -4 - chance.below(3));
    case 2:
      return Buffer.concat([good, Buffer.from('and more')]);
    case 3:
      return Buffer.concat([Buffer.from(chance.of('\n', '\r\n', ' ')), good]);
    default:
      return good;
  }
}

function filterEntries(making: Making, names: string[], parameters: string[]): string {
  const { chance } = making;
  if (names.length === 0) return chance.once(10) ? '/Filter []' : '';
  const isSingle = names.length === 1 && !chance.once(3);
  const list = isSingle ? (names[0] ?? '') : `[${names.map((own) => making.value(own)).join(' ')}]`;
  const key = chance.once(15) ? '/F' : '/Filter';
  const needsParameters = parameters.some((own) => own !== 'null');
  const parms = isSingle ? (parameters[0] ?? '') : `[${parameters.join(' ')}]`;
  const shape = chance.once(12) ? (parameters.find((own) => own !== 'null') ?? 'null') : parms;
  const repeated = chance.once(25) ? chance.of('/Filter /FlateDecode', '/Filter null', `${key} ${list}`) : '';
  const parmsKey = chance.once(15) ? '/DP' : '/DecodeParms';
  return `${key} ${making.value(list)} ${needsParameters ? `${parmsKey} ${making.value(shape)}` : ''} ${repeated}`;
}

/** A stream as it stands in the file, its length told in one way or another. */
function written(making: Making, entries: string, data: Buffer): Buffer {
  const { chance } = making;
  const begin = chance.of('\n', '\n', '\n', '\n', '\r\n', ' \n', '\r');
  const end = chance.of('\n', '\n', '\r\n', '', ' ');
  const stray = chance.once(20)
    ? chance.of('/A endobj', '/A [ >>', '/A 1 2', '% stream\n', '/A (stream\n)', '/A')
    : '';
  const parts = [entries, `/Length ${lengthOf(making, data)}`, stray];
  const order = chance.once(3) ? parts.reverse() : parts;
  const head = `<< ${order.join(' ')} >>${chance.of('\n', '', ' % c\n', ' ')}stream${begin}`;
  return Buffer.concat([Buffer.from(head), data, Buffer.from(`${end}endstream`)]);
}

function lengthOf(making: Making, data: Buffer): string {
  const { chance } = making;
  const right = String(data.length);
  if (!chance.once(4)) return making.value(right);
  return chance.of(
    '0',
    '-1',
    `-${100 + chance.below(600)}`,
    `${right}.0`,
    `${right}.7`,
    String(chance.below(data.length + 1)),
    String(data.length + chance.below(2000)),
    '99999999',
    'null',
    '(7)',
    '99 0 R',
  );
}

/** The file: one or several revisions, each with a table, a stream or both for cross-references, or with none that is right. */
function assembled(making: Making): Buffer {
  const { chance } = making;
  making.add(`<< /Type /Catalog /Pages 2 0 R ${making.catalog} >>`, 1);
  making.add('<< /Type /Pages /Kids [3 0 R] /Count 1 >>', 2);
  making.add(`<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] /Contents 4 0 R ${making.page} >>`, 3);
  making.add('<< /Length 5 >>\nstream\n0 0 m\nendstream', 4);
  const file = new FileWriter(chance);
  const own = making.objects;
  const revisions = 1 + (chance.once(3) ? 1 + chance.below(2) : 0);
  for (let i = 0; i < revisions; i += 1) {
    const isLast = i === revisions - 1;
    const these = own.filter((_, at) =>
      isLast ? at % revisions === i || at >= own.length - 4 : at % revisions === i,
    );
    file.revision(these, isLast ? making.packed : new Map(), making.trailer);
  }
  if (chance.once(6))
    file.revision(
      [{ number: 5 + chance.below(4), content: Buffer.from('<< /Replaced true >>') }],
      new Map(),
      '',
    );
  return file.bytes();
}

class FileWriter {
  readonly #chance: Chance;
  readonly #pieces: Buffer[] = [Buffer.from('%PDF-1.7\n%\xe2\xe3\xcf\xd3\n', 'latin1')];
  #position = 15;
  #previous: number | undefined;
  #nextNumber = 60;

  constructor(chance: Chance) {
    this.#chance = chance;
  }

  bytes(): Buffer {
    return Buffer.concat(this.#pieces);
  }

  revision(objects: readonly Written[], packed: ReadonlyMap<number, string>, trailer: string): void {
    const chance = this.#chance;
    const entries = new Map<number, string>();
    for (const { number, content } of objects) {
      entries.set(number, this.#entry(1, this.#position, 0));
      this.#add(`${number} 0${chance.of(' ', ' ', ' ', '\n', '')}obj${chance.of('\n', ' ', '')}`);
      this.#add(content);
      this.#add(chance.once(30) ? '\n' : chance.of('\nendobj\n', '\nendobj\n', ' endobj '));
    }
    if (packed.size > 0) this.#pack(packed, entries);
    const kind =
      packed.size > 0
        ? chance.of('stream', 'stream', 'hybrid')
        : chance.of('table', 'table', 'stream', 'hybrid');
    const about = `/Root 1 0 R ${this.#previous === undefined ? '' : `/Prev ${this.#previous}`} ${trailer}`;
    this.#crossReferences(kind, entries, about);
  }

  #crossReferences(kind: 'table' | 'stream' | 'hybrid', entries: Map<number, string>, about: string): void {
    const at = this.#position;
    const hybrid = kind === 'table' ? '' : `/XRefStm ${at}`;
    if (kind !== 'table') this.#referenceStream(entries, about);
    const start = kind === 'stream' ? at : this.#position;
    if (kind !== 'stream') this.#table(entries, `${about} ${kind === 'hybrid' ? hybrid : ''}`);
    this.#previous = start;
    this.#add(`startxref\n${this.#chance.once(10) ? this.#chance.below(500) : start}\n%%EOF\n`);
  }

  /** Objects that are no streams, in an object stream. */
  #pack(packed: ReadonlyMap<number, string>, entries: Map<number, string>): void {
    let [head, body] = ['', ''];
    const number = this.#number();
    for (const [i, [own, text]] of [...packed].entries()) {
      head += `${own} ${body.length} `;
      body += `${text} `;
      entries.set(own, this.#entry(2, number, i));
    }
    const data = deflateSync(Buffer.from(head + body, 'latin1'));
    const type = this.#chance.once(8) ? '' : '/Type /ObjStm';
    entries.set(number, this.#entry(1, this.#position, 0));
    this.#add(
      `${number} 0 obj\n<< ${type} /N ${packed.size} /First ${head.length} /Filter /FlateDecode /Length ${data.length} >>\nstream\n`,
    );
    this.#add(data);
    this.#add('\nendstream\nendobj\n');
  }

  #referenceStream(entries: Map<number, string>, about: string): void {
    const number = this.#number();
    entries.set(number, this.#entry(1, this.#position, 0));
    const sorted = [...entries].sort(([a], [b]) => a - b);
    const data = deflateSync(Buffer.from(sorted.map(([, entry]) => entry).join(''), 'hex'));
    const index = sorted.map(([own]) => `${own} 1`).join(' ');
    this.#add(
      `${number} 0 obj\n<< /Type /XRef /W [1 4 2] /Index [${index}] /Size 99 ${about} /Filter /FlateDecode /Length ${data.length} >>\nstream\n`,
    );
    this.#add(data);
    this.#add('\nendstream\nendobj\n');
  }

  #table(entries: Map<number, string>, about: string): void {
    this.#add('xref\n0 1\n0000000000 65535 f \n');
    for (const [number, entry] of entries) {
      if (!entry.startsWith('01')) continue;
      this.#add(
        `${number} 1\n${String(Number.parseInt(entry.slice(2, 10), 16)).padStart(10, '0')} 00000 n \n`,
      );
    }
    this.#add(`trailer\n<< /Size 99 ${about} >>\n`);
  }

  #entry(type: number, second: number, third: number): string {
    const hex = (value: number, bytes: number) => value.toString(16).padStart(2 * bytes, '0');
    return hex(type, 1) + hex(second, 4) + hex(third, 2);
  }

  #number(): number {
    this.#nextNumber += 1;
    return this.#nextNumber;
  }

  #add(piece: Buffer | string): void {
    const bytes = Buffer.from(piece);
    this.#pieces.push(bytes);
    this.#position += bytes.length;
  }
}

const SNIPPETS: readonly [string, ...string[]] = [
  'endstream',
  'endobj',
  '6 0 obj',
  'stream\n',
  '<<',
  '>>',
  '[',
  '(',
  '%',
  '/Metadata',
  ' 5 0 R ',
  'trailer',
];

/** A few bytes set, removed, added or repeated. */
function damaged(document: Buffer, chance: Chance): Buffer {
  let data = document;
  for (let count = 1 + chance.below(3); count > 0; count -= 1) {
    const at = chance.below(data.length);
    const [before, after] = [data.subarray(0, at), data.subarray(at)];
    const bytes = chance.once(2) ? Buffer.of(chance.below(256)) : Buffer.from(chance.of(...SNIPPETS));
    const kind = chance.below(4);
    if (kind === 0) data = Buffer.concat([before, bytes, after.subarray(bytes.length)]);
    else if (kind === 1) data = Buffer.concat([before, after.subarray(bytes.length)]);
    else if (kind === 2) data = Buffer.concat([before, after.subarray(0, 300), after]);
    else data = Buffer.concat([before, bytes, after]);
  }
  return data;
}

/** A document of which every tool sees the XMP: what proves that they look. */
export function openDocument(seed: number): Buffer {
  const making = new Making(seed);
  const text = `<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="${RDF}"><rdf:Description xmlns:dc="http://purl.org/dc/elements/1.1/" dc:source="${making.secret}"/></rdf:RDF></x:xmpmeta>`;
  return pdfFile({
    1: '<< /Type /Catalog /Pages 2 0 R /Metadata 3 0 R >>',
    2: '<< /Type /Pages /Kids [] /Count 0 >>',
    3: `<< /Type /Metadata /Subtype /XML /Length ${text.length} >>\nstream\n${text}\nendstream`,
  });
}
