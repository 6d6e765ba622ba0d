import { NeedleSearch } from './needles.ts';
import { xmlTagAt } from './xmlTag.ts';

/** The names that begin the XMP segments of JPEG (ISO 16684-3, 3.1.3). */
export const JPEG_SEGMENT_NAMES = ['http://ns.adobe.com/xap/1.0/\0', 'http://ns.adobe.com/xmp/extension/\0'];
/** The name of the XMP box of JPEG 2000 (ISO 16684-3, 3.1.4). */
export const JP2_BOX_NAME = Buffer.from('be7acfcb97a942e89c71999491e3afac', 'hex');

/** The elements that hold XMP, by the prefix nearly all software gives them (ISO 16684-1, 7.3 and 7.4). */
const ELEMENTS = ['<?xpacket begin', '<x:xmpmeta', '<x:xapmeta', '<rdf:RDF'];
/** Their ends. XML parsers refuse an element whose start is damaged, but it was XMP, and a person can still read it. */
const ENDS = ['<?xpacket end', '</x:xmpmeta', '</x:xapmeta', '</rdf:RDF'];
/** The namespaces of these elements: an element that declares one holds XMP, whatever the prefix. */
const NAMESPACES = ['adobe:ns:meta/', 'http://www.w3.org/1999/02/22-rdf-syntax-ns#'];

/** What is XMP without a further look: names of segments and boxes, and UTF-16 and UTF-32 of either byte order. */
const PLAIN = [
  ...JPEG_SEGMENT_NAMES.map((name) => Buffer.from(name)),
  JP2_BOX_NAME,
  ...[1, 3].flatMap((zeros) => [...ELEMENTS, ...ENDS, ...NAMESPACES].map((text) => spread(text, zeros))),
];
const SEARCH = new NeedleSearch([
  ...[...ELEMENTS, ...ENDS, ...NAMESPACES].map((text) => Buffer.from(text)),
  ...PLAIN,
]);

/** Longest that what is looked at before a namespace, or from the beginning of an element, can be. */
export const MARK_BYTES_MAX = 4096;

/** Without the first character: so it begins with a zero, and what ends a window of the search is none. */
function spread(text: string, zeros: number): Buffer {
  return Buffer.from([...text].join('\0'.repeat(zeros))).subarray(1);
}

/** Where XMP begins in `data`, in order, of what is met from `start` to `end`. Takes time in proportion to the data. */
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
      // Each element once, however many declarations it has.
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
 * Whether an element begins here. Prose about XMP shows the same words on a page: there the tag is not whole, or the string
 * that is shown ends with it.
 */
function isElement(data: Buffer, at: number, { declares }: { declares: boolean }): boolean {
  const tag = xmlTagAt(data, at, MARK_BYTES_MAX);
  if (tag === 'none') return false;
  if (tag === 'cut') return true;
  const next = data[tag.behind];
  return next === undefined || next === LESS || (declares && next !== CLOSING_PARENTHESIS);
}

/** Whether this tag is the last of a string, a stream or a document: on a page, the string that is shown has its end behind it. */
function isEnd(data: Buffer, at: number): boolean {
  const tag = xmlTagAt(data, at, MARK_BYTES_MAX);
  if (tag === 'none' || tag === 'cut') return tag === 'cut';
  const { behind } = tag;
  return behind === data.length || data.subarray(behind, behind + STREAM_END.length).equals(STREAM_END);
}

/** Looks for a mark in bytes that come in chunks. */
export class PacketSearch {
  #kept = Buffer.alloc(0);
  /** Of what is kept, bytes that have been looked at. */
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
