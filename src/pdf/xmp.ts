import { type Extent, jp2Xmp, jpegXmp } from './images.ts';
import { isRegular, isWhitespace, Lexer } from './lexer.ts';
import { NotStrippable } from './notStrippable.ts';
import { isObjectNumber, NumberSet } from './numberSet.ts';
import { type Dictionary, type Visitor, type Walked, walk } from './objects.ts';
import { MARK_BYTES_MAX, marksIn, PacketSearch } from './packets.ts';
import { decoded, type Encoding, encodingOf, STREAM_KEYS, StreamEnds } from './streams.ts';
import { type ByteSource, bufferSource, Window } from './window.ts';

/** Bytes `start` to `end` are to become `text`, filled up with spaces: a document keeps its length, and every offset in it. */
export interface Edit extends Extent {
  text: '' | ' <<>>';
}

/**
 * Finds all XMP of a PDF document, and how to remove it in place. What counts as XMP:
 *
 * - metadata streams (ISO 32000-2, 14.3.2), those of the catalog and of any other object, of the newest and of every
 *   earlier revision, reachable or not: streams of the type Metadata, and streams with a packet in them that at most
 *   Metadata entries refer to. The object becomes an empty dictionary, so neither its filters nor its length matter, and
 *   readers find no metadata rather than a damaged one. (Were it null, the hint tables of a linearized file would count it still);
 * - the XMP of JPEG and JPEG 2000 images: the contents of its segment or box become spaces, which decoders pass over.
 *
 * Everything that can be read as an object is looked at, wherever in the file it begins, and every stream is decoded and
 * searched for packets. A packet in any other place belongs to something else (an attachment, a form): throws NotStrippable, as
 * for a document that is encrypted or signed. The Info dictionary is no XMP.
 *
 * Memory is bounded whatever the document; so is the time, in proportion to its length and what its streams expand to.
 */
export async function findXmp(source: ByteSource, limits: Partial<ScanLimits> = {}): Promise<Edit[]> {
  return new Scan(source, { ...LIMITS, ...limits }).run();
}

/** Applies edits to the bytes that stand at `position`. */
export function applyEdits(data: Buffer, position: number, edits: readonly Edit[]): void {
  for (const { start, end, text } of edits) {
    const from = Math.max(0, start - position);
    const to = Math.min(data.length, end - position);
    if (from >= to) continue;
    data.fill(0x20, from, to);
    for (let i = 0; i < text.length; i += 1) {
      const at = start + i - position;
      if (at >= 0 && at < to) data[at] = text.charCodeAt(i);
    }
  }
}

export interface ScanLimits {
  /** What all filters of a document's streams may make together. */
  decodedBytesMax: number;
  /** The same for one object stream, which is held in memory. */
  objectStreamBytesMax: number;
  /** Of streams with XMP. */
  streamsMax: number;
}

const LIMITS: ScanLimits = {
  decodedBytesMax: 4 * 2 ** 30,
  objectStreamBytesMax: 64 * 2 ** 20,
  streamsMax: 100_000,
};

/** Bytes searched at a time. */
const SWEEP_BYTES = 1 << 20;
/** How often the bytes of a document are read as syntax, on the average: once, unless its objects lie within each other. */
const READINGS_MAX = 16;
const READ_BYTES_MIN = 1 << 20;

/** Of dictionaries. */
const WANTED: ReadonlySet<string> = new Set(['Type', 'Encrypt', 'First', ...STREAM_KEYS]);

interface Stream {
  /** Undefined where the words before `obj` are no object number. */
  objectNumber: number | undefined;
  /** From behind `obj` to before `endobj`; without an end, if that is not where it belongs. */
  object: { start: number; end: number | undefined };
  data: Extent;
  encoding: Encoding;
  /** The XMP of an image, once it was looked for. */
  imageXmp?: Extent[];
  /** Whether another object, or a trailer, begins within its data, or it lies in the data of another stream. */
  entangled: boolean;
}

