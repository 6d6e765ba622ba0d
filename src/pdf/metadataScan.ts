import type { Budget } from './budget.ts';
import { Definitions } from './definitions.ts';
import { StreamEnds } from './ends.ts';
import { type Edit, Findings, nameOf, type Stream } from './findings.ts';
import { type Extent, jp2Xmp, jpegXmp } from './images.ts';
import { Lexer } from './lexer.ts';
import { positionsOf } from './needles.ts';
import { NotStrippable, Undecodable } from './notStrippable.ts';
import { NumberSet } from './numberSet.ts';
import { type Dictionary, type Visitor, type Walked, walk } from './objects.ts';
import { MARK_BYTES_MAX, marksIn, PacketSearch } from './packets.ts';
import { decoded, type Encoding, encodingOf, STREAM_KEYS } from './streams.ts';
import { dataStart, isWord, objectNumberBefore } from './syntax.ts';
import { type ByteSource, bufferSource, part, Window } from './window.ts';

/** Bytes searched at a time. */
const SWEEP_BYTES = 1 << 20;
/** How often each byte of a document is read as syntax on average: once, unless its objects lie within each other. */
const READINGS_MAX = 16;
const READ_BYTES_MIN = 1 << 20;
/** Reading a byte as syntax costs as much work as searching so many bytes. */
const READING_WORK = 8;
/** The cost of starting a stream, in the same unit. */
const STREAM_WORK = 8 * 1024;
/** Maximum size of an object stream or an attached document, which are held in memory. */
const HELD_BYTES_MAX = 64 * 2 ** 20;
/** Maximum number of streams whose data lies within each other. */
const OPEN_MAX = 64;
/** Between a dictionary and the word `stream` there is white space, and rarely a comment. */
const DICTIONARY_WITHIN = 4096;
/** Maximum depth of documents attached to documents. */
const DEPTH_MAX = 4;
const PDF_HEADER = '%PDF-';
/** Where readers look for the header (implementation note of PDF 1.7). */
const PDF_HEADER_WITHIN = 1024;

/** The dictionary entries needed. */
const WANTED: ReadonlySet<string> = new Set(['Type', 'Subtype', 'First', 'N', 'Width', 'W', ...STREAM_KEYS]);
const NOTHING: ReadonlySet<string> = new Set();
const WORDS = ['obj', 'trailer', 'stream'] as const;

/** Scans one document from its first byte to its last. */
export class MetadataScan implements Visitor {
  readonly #source: ByteSource;
  readonly #budget: Budget;
  /** The depth of attachment: how many documents contain this one. */
  readonly #depth: number;
  readonly #window: Window;
  readonly #definitions: Definitions;
  readonly #ends: StreamEnds;
  readonly #findings = new Findings();
  /** Objects in object streams. */
  readonly #packed = new NumberSet();
  #bytesRead = 0;
  /** Streams whose data the sweep is currently in. */
  #open: Stream[] = [];
  /** The positions of the words `stream` that belong to objects. */
  readonly #keywords = new Set<number>();
  /** End of an attached document that was scanned on its own: the sweep continues behind it. */
  #attachedEnd = 0;

  constructor(source: ByteSource, budget: Budget, depth = 0) {
    this.#source = source;
    this.#budget = budget;
    this.#depth = depth;
    this.#window = new Window(source);
    const spend = (bytes: number) => this.#spend(bytes);
    this.#definitions = new Definitions(source, spend);
    this.#ends = new StreamEnds(source, (reference) => this.#definitions.valuesOf(reference), spend);
  }

