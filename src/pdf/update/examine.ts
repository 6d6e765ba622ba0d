/**
 * Whether a document can have another revision without showing anything else, or breaking what others signed.
 *
 * The revision gives one object another definition, the catalog, with its own bytes and two more entries, and adds objects with new numbers.
 * A reader that follows the cross-references then shows the same as before if
 *
 * - nothing in the document refers to a new number. Every object of every section is read here, those in object streams too, and the new
 *   numbers are above all that are defined or referred to. So no hash and no gap is needed, and it does not help to compute the plan
 *   before: an object that refers to a new number makes the plan choose a higher one;
 * - nothing else uses the catalog, for which its new entries could have a meaning. Each reference to it was seen, too;
 * - it reads the same sections once the file is longer: see {@link refuseLinearized}.
 *
 * A reader that repairs looks for objects itself, and can find others, also between objects and within the data of streams, where nothing
 * is read here. So whatever a reader might repair is refused: an entry that points elsewhere, a damaged object, a stream that does not end
 * where its length says, pages that are not found. One thing is too common to refuse: Poppler repairs a document with a table if it follows
 * a reference to an object that is not there. So nothing that looks like a later catalog may follow, and the catalog must stand where all
 * find it. A large document, in which nothing is looked for, must have no such reference. The revision itself has nothing in it that looks
 * like another object.
 */
import { type Entries, endOfSection, entriesOf, placeIn, type XrefSection } from './crossReferences.ts';
import { type PdfObject, readObject } from './indirectObject.ts';
import { NotSealable } from './notSealable.ts';
import { type FoundOf, type PdfFile, requireKind } from './pdfFile.ts';
import { isNamed, type Node, type NodeOf, naturalOf } from './strictSyntax.ts';

export const CERTIFIED = 'it is certified, and a certified document may forbid attachments';
export const RIGHTS = 'it has usage rights, which any change ends';
const SCRIPTS = ['JS', 'JavaScript'] as const;
const DEPTH_MAX = 100;
const SCANNED_BYTES_MAX = 16 << 20;
const SCAN_BYTES = 1 << 20;
const SCAN_OVERLAP_BYTES = 4096;
const COMMENT_LENGTH_MAX = 200;
/** Readers look for the dictionary of a linearized file so far. */
const LINEARIZED_BYTES_MAX = 1024;

export interface Examined {
  catalog: FoundOf<'dictionary'>;
  /** From this number on, nothing in the document uses one. */
  free: number;
  newest: XrefSection;
  /** Whether it has scripts, or links into attached documents. */
  seesAttachments: boolean;
}

/** Throws NotSealable, which says why not. */
export async function examine(file: PdfFile): Promise<Examined> {
  const { root, size, newest } = refuseSections(file.sections);
  const { highest, seesAttachments } = await readAll(file, root);
  const free = Math.max(size, highest + 1);
  const object = await file.object(root);
  if (object === undefined) throw new NotSealable('it has no catalog');
  const catalog = requireKind({ object, node: object.value }, 'dictionary', 'its catalog');
  if (!isNamed(catalog.node.entries.get('Type'), 'Catalog')) throw new NotSealable('it has no catalog');
  await refuseOtherCatalogs(file, object);
  await refusePages(file, catalog);
  await refuseLinearized(file, catalog);
  return { catalog, free, newest, seesAttachments };
}

/** Returns the reference to the catalog, on which all trailers must agree. */
function refuseSections(sections: readonly XrefSection[]) {
  const [newest, ...older] = sections.flatMap(({ hidden, ...section }) =>
    hidden ? [section, hidden] : [section],
  );
  const root = newest?.trailer.get('Root');
  if (newest === undefined || root?.kind !== 'reference') throw new NotSealable('it has no catalog');
  const size = naturalOf(newest.trailer.get('Size')) ?? 0;
  for (const section of [newest, ...older]) {
    if (section.trailer.has('Encrypt')) throw new NotSealable('it is encrypted');
    const other = section.trailer.get('Root');
    if (
      other !== undefined &&
      (other.kind !== 'reference' || other.number !== root.number || other.generation !== root.generation)
    )
      throw new NotSealable('its trailers name different catalogs');
    if (endOfSection(section) > size)
      throw new NotSealable('it has objects beyond the /Size of its last trailer');
  }
  return { root, size, newest };
}