class Scan implements Visitor {
  readonly #source: ByteSource;
  readonly #limits: ScanLimits;
  readonly #window: Window;
  readonly #ends: StreamEnds;
  #bytesRead = 0;
  #decodedBytes = 0;
  /** Streams whose data the sweep is in. */
  #open: Stream[] = [];
  /** Metadata streams: those that say so, and those with a packet in them. */
  readonly #declared = new Set<Stream>();
  readonly #packets = new Set<Stream>();
  readonly #images = new Set<Stream>();
  /** Object numbers of streams that do not say so. */
  readonly #others = new NumberSet();
  readonly #namedAsMetadata = new NumberSet();
  readonly #namedOtherwise = new NumberSet();
  /** What stands in the way, unless the document turns out to be encrypted or signed, which explains more. */
  #obstacle: string | undefined;

  constructor(source: ByteSource, limits: ScanLimits) {
    this.#source = source;
    this.#limits = limits;
    this.#window = new Window(source);
    this.#ends = new StreamEnds(source, (bytes) => this.#spend(bytes));
  }

  async run(): Promise<Edit[]> {
    for (let start = 0; start < this.#source.bytes; start += SWEEP_BYTES) await this.#sweep(start);
    const edits = this.#edits();
    if (this.#obstacle !== undefined) throw new NotStrippable(this.#obstacle);
    return edits;
  }

  key(name: string): void {
    if (name === 'ByteRange')
      throw new NotStrippable('it is signed (/ByteRange), and any change breaks a signature');
  }

  reference(objectNumber: number, key: string | undefined): void {
    const named = key === 'Metadata' ? this.#namedAsMetadata : this.#namedOtherwise;
    named.add(objectNumber);
  }

  tooDeep(): never {
    throw new NotStrippable('its objects are nested deeper than any document needs');
  }

  async #sweep(start: number): Promise<void> {
    const data = this.#source.read(start, SWEEP_BYTES + MARK_BYTES_MAX);
    const end = Math.min(data.length, SWEEP_BYTES);
    const hits = [
      ...positionsOf('obj', data, end).map((at) => ({ at: start + at, kind: 'object' })),
      ...positionsOf('trailer', data, end).map((at) => ({ at: start + at, kind: 'trailer' })),
      ...marksIn(data, end).map((at) => ({ at: start + at, kind: 'packet' })),
    ].sort((a, b) => a.at - b.at);
    for (const { at, kind } of hits) {
      this.#open = this.#open.filter((stream) => stream.data.end > at);
      if (kind === 'object') await this.#object(at);
      else if (kind === 'trailer') this.#trailer(at);
      else this.#packet(at);
    }
  }

  #trailer(at: number): void {
    if (!this.#isWord(at, 'trailer')) return;
    const { dictionary } = this.#walk(at + 'trailer'.length);
    if (dictionary === undefined) return;
    this.#entangle();
    refuseEncrypted(dictionary);
  }

  async #object(at: number): Promise<void> {
    if (!this.#isWord(at, 'obj')) return;
    const start = at + 'obj'.length;
    const objectNumber = this.#numberBefore(at);
    const { dictionary, keyword, end } = this.#walk(start);
    if (objectNumber === undefined && dictionary === undefined) return;
    this.#entangle();
    if (dictionary?.get('Type') === '/XRef') refuseEncrypted(dictionary);
    if (dictionary !== undefined && keyword === 'stream')
      await this.#stream(objectNumber, start, end, dictionary);
  }

  async #stream(
    objectNumber: number | undefined,
    start: number,
    keywordEnd: number,
    dictionary: Dictionary,
  ): Promise<void> {
    const data = this.#dataAfter(keywordEnd, dictionary);
    const stream: Stream = {
      objectNumber,
      object: { start, end: this.#ends.objectEnd(data.end) },
      data,
      encoding: encodingOf(dictionary),
      entangled: this.#open.length > 0,
    };
    this.#open.push(stream);
    if (dictionary.get('Type') === '/Metadata') return this.#keep(this.#declared, stream);
    this.#others.add(objectNumber ?? -1);
    if (dictionary.get('Type') === '/ObjStm') await this.#objectStream(stream, dictionary);
    else if (stream.encoding.filters.length > 0) await this.#search(stream);
  }

  /** The packets of a stream that is not encoded are found by the sweep. */
  async #search(stream: Stream): Promise<void> {
    const search = new PacketSearch();
    for await (const chunk of this.#decoded(stream)) search.push(chunk);
    search.end();
    if (search.found) this.#keep(this.#packets, stream);
  }

  /** Objects without streams of their own (7.5.7): read for what they refer to. */
  async #objectStream(stream: Stream, dictionary: Dictionary): Promise<void> {
    const chunks: Buffer[] = [];
    let bytes = 0;
    for await (const chunk of this.#decoded(stream)) {
      bytes += chunk.length;
      if (bytes > this.#limits.objectStreamBytesMax) throw expandsTooFar();
      chunks.push(chunk);
    }
    const first = dictionary.get('First');
    const isWhole = stream.encoding.codec === undefined && typeof first === 'number' && bytes >= first;
    if (!isWhole) return this.#hinder(`its object stream, ${nameOf(stream)}, cannot be read`);
    const content = Buffer.concat(chunks);
    const lexer = new Lexer(new Window(bufferSource(content)), 0);
    while (lexer.position < bytes) walk(lexer, NOTHING, this);
    if (marksIn(content).length > 0) this.#keep(this.#packets, stream);
  }

  #decoded({ data, encoding }: Stream): AsyncIterable<Buffer> {
    return decoded(this.#source, data, encoding, (bytes) => {
      this.#decodedBytes += bytes;
      if (this.#decodedBytes > this.#limits.decodedBytesMax) throw expandsTooFar();
    });
  }