  async run(): Promise<Edit[]> {
    for (let start = 0; start < this.#source.bytes; start += SWEEP_BYTES) await this.#sweep(start);
    for (const number of this.#definitions.resolved.intersection(this.#packed))
      this.#findings.hinder(`what object ${number} says of a stream cannot be told: it is defined twice`);
    return this.#findings.edits();
  }

  /** A signed attachment is left unchanged, and so its signature stays valid, whatever happens to the rest. */
  key(name: string): void {
    if (name === 'Encrypt') throw new NotStrippable('it is encrypted');
    if (name === 'ByteRange' && this.#depth === 0)
      throw new NotStrippable('it is signed (/ByteRange), and any change breaks a signature');
  }

  reference(objectNumber: number, key: string | undefined): void {
    this.#findings.reference(objectNumber, key);
  }

  xmpString(): void {
    this.#findings.hinder('it has XMP in a string');
  }

  async #sweep(start: number): Promise<void> {
    const before = Math.min(start, MARK_BYTES_MAX);
    const data = this.#source.read(start - before, before + SWEEP_BYTES + MARK_BYTES_MAX);
    this.#budget.spend(data.length);
    const end = Math.min(data.length, before + SWEEP_BYTES);
    const hits = [
      ...WORDS.flatMap((kind) => [...positionsOf(kind, data, before, end)].map((at) => ({ at, kind }))),
      ...marksIn(data, before, end).map((at) => ({ at, kind: 'packet' as const })),
    ].sort((a, b) => a.at - b.at);
    for (const hit of hits) await this.#hit(start - before + hit.at, hit.kind);
  }

  async #hit(at: number, kind: (typeof WORDS)[number] | 'packet'): Promise<void> {
    if (at < this.#attachedEnd) return;
    this.#open = this.#open.filter((stream) => stream.data.end > at);
    if (kind === 'packet') this.#packet(at);
    else if (!isWord(this.#window, at, kind)) return;
    else if (kind === 'obj') await this.#object(at);
    else if (kind === 'stream') this.#keyword(at);
    else if (this.#walk(at + 'trailer'.length).value instanceof Map) this.#entangle();
  }

  /** Every stream must belong to an object that was understood: otherwise some data would remain unscanned. */
  #keyword(at: number): void {
    if (this.#keywords.delete(at)) return;
    const from = Math.max(0, at - DICTIONARY_WITHIN);
    const dictionaryEnd = this.#source.read(from, at - from).lastIndexOf('>>');
    if (dictionaryEnd < 0) return;
    const lexer = new Lexer(this.#window, from + dictionaryEnd + '>>'.length);
    lexer.skipWhitespace();
    if (lexer.position === at)
      this.#findings.hinder(`it has a stream, at byte ${at}, whose object cannot be told`);
  }

  async #object(at: number): Promise<void> {
    const start = at + 'obj'.length;
    const objectNumber = objectNumberBefore(this.#window, at);
    const { value, keyword, end, ambiguity } = this.#walk(start);
    if (objectNumber === undefined && !(value instanceof Map)) return;
    this.#entangle();
    if (!(value instanceof Map) || keyword !== 'stream') return;
    this.#keywords.add(end - 'stream'.length);
    try {
      if (ambiguity !== undefined) throw new Undecodable(`of its dictionary, ${ambiguity}`);
      await this.#stream({ objectNumber, start }, end, value);
    } catch (error) {
      if (!(error instanceof Undecodable)) throw error;
      this.#findings.hinder(`${nameOf({ objectNumber })} cannot be looked into: ${error.message}`);
    }
  }

  async #stream(
    { objectNumber, start }: { objectNumber: number | undefined; start: number },
    keywordEnd: number,
    dictionary: Dictionary,
  ): Promise<void> {
    this.#budget.spend(STREAM_WORK);
    const data = this.#ends.find(dataStart(this.#window, keywordEnd), dictionary.get('Length'));
    const stream: Stream = {
      objectNumber,
      object: { start, end: this.#ends.objectEnd(data.end) },
      data,
      codec: undefined,
      entangled: this.#open.length > 0,
    };
    this.#open.push(stream);
    if (this.#open.length > OPEN_MAX) throw new NotStrippable('its objects lie within each other');
    if (dictionary.get('Type') === '/Metadata') return this.#findings.metadata(stream);
    this.#findings.other(stream);
    const encoding = encodingOf(dictionary, (value) => this.#definitions.resolve(value));
    if (encoding.codec !== undefined && !isImage(dictionary))
      throw new Undecodable(`it goes through ${encoding.codec}, but is not an image`);
    if (encoding.stages.length === 0) stream.codec = encoding.codec;
    if (isObjectStream(dictionary)) await this.#objectStream(stream, encoding, dictionary);
    else if (encoding.stages.length > 0) await this.#search(stream, encoding);
    else await this.#plain(stream);
  }

  /** The sweep finds the packets of a stream without filters; an attached document is scanned on its own. */
  async #plain(stream: Stream): Promise<void> {
    const { start, end } = stream.data;
    if (!this.#source.read(start, Math.min(end - start, PDF_HEADER_WITHIN)).includes(PDF_HEADER)) return;
    if (!stream.data.isCertain) throw new Undecodable('it is an attached document without a certain end');
    this.#attachedEnd = end;
    await this.#attached(stream, part(this.#source, stream.data));
  }

  async #attached(stream: Stream, document: ByteSource): Promise<void> {
    if (this.#depth === DEPTH_MAX) throw new Undecodable('documents are attached to documents too deep');
    try {
      const edits = await new MetadataScan(document, this.#budget, this.#depth + 1).run();
      if (edits.length > 0) this.#findings.packet(stream);
    } catch (error) {
      if (!(error instanceof NotStrippable)) throw error;
      throw new Undecodable(`it is an attached document, and of that: ${error.message}`);
    }
  }

  /** Searches the output of each filter. The output of the last one may be a document. */
  async #search(stream: Stream, encoding: Encoding): Promise<void> {
    const { found, whole } = await this.#decode(stream, encoding, (head) => head.includes(PDF_HEADER));
    if (found) this.#findings.packet(stream);
    else if (whole !== undefined) await this.#attached(stream, bufferSource(whole));
  }

  /** Reads objects that have no streams of their own (7.5.7), for their references. */
  async #objectStream(stream: Stream, encoding: Encoding, dictionary: Dictionary): Promise<void> {
    const { found, whole = Buffer.alloc(0) } = await this.#decode(stream, encoding, () => true);
    if (found) this.#findings.packet(stream);
    const first = dictionary.get('First');
    const isWhole = encoding.codec === undefined && typeof first === 'number' && whole.length >= first;
    if (!isWhole) throw new Undecodable('it is an object stream without its objects');
    const lexer = new Lexer(new Window(bufferSource(whole)), 0);
    this.#spend(whole.length);
    for (let token = lexer.next(), i = 0; token.kind === 'number' && lexer.position <= first; i += 1) {
      if (i % 2 === 0) this.#packed.add(token.value);
      token = lexer.next();
    }
    lexer.position = Math.min(first, lexer.position);
    while (lexer.position < whole.length) walk(lexer, NOTHING, this);
  }

  /** Whether the output of any filter contains XMP; and the output of the last filter, if its first bytes show that it is wanted. */
  async #decode(
    { data }: Stream,
    encoding: Encoding,
    isWanted: (head: Buffer) => boolean,
  ): Promise<{ found: boolean; whole: Buffer | undefined }> {
    const searches = encoding.stages.map(() => new PacketSearch());
    const head = new Head(isWanted);
    this.#budget.spend(data.furthest - data.start);
    const extent = { start: data.start, end: data.furthest };
    const chunks = decoded(this.#source, extent, encoding, (chunk, stage) => {
      this.#budget.spend(2 * chunk.length);
      searches[stage]?.push(chunk);
    });
    for await (const chunk of chunks) head.push(chunk);
    for (const search of searches) search.end();
    return { found: searches.some(({ found }) => found), whole: head.end() };
  }

  /** Handles a packet that is stored in the file without a filter. */
  #packet(at: number): void {
    const stream = this.#open.at(-1);
    if (stream === undefined) this.#findings.hinder('it has XMP outside of its streams');
    if (stream === undefined || this.#findings.isMetadata(stream)) return;
    stream.imageXmp ??= this.#imageXmp(stream);
    const isOfImage = stream.imageXmp.some(({ start, end }) => start <= at && at < end);
    this.#findings.packet(stream, isOfImage);
  }

  #imageXmp({ data, codec }: Stream): Extent[] {
    this.#spend(data.end - data.start);
    if (codec === '/DCTDecode' || codec === '/DCT') return [...jpegXmp(this.#source, data)];
    return codec === '/JPXDecode' ? [...jp2Xmp(this.#source, data)] : [];
  }

  #entangle(): void {
    for (const stream of this.#open) stream.entangled = true;
  }

  #walk(start: number): Walked & { end: number } {
    const lexer = new Lexer(this.#window, start);
    const walked = walk(lexer, WANTED, this);
    this.#spend(lexer.position - start);
    return { ...walked, end: lexer.position };
  }

  /** Spends the budget for bytes read as syntax. */
  #spend(bytes: number): void {
    this.#budget.spend(READING_WORK * bytes);
    this.#bytesRead += bytes;
    if (this.#bytesRead > READINGS_MAX * this.#source.bytes + READ_BYTES_MIN)
      throw new NotStrippable('its objects lie within each other');
  }
}

/** Not all readers require the type. */
function isObjectStream(dictionary: Dictionary): boolean {
  const isOne = typeof dictionary.get('First') === 'number' && typeof dictionary.get('N') === 'number';
  return dictionary.get('Type') === '/ObjStm' || isOne;
}

/** Thumbnails need not be marked as images, but their width must be given. */
function isImage(dictionary: Dictionary): boolean {
  return ['Width', 'W'].some((key) => dictionary.has(key)) || dictionary.get('Subtype') === '/Image';
}

/** Collects chunks. All are kept if the first bytes belong to content that is wanted completely. */
class Head {
  readonly #isWanted: (head: Buffer) => boolean;
  #chunks: Buffer[] | undefined = [];
  #bytes = 0;
  #isKnown = false;

  constructor(isWanted: (head: Buffer) => boolean) {
    this.#isWanted = isWanted;
  }

  push(chunk: Buffer): void {
    if (this.#chunks === undefined) return;
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    if (!this.#isKnown && this.#bytes >= PDF_HEADER_WITHIN) this.#decide();
    if (this.#chunks !== undefined && this.#bytes > HELD_BYTES_MAX)
      throw new Undecodable('what it holds would expand to more than any document needs');
  }

  end(): Buffer | undefined {
    if (!this.#isKnown) this.#decide();
    return this.#chunks && Buffer.concat(this.#chunks);
  }

  #decide(): void {
    this.#isKnown = true;
    const head = Buffer.concat(this.#chunks ?? []).subarray(0, PDF_HEADER_WITHIN);
    if (!this.#isWanted(head)) this.#chunks = undefined;
  }
}