/**
 * A linearized file begins with cross-references, the number of its first page, and hints to the others (annex F), which some readers use
 * until an update makes it an ordinary file. So they must say what its end and its tree of pages say.
 */
async function refuseLinearized(file: PdfFile, catalog: FoundOf<'dictionary'>): Promise<void> {
  const { text, sections } = file;
  const name = 'the object at the beginning of the file';
  const start = await text.parse(0, { name }, (parser, { offset }) => {
    parser.skipSpace();
    const at = parser.position;
    return parser.take(/\d{1,10}[\0\t\n\f\r ]/y) && offset + at;
  });
  if (start === undefined) throw new NotSealable('it does not begin with an object');
  const object = await readObject(text, start, { name });
  const entries = object?.value.kind === 'dictionary' ? object.value.entries : undefined;
  if (!entries?.has('Linearized')) return;
  const numberOf = (key: string) => naturalOf(entries.get(key));
  if (['L', 'O', 'N', 'P'].some((key) => entries.has(key) && numberOf(key) === undefined))
    throw new NotSealable('its beginning is damaged', object.number);
  const bytes = numberOf('L');
  if (bytes !== undefined && bytes !== text.reader.size) return; // it was updated
  // Readers take the first `endobj` for the end of that object.
  const firstEnd = await text.parse(0, { name }, (parser) => parser.text.indexOf('endobj') + 'endobj'.length);
  if (firstEnd !== object.end || object.end > LINEARIZED_BYTES_MAX)
    throw new NotSealable('its beginning is damaged', object.number);
  const first = await text.parse(object.end, { name }, (parser, { offset }) => {
    parser.skipSpace();
    return offset + parser.position;
  });
  const at = sections[0]?.at ?? 0;
  if (at < object.end || at > first)
    throw new NotSealable('its first cross-references are not those that its end names');
  const pages = await pageNumbers(file, catalog);
  const isAlike = numberOf('O') === pages[0] && numberOf('N') === pages.length && (numberOf('P') ?? 0) === 0;
  const hinted = pages.length > 1 ? await hintedPages(file, entries.get('H'), pages.length) : [];
  for (const [n, number] of hinted.entries())
    if (number !== pages[n + 1] && (await isPage(file, number)))
      throw new NotSealable('its hints name other pages than its tree of pages', number);
  if (!isAlike) throw new NotSealable('its beginning names other pages than its tree of pages', pages[0]);
}

/** The number of each page. */
async function pageNumbers(file: PdfFile, catalog: FoundOf<'dictionary'>): Promise<number[]> {
  const pages: number[] = [];
  const visited = new Set<number>();
  const root = await file.entryOf(catalog, 'Pages', 'dictionary');
  const waiting = root ? [root] : [];
  for (let node = waiting.pop(); node !== undefined; node = waiting.pop()) {
    const { number } = node.object;
    if (visited.has(number)) throw new NotSealable('its tree of pages is damaged', number);
    visited.add(number);
    const kids = await file.entryOf(node, 'Kids', 'array');
    if (kids === undefined) pages.push(number);
    for (const kid of kids?.node.items.toReversed() ?? []) {
      const found = kids && (await file.follow({ object: kids.object, node: kid }));
      if (found) waiting.push(requireKind(found, 'dictionary', 'a page'));
    }
  }
  return pages;
}

const HINT_HEADER_BYTES = 36;

/** The numbers that the hints have for all pages but the first: each follows the objects of the one before (F.4.1). */
async function hintedPages(file: PdfFile, node: Node | undefined, pages: number): Promise<number[]> {
  const offset = node?.kind === 'array' && node.items.length === 2 ? naturalOf(node.items[0]) : undefined;
  if (offset === undefined) throw new NotSealable('its hints are damaged');
  const data = await file.data(await readObject(file.text, offset, { name: 'the object of its hints' }));
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  if (data.length < HINT_HEADER_BYTES) throw new NotSealable('its hints are damaged');
  const [least, bits] = [view.getUint32(0), view.getUint16(8)];
  if (bits > 32 || data.length * 8 < HINT_HEADER_BYTES * 8 + pages * bits)
    throw new NotSealable('its hints are damaged');
  const numbers: number[] = [];
  for (let page = 1, number = 1; page < pages; page += 1) {
    numbers.push(number);
    let more = 0;
    for (let bit = 0; bit < bits; bit += 1) {
      const at = HINT_HEADER_BYTES * 8 + page * bits + bit;
      more = more * 2 + (((data[at >> 3] ?? 0) >> (7 - (at & 7))) & 1);
    }
    number = (number + least + more) % 2 ** 32;
  }
  return numbers;
}