  /** A packet that stands in the file as it is. */
  #packet(at: number): void {
    const stream = this.#open.at(-1);
    if (stream === undefined) this.#hinder('it has XMP outside of its streams');
    if (stream === undefined || this.#declared.has(stream)) return;
    stream.imageXmp ??= imageXmp(this.#source, stream);
    const isOfImage = stream.imageXmp.some(({ start, end }) => start <= at && at < end);
    this.#keep(isOfImage ? this.#images : this.#packets, stream);
  }

  #keep(streams: Set<Stream>, stream: Stream): void {
    streams.add(stream);
    const found = this.#declared.size + this.#packets.size + this.#images.size;
    if (found > this.#limits.streamsMax) throw new NotStrippable('it has more XMP than any document needs');
  }

  #edits(): Edit[] {
    const metadata = [...this.#declared, ...this.#packets];
    const numbers = new Set(metadata.map(({ objectNumber }) => objectNumber));
    for (const number of this.#namedAsMetadata.intersection(this.#others)) {
      if (!numbers.has(number)) this.#hinder(`object ${number} is named as metadata, but is something else`);
    }
    for (const stream of metadata) this.#requireNothingElse(stream);
    for (const stream of this.#images) this.#requireApart(stream);
    return [
      ...metadata.map(({ object: { start, end = start } }): Edit => ({ start, end, text: ' <<>>' })),
      ...[...this.#images].flatMap(({ imageXmp = [] }) =>
        imageXmp.map((extent): Edit => ({ ...extent, text: '' })),
      ),
    ].sort((a, b) => a.start - b.start);
  }

  /** An object that is emptied must be metadata and nothing else: otherwise the document would look different. */
  #requireNothingElse(stream: Stream): void {
    const { objectNumber, object } = stream;
    this.#requireApart(stream);
    if (objectNumber === undefined || !isObjectNumber(objectNumber) || object.end === undefined) {
      this.#hinder(`where its metadata, ${nameOf(stream)}, begins and ends cannot be told`);
    } else if (this.#namedOtherwise.has(objectNumber)) {
      this.#hinder(
        `${nameOf(stream)} holds XMP, but is not only metadata: an attachment, for example, or part of a form`,
      );
    }
  }

