import { NeedleSearch } from './needles.ts';
import { xmlTagAt } from './xmlTag.ts';

/** The names that begin the XMP segments of JPEG (ISO 16684-3, 3.1.3). */
export const JPEG_SEGMENT_NAMES = ['http://ns.adobe.com/xap/1.0/\0', 'http://ns.adobe.com/xmp/extension/\0'];
/** The name of the XMP box of JPEG 2000 (ISO 16684-3, 3.1.4). */
export const JP2_BOX_NAME = Buffer.from('be7acfcb97a942e89c71999491e3afac', 'hex');

/** The elements that hold XMP, by the prefix nearly all software gives them (ISO 16684-1, 7.3 and 7.4). */
const ELEMENTS = ['<?xpacket begin', '<x:xmpmeta', '<x:xapmeta', '<rdf:RDF'];
/** Their end tags. XML parsers reject an element whose start tag is damaged, but it was XMP, and a person can still read it. */
const ENDS = ['<?xpacket end', '</x:xmpmeta', '</x:xapmeta', '</rdf:RDF'];
/** The namespaces of these elements: an element that declares one holds XMP, whatever the prefix. */
const NAMESPACES = ['adobe:ns:meta/', 'http://www.w3.org/1999/02/22-rdf-syntax-ns#'];

/** Needles that are XMP without a further check: names of segments and boxes, and UTF-16 and UTF-32 in either byte order. */
const PLAIN = [
  ...JPEG_SEGMENT_NAMES.map((name) => Buffer.from(name)),
  JP2_BOX_NAME,
  ...[1, 3].flatMap((zeros) => [...ELEMENTS, ...ENDS, ...NAMESPACES].map((text) => spread(text, zeros))),
];
const SEARCH = new NeedleSearch([
  ...[...ELEMENTS, ...ENDS, ...NAMESPACES].map((text) => Buffer.from(text)),
  ...PLAIN,
]);

/** Maximum number of bytes examined before a namespace, or from the beginning of an element. */
export const MARK_BYTES_MAX = 4096;

/** Omits the first character, so that the text begins with a zero, and no window of the search ends with one. */
function spread(text: string, zeros: number): Buffer {
  return Buffer.from([...text].join('\0'.repeat(zeros))).subarray(1);
}

/** Positions at which XMP begins in `data`, in order, for matches from `start` to `end`. Takes time in proportion to the data. */
export function marksIn(data: Buffer, start = 0, end = data.length): number[] {
  const marks: number[] = [];
  let lastTag = -1;
  for (const { needle, at } of SEARCH.find(data, start, end)) {
    if (needle < ELEMENTS.length) {
      if (isElement(data, at, { declares: false })) marks.push(at);
    } else if (needle < ELEMENTS.length + ENDS.length) {
      if (isEnd(data, at)) marks.push(at);
    } else if (needle < ELEMENTS.length + ENDS.length + NAMESPACES.length) {
      const tag = tagBefore(data, at);
      // Counts each element once, even if it has several declarations.
      if (tag === undefined || tag === lastTag) continue;
      lastTag = tag;
      if (isElement(data, tag, { declares: true })) marks.push(at);
    } else marks.push(at);
  }
  return marks;
}

const LESS = 0x3c;
const CLOSING_PARENTHESIS = 0x29;
const STREAM_END = Buffer.from('endstream');

function tagBefore(data: Buffer, at: number): number | undefined {
  const from = Math.max(0, at - MARK_BYTES_MAX);
  const tag = data.subarray(from, at).lastIndexOf(LESS);
  return tag < 0 ? undefined : from + tag;
}

/**
 * Whether an element begins here. Prose about XMP shows the same words on a page: there the tag is incomplete, or the shown string ends
 * with it.
 */
function isElement(data: Buffer, at: number, { declares }: { declares: boolean }): boolean {
  const tag = xmlTagAt(data, at, MARK_BYTES_MAX);
  if (tag === 'none') return false;
  if (tag === 'cut') return true;
  const next = data[tag.behind];
  return next === undefined || next === LESS || (declares && next !== CLOSING_PARENTHESIS);
}

/** Whether this tag is the last of a string, a stream or a document. In page content, the delimiter of the shown string follows instead. */
function isEnd(data: Buffer, at: number): boolean {
  const tag = xmlTagAt(data, at, MARK_BYTES_MAX);
  if (tag === 'none' || tag === 'cut') return tag === 'cut';
  const { behind } = tag;
  return behind === data.length || data.subarray(behind, behind + STREAM_END.length).equals(STREAM_END);
}

/** Searches bytes that arrive in chunks for a mark. */
export class PacketSearch {
  #kept = Buffer.alloc(0);
  /** How many of the kept bytes were already searched. */
  #seen = 0;
  found = false;

  push(chunk: Buffer): void {
    if (this.found) return;
    const data = this.#kept.length === 0 ? chunk : Buffer.concat([this.#kept, chunk]);
    this.#look(data, Math.max(this.#seen, data.length - MARK_BYTES_MAX));
  }

  end(): void {
    if (!this.found) this.#look(this.#kept, this.#kept.length);
  }

  #look(data: Buffer, end: number): void {
    this.found = marksIn(data, this.#seen, end).length > 0;
    const from = Math.max(0, end - MARK_BYTES_MAX);
    this.#kept = Buffer.from(data.subarray(from));
    this.#seen = end - from;
  }
}