async function isPage(file: PdfFile, number: number): Promise<boolean> {
  const place = file.placeOf(number);
  const generation = place && 'offset' in place ? place.generation : 0;
  const object = await file.object({ kind: 'reference', start: 0, end: 0, number, generation });
  return object?.value.kind === 'dictionary' && isNamed(object.value.entries.get('Type'), 'Page');
}

/** Reads every object of every section. */
async function readAll(file: PdfFile, root: NodeOf<'reference'>): Promise<Values> {
  const values = new Values(file, root.number);
  for (const { trailer, hidden } of file.sections)
    for (const entries of [trailer, hidden?.trailer]) values.seeTrailer(entries);
  let [last, end, lastOffset]: [PdfObject | undefined, number, number] = [undefined, 0, 0];
  for (const { number, place } of plainEntries(file.sections)) {
    const { offset, generation } = place;
    if (offset === lastOffset) {
      if (last?.number === number && last.generation === generation) continue;
      throw new NotSealable(`object ${number} is not where its cross-reference says`, number);
    }
    if (offset < end) throw new NotSealable(`object ${number} begins within another object`, number);
    last = await file.plain(number, place);
    lastOffset = offset;
    const now = file.placeOf(number);
    const isCurrent = now !== undefined && 'offset' in now && now.offset === offset;
    if (isCurrent) file.keep(last);
    // The length of an earlier revision may stand in an object that has another value now.
    end = isCurrent || !hasDistantLength(last) ? await file.endOf(last) : last.end;
    values.see(last, isCurrent);
  }
  const packs = new Set<number>();
  for (const section of file.sections)
    for (const { number, place } of entriesOf(section)) {
      const now = 'stream' in place ? file.placeOf(number) : undefined;
      if (now === undefined || !('stream' in now)) continue;
      await file.requirePacked(number, now);
      packs.add(now.stream);
    }
  for (const pack of packs) for await (const object of file.packedIn(pack)) values.see(object, true);
  await values.refuse(file);
  return values;
}

/** The entries of objects that are not in object streams, in the order of the file. */
function plainEntries(sections: readonly XrefSection[]) {
  const entries: { number: number; place: { offset: number; generation: number } }[] = [];
  for (const section of sections)
    for (const { number, place } of entriesOf(section))
      if ('offset' in place) entries.push({ number, place });
  return entries.sort((a, b) => a.place.offset - b.place.offset);
}

function hasDistantLength({ value }: PdfObject): boolean {
  return value.kind === 'dictionary' && value.entries.get('Length')?.kind === 'reference';
}

/** What is looked for in each object. */
class Values {
  /** The highest number in use. */
  highest = 0;
  seesAttachments = false;
  readonly #file: PdfFile;
  readonly #catalog: number;
  /** Whether a missing object makes readers look for other catalogs where none was looked for. */
  readonly #isRepaired: boolean;
  /** An object of which the catalog is a part. */
  #above: number | undefined;
  readonly #locks: { found: FoundOf<'dictionary'>; key: 'Lock' | 'TransformMethod' }[] = [];

  /** `catalog`: the number of the catalog. */
  constructor(file: PdfFile, catalog: number) {
    this.#file = file;
    this.#catalog = catalog;
    const isTable = file.sections[0]?.form === 'table';
    this.#isRepaired = isTable && file.text.reader.size > SCANNED_BYTES_MAX;
  }

  seeTrailer(trailer: Entries | undefined): void {
    for (const node of trailer?.values() ?? [])
      if (node.kind === 'reference') this.highest = Math.max(this.highest, node.number);
  }