  #requireApart(stream: Stream): void {
    if (stream.entangled)
      this.#hinder(`${nameOf(stream)}, with XMP, and other objects lie within each other`);
  }

  #entangle(): void {
    for (const stream of this.#open) stream.entangled = true;
  }

  #hinder(why: string): void {
    this.#obstacle ??= why;
  }

  #walk(start: number): Walked & { end: number } {
    const lexer = new Lexer(this.#window, start);
    const walked = walk(lexer, WANTED, this);
    this.#spend(lexer.position - start);
    if (walked.cut) throw new NotStrippable('a dictionary of it is longer than any needs');
    return { ...walked, end: lexer.position };
  }

  #spend(bytes: number): void {
    this.#bytesRead += bytes;
    if (this.#bytesRead > READINGS_MAX * this.#source.bytes + READ_BYTES_MIN) {
      throw new NotStrippable('its objects lie within each other');
    }
  }

  #isWord(at: number, word: string): boolean {
    return !isRegular(this.#window.at(at - 1)) && !isRegular(this.#window.at(at + word.length));
  }

  /** Of `12 0 obj`, the 12. */
  #numberBefore(at: number): number | undefined {
    let position = at;
    const back = (is: (byte: number | undefined) => boolean) => {
      const end = position;
      while (end - position < HEADER_BYTES_MAX && is(this.#window.at(position - 1))) position -= 1;
      return end - position;
    };
    const isHeader = back(isWhitespace) > 0 && back(isDigit) > 0 && back(isWhitespace) > 0;
    const digits = isHeader ? back(isDigit) : 0;
    if (digits === 0) return undefined;
    return Number(
      Array.from({ length: digits }, (_, i) => (this.#window.at(position + i) ?? 0) - ZERO).join(''),
    );
  }

  /** Behind `stream` a line ends: CR LF or LF (7.3.8.1), or what readers take for it. */
  #dataAfter(keywordEnd: number, dictionary: Dictionary): Extent {
    let start = keywordEnd;
    while (this.#window.at(start) === 0x20) start += 1;
    if (!isLineEnd(this.#window.at(start))) start = keywordEnd;
    start += this.#window.holds(start, '\r\n') ? 2 : isLineEnd(this.#window.at(start)) ? 1 : 0;
    const end = this.#ends.find(start, dictionary.get('Length'));
    return { start, end: end ?? this.#source.bytes };
  }
}

const NOTHING: ReadonlySet<string> = new Set();
const HEADER_BYTES_MAX = 32;
const ZERO = 0x30;

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= ZERO && byte <= ZERO + 9;
}

function isLineEnd(byte: number | undefined): boolean {
  return byte === 0x0a || byte === 0x0d;
}

function positionsOf(word: string, data: Buffer, end: number): number[] {
  const positions: number[] = [];
  for (let at = data.indexOf(word); at >= 0 && at < end; at = data.indexOf(word, at + word.length))
    positions.push(at);
  return positions;
}

function imageXmp(source: ByteSource, { data, encoding }: Stream): Extent[] {
  if (encoding.filters.length > 0) return [];
  if (encoding.codec === '/DCTDecode' || encoding.codec === '/DCT') return [...jpegXmp(source, data)];
  return encoding.codec === '/JPXDecode' ? [...jp2Xmp(source, data)] : [];
}

function nameOf({ objectNumber }: Stream): string {
  return objectNumber === undefined ? 'an object without a number' : `object ${objectNumber}`;
}

function refuseEncrypted(dictionary: Dictionary): void {
  if (dictionary.get('Encrypt') !== undefined) throw new NotStrippable('it is encrypted');
}

function expandsTooFar(): NotStrippable {
  return new NotStrippable('its streams expand to more than any document needs');
}