  see(object: PdfObject, isCurrent: boolean): void {
    this.highest = Math.max(this.highest, object.number);
    this.#see(object, object.value, isCurrent);
  }

  #see(object: PdfObject, node: Node, isCurrent: boolean): void {
    if (node.kind === 'reference') {
      this.highest = Math.max(this.highest, node.number);
      if (!isCurrent) return;
      if (node.number === this.#catalog) this.#above = object.number;
      // Poppler then repairs a document that has a table, and reads its catalog again.
      if (this.#isRepaired && !this.#file.has(node))
        throw new NotSealable(`object ${node.number} is referred to, and is not there`, object.number);
    } else if (node.kind === 'array') for (const item of node.items) this.#see(object, item, isCurrent);
    else if (node.kind === 'dictionary') {
      const { entries } = node;
      // The trailer in a cross-reference stream, and the reference of a signature to what it is about.
      const catalogKey = isNamed(entries.get('Type'), 'XRef')
        ? 'Root'
        : entries.has('TransformMethod') && 'Data';
      for (const [key, value] of entries) this.#see(object, value, isCurrent && key !== catalogKey);
      // Actions (12.6.4), and scripts that run when the document is opened.
      this.seesAttachments ||=
        isCurrent && (SCRIPTS.some((key) => entries.has(key)) || isNamed(entries.get('S'), 'GoToE'));
      for (const key of ['Lock', 'TransformMethod'] as const)
        if (isCurrent && entries.has(key)) this.#locks.push({ found: { object, node }, key });
    }
  }

  /** A signature can certify the document, and a signed field can lock it, wherever they are (12.7.5.5 and 12.8.2). */
  async refuse(file: PdfFile): Promise<void> {
    for (const { found, key } of this.#locks) {
      const value = await file.entry(found, key);
      if (isNamed(value?.node, 'DocMDP')) throw new NotSealable(CERTIFIED, found.object.number);
      if (isNamed(value?.node, 'UR', 'UR3')) throw new NotSealable(RIGHTS, found.object.number);
      if (value?.node.kind === 'dictionary' && value.node.entries.has('P'))
        throw new NotSealable('a signature field locks the document', found.object.number);
    }
    // The new entries of the catalog must not be resources of a page, or states of a field.
    if (this.#above !== undefined)
      throw new NotSealable('its catalog is also a part of another object', this.#above);
  }
}

/**
 * A reader that repairs takes the last catalog that it finds. The sections must name no later one; in a document that is not large, nothing
 * that looks like one, or like a trailer that names another one, may follow either, not even within a stream.
 */
async function refuseOtherCatalogs(file: PdfFile, { number, end }: PdfObject): Promise<void> {
  const refuse = () =>
    new NotSealable('it has another catalog that a reader could take for this one', number);
  const place = file.placeOf(number);
  const [offset, start] = place && 'offset' in place ? [place.offset, end] : [-1, 0];
  for (const section of file.sections) {
    const other = placeIn(section, number);
    if (typeof other === 'object' && 'offset' in other && other.offset > offset) throw refuse();
  }
  // Some readers do not see what a section hides from older ones.
  const visible = file.sections
    .map((section) => placeIn({ ...section, hidden: undefined }, number))
    .find((one) => one !== undefined);
  const isVisible = typeof visible === 'object' && 'offset' in visible && visible.offset === offset;
  if (file.sections.some(({ hidden }) => hidden) && !isVisible)
    throw new NotSealable('its catalog is hidden from some readers', number);
  if (offset > 0) await requireOwnLine(file, offset, number);
  const { size } = file.text.reader;
  if (size > SCANNED_BYTES_MAX) return;
  for (let from = start; from < size; from += SCAN_BYTES) {
    const bytes = Math.min(SCAN_BYTES + SCAN_OVERLAP_BYTES, size - from);
    const text = await file.text.textAt(from, bytes, 'its end');
    if (namesCatalog(text, number)) throw refuse();
  }
}

/** Whether a line that is a comment goes on there, and is not long. */
function isComment(text: string, at: number): boolean {
  return /[\r\n][\0\t\f ]*%[^\r\n]*$/.test(text.slice(Math.max(0, at - COMMENT_LENGTH_MAX), at));
}

/** Some readers that repair see only what begins a line. */
async function requireOwnLine({ text }: PdfFile, offset: number, number: number): Promise<void> {
  const name = `object ${number}`;
  await text.parse(offset, { name, number }, (parser) => {
    parser.skipBlank();
    const before = parser.text[parser.position - 1] ?? '';
    if (!/[\r\n]/.test(before) || !parser.take(/\d{1,10} \d{1,5} obj/y))
      parser.refuse('is the catalog, and does not begin a line as objects do');
  });
}

/** What follows the number in what looks like the heading of an object. What goes on for longer than anybody needs counts, too. */
const HEADING =
  /[\0\t\n\f\r ]{1000}|[\0\t\n\f\r ]{1,999}(?:%|[0-9]{1,10}(?:[\0\t\n\f\r ]{1000}|[\0\t\n\f\r ]{1,999}(?:%|obj)))/y;
const DIGITS_MAX = 99;
/** How a heading goes on after the sign of a comment in it. */
const REST_OF_HEADING = /^[^\r\n]{0,200}[\r\n][\0\t\n\f\r ]{0,99}(?:[0-9]{1,10}[\0\t\n\f\r ]{1,99})?obj/;
const REST_LENGTH_MAX = 450;
/** The catalog in a trailer, however it is written. */
const ROOT =
  /\/(?:R|#52)(?:o|#6[Ff]){2}(?:t|#74)(?:[\0\t\n\f\r ]{1000}|[\0\t\n\f\r ]{0,999}(?:[%<+.-]|([0-9]{1,99})[\0\t\n\f\r ]{1,20}\d{1,5}[\0\t\n\f\r ]{1,20}R|[0-9]))/y;
const ROOT_BEGINNINGS = ['/R', '/#52'];

/** Whether something looks like another object with the number of the catalog, or like a trailer that names another catalog. */
function namesCatalog(text: string, number: number): boolean {
  const digits = `${number}`;
  // The search for a text is many times as fast as an expression.
  for (let at = text.indexOf(digits); at >= 0; at = text.indexOf(digits, at + 1)) {
    let start = at;
    while (text[start - 1] === '0') start -= 1;
    const end = at + digits.length;
    if (isDigit(text, start - 1) || isDigit(text, end) || end - start > DIGITS_MAX) continue;
    const [more] = matchAt(HEADING, text, end) ?? [];
    if (more === undefined || isComment(text, start)) continue;
    const rest = text.slice(end + more.length, end + more.length + REST_LENGTH_MAX);
    if (!more.endsWith('%') || REST_OF_HEADING.test(rest)) return true;
  }
  for (const beginning of ROOT_BEGINNINGS)
    for (let at = text.indexOf(beginning); at >= 0; at = text.indexOf(beginning, at + 1)) {
      const found = matchAt(ROOT, text, at);
      if (found && Number(found[1] ?? -1) !== number && !isComment(text, at)) return true;
    }
  return false;
}

function matchAt(sticky: RegExp, text: string, at: number): RegExpExecArray | null {
  sticky.lastIndex = at;
  return sticky.exec(text);
}

function isDigit(text: string, at: number): boolean {
  const code = text.charCodeAt(at);
  return code >= 0x30 && code <= 0x39;
}

/** Some readers repair a document whose first or last page they do not find. */
async function refusePages(file: PdfFile, catalog: FoundOf<'dictionary'>): Promise<void> {
  const name = 'its tree of pages';
  for (const end of [0, -1]) {
    let node = await file.entryOf(catalog, 'Pages', 'dictionary');
    for (let depth = 0; node === undefined || !isNamed(node.node.entries.get('Type'), 'Page'); depth += 1) {
      const kids = node && (await file.entryOf(node, 'Kids', 'array'));
      const kid = kids?.node.items.at(end);
      const found = kids && kid && (await file.follow({ object: kids.object, node: kid }));
      if (
        depth === DEPTH_MAX ||
        found === undefined ||
        naturalOf(node?.node.entries.get('Count')) === undefined
      )
        throw new NotSealable(`${name} is damaged`, node?.object.number);
      node = requireKind(found, 'dictionary', name);
    }
  }
}
