/** LMDB's data file on 64 bits, page by page (mdb.c of lmdb-js: MDB_page, MDB_meta, MDB_db, MDB_node, MDB_ovpage). */
import { readSync } from 'node:fs';

const HEADER_BYTES = 24;
/**
 * Offsets in a page header: the number of the page and of the transaction that wrote it; kinds; the space its pointers take, and where its
 * nodes begin.
 */
const PAGE = { number: 0, transaction: 8, kind: 18, lower: 20, upper: 22, overflowPages: 20 };
const META = { magic: 24, trees: 48, lastPage: 144, transaction: 152 };
const META_BYTES = 160;
const TREE = {
  pageBytes: 0,
  flags: 4,
  depth: 6,
  branches: 8,
  leaves: 16,
  overflows: 24,
  entries: 32,
  root: 40,
};
const TREE_BYTES = 48;
const NODE = { flags: 4, keyBytes: 6, key: 8 };
/** Offsets in the reference to a value that is too long for a page: its first page, and how many there are. */
const LONG = { first: 0, pages: 16, bytes: 24 };

const MAGIC = 0xbeefc0de;
const BRANCH = 0x01;
const LEAF = 0x02;
const OVERFLOW = 0x04;
const LONG_NODE = 0x01;
const TREE_NODE = 0x02;
/** Flag of the tree of free pages, whose keys are numbers of transactions. */
const INTEGER_KEYS = 0x08;
/** The root of an empty tree. */
const NO_PAGE = 2 ** 64;
/** The first two pages are the meta pages. */
const PAGES_MIN = 2;
/** LMDB has no deeper trees (CURSOR_STACK). */
const DEPTH_MAX = 32;
/** A file is shorter than its transaction says by the free pages at its end: always by fewer than this. */
const PAGES_AHEAD_MAX = 1_000_000;

export interface Meta {
  pageBytes: number;
  lastPage: number;
  transaction: number;
  /** Descriptions of the trees of free pages, and of all tables. */
  trees: [free: Buffer, main: Buffer];
}

/** The newer of the two meta pages; undefined if either is invalid. */
export function newestMeta(file: number): Meta | undefined {
  const first = readMeta(file, 0);
  const second = first && readMeta(file, first.pageBytes);
  if (first === undefined || second?.pageBytes !== first.pageBytes) return undefined;
  return first.transaction > second.transaction ? first : second;
}

function readMeta(file: number, offset: number): Meta | undefined {
  const bytes = Buffer.alloc(META_BYTES);
  const isWhole = readSync(file, bytes, 0, META_BYTES, offset) === META_BYTES;
  if (!isWhole || bytes.readUInt32LE(META.magic) !== MAGIC) return undefined;
  const free = bytes.subarray(META.trees, META.trees + TREE_BYTES);
  const main = bytes.subarray(META.trees + TREE_BYTES, META.trees + 2 * TREE_BYTES);
  const pageBytes = free.readUInt32LE(TREE.pageBytes);
  // From 512 bytes to 64 KiB (MAX_PAGESIZE), a power of two.
  if (pageBytes < 512 || pageBytes > 65_536 || (pageBytes & (pageBytes - 1)) !== 0) return undefined;
  return {
    pageBytes,
    lastPage: readWhole(bytes, META.lastPage),
    transaction: readWhole(bytes, META.transaction),
    trees: [free, main],
  };
}

/** The reason why a file cannot be used. */
export class PageFault extends Error {
  /** Whether the file lacks the page. */
  readonly isMissing: boolean;

  constructor(page: number, isMissing = false) {
    super(`page ${page} is ${isMissing ? 'missing' : 'damaged'}`);
    this.isMissing = isMissing;
  }
}

/**
 * Checks every page that a transaction refers to, but not the values. LMDB believes what a page states about itself: if that is wrong, it
 * ends the process, or finds other records. Throws {@link PageFault}. None of those pages may be reused meanwhile. Takes one bit of memory
 * for each page of the file.
 */
export function walkPages(file: number, meta: Meta, pagesThere: number): void {
  new PageWalk(file, meta, pagesThere).walk();
}

/** Numbers that a tree states about itself, and those found in it. */
type Counts = Record<'depth' | 'branches' | 'leaves' | 'overflows' | 'entries', number>;

/** Kind of a tree: that of one table, of all tables, or of free pages. */
type Kind = 'table' | 'main' | 'free';

class PageWalk {
  readonly #file: number;
  readonly #meta: Meta;
  readonly #pagesThere: number;
  readonly #pages: number;
  /** Pages seen so far: a bit for each. */
  readonly #met: Uint8Array;

  constructor(file: number, meta: Meta, pagesThere: number) {
    this.#file = file;
    this.#meta = meta;
    this.#pagesThere = pagesThere;
    const isLong = meta.lastPage >= pagesThere + PAGES_AHEAD_MAX;
    if (isLong) throw new PageFault(meta.lastPage, true);
    this.#pages = meta.lastPage + 1;
    this.#met = new Uint8Array(Math.ceil(this.#pages / 8));
  }

  walk(): void {
    const [free, main] = this.#meta.trees;
    this.#walkTree(main, 0, 'main');
    this.#walkTree(free, 0, 'free');
  }

  /** `page`: the page that describes the tree. */
  #walkTree(tree: Buffer, page: number, kind: Kind): void {
    const counts: Counts = { depth: 0, branches: 0, leaves: 0, overflows: 0, entries: 0 };
    const root = readWhole(tree, TREE.root);
    if (root !== NO_PAGE) this.#walkPage(root, 1, counts, kind);
    const isAsSaid =
      tree.readUInt16LE(TREE.flags) === (kind === 'free' ? INTEGER_KEYS : 0) &&
      tree.readUInt16LE(TREE.depth) === counts.depth &&
      readWhole(tree, TREE.branches) === counts.branches &&
      readWhole(tree, TREE.leaves) === counts.leaves &&
      readWhole(tree, TREE.overflows) === counts.overflows &&
      readWhole(tree, TREE.entries) === counts.entries;
    if (!isAsSaid) throw new PageFault(page);
  }

  #walkPage(number: number, depth: number, counts: Counts, kind: Kind): void {
    this.#meet(number, 1);
    const page = this.#read(number, 1);
    const isBranch = page.readUInt16LE(PAGE.kind) === BRANCH;
    counts[isBranch ? 'branches' : 'leaves'] += 1;
    // All leaves must be at the same depth, or LMDB loses its way.
    if (!isBranch) {
      if (counts.depth !== 0 && counts.depth !== depth) throw new PageFault(number);
      counts.depth = depth;
    } else if (depth >= DEPTH_MAX || page.readUInt16LE(PAGE.lower) < 4) throw new PageFault(number);
    for (const { bytes, keyBytes } of nodesOf(page, number, kind)) {
      const value = bytes.subarray(NODE.key + keyBytes);
      const flags = bytes.readUInt16LE(NODE.flags);
      if (isBranch) this.#walkPage(bytes.readUIntLE(0, 6), depth + 1, counts, kind);
      else {
        counts.entries += 1;
        if (flags === LONG_NODE) this.#walkLong(value, bytes.readUInt32LE(0), counts, kind);
        else if (flags !== (kind === 'main' ? TREE_NODE : 0)) throw new PageFault(number);
        else if (kind === 'main') this.#walkTree(value, number, 'table');
        else if (kind === 'free') this.#walkFreeList(value);
      }
    }
  }

  #walkLong(reference: Buffer, valueBytes: number, counts: Counts, kind: Kind): void {
    const { pageBytes } = this.#meta;
    const first = readWhole(reference, LONG.first);
    const count = readWhole(reference, LONG.pages);
    if (count !== Math.ceil((HEADER_BYTES + valueBytes) / pageBytes)) throw new PageFault(first);
    this.#meet(first, count);
    counts.overflows += count;
    const page = this.#read(first, kind === 'free' ? count : 1);
    if (page.readUInt16LE(PAGE.kind) !== OVERFLOW || page.readUInt32LE(PAGE.overflowPages) !== count)
      throw new PageFault(first);
    if (kind === 'free') this.#walkFreeList(page.subarray(HEADER_BYTES, HEADER_BYTES + valueBytes));
  }

  /** The list begins with the number of its entries; then each is a page, 0 for none, or -n before the first of n pages. */
  #walkFreeList(list: Buffer): void {
    const count = readWhole(list, 0);
    if (8 * (count + 1) > list.length) throw new PageFault(0);
    for (let n = 1; n <= count; n++) {
      const entry = Number(list.readBigInt64LE(8 * n));
      if (entry > 0) this.#meet(entry, 1);
      else if (entry < 0 && n < count) this.#meet(readWhole(list, 8 * ++n), -entry);
      else if (entry < 0) throw new PageFault(0);
    }
  }

  /** Marks each page once: one that is free and in use would be overwritten. */
  #meet(first: number, count: number): void {
    if (first < PAGES_MIN || count < 1 || first + count > this.#pages) throw new PageFault(first);
    for (let number = first; number < first + count; number++) {
      const [index, bit] = [number >>> 3, 1 << (number & 7)];
      const met = this.#met[index] ?? 0;
      if ((met & bit) !== 0) throw new PageFault(number);
      this.#met[index] = met | bit;
    }
  }

  /** Reads a page. It must be what it states about itself, and not newer than the transaction. */
  #read(number: number, count: number): Buffer {
    const { pageBytes, transaction } = this.#meta;
    if (number + count > this.#pagesThere) throw new PageFault(number, true);
    const page = Buffer.allocUnsafe(count * pageBytes);
    readSync(this.#file, page, 0, page.length, number * pageBytes);
    if (readWhole(page, PAGE.number) !== number || readWhole(page, PAGE.transaction) > transaction)
      throw new PageFault(number);
    return page;
  }
}

interface PageNode {
  bytes: Buffer;
  keyBytes: number;
}

/** The nodes in the order of their keys, which must differ. Nodes fill the end of their page without a gap. */
function nodesOf(page: Buffer, number: number, kind: Kind): PageNode[] {
  const pageKind = page.readUInt16LE(PAGE.kind);
  const isBranch = pageKind === BRANCH;
  const [lower, upper] = [page.readUInt16LE(PAGE.lower), page.readUInt16LE(PAGE.upper)];
  const body = page.subarray(HEADER_BYTES);
  if ((!isBranch && pageKind !== LEAF) || lower % 2 === 1 || lower > upper || upper > body.length)
    throw new PageFault(number);
  let bytesLeft = body.length - upper;
  let before: Buffer | undefined;
  const nodes: PageNode[] = [];
  for (let pointer = 0; pointer < lower; pointer += 2) {
    const start = body.readUInt16LE(pointer);
    if (start < upper || start + NODE.key > body.length) throw new PageFault(number);
    const keyBytes = body.readUInt16LE(start + NODE.keyBytes);
    const end = start + NODE.key + keyBytes + valueBytes(body, start, isBranch);
    const bytes = body.subarray(start, end);
    bytesLeft -= bytes.length + (bytes.length % 2);
    const key = bytes.subarray(NODE.key, NODE.key + keyBytes);
    const isWhole = end <= body.length && bytesLeft >= 0;
    // The first key of a branch stands for all that are smaller.
    const isFirst = isBranch && pointer === 0;
    const hasKey = kind === 'free' && !isFirst ? keyBytes === 8 : keyBytes > 0 || isFirst;
    const isInOrder = before === undefined || isFirst || compareKeys(before, key, kind) < 0;
    if (!isWhole || !hasKey || !isInOrder) throw new PageFault(number);
    if (!isFirst) before = key;
    nodes.push({ bytes, keyBytes });
  }
  if (bytesLeft !== 0) throw new PageFault(number);
  return nodes;
}

function valueBytes(body: Buffer, start: number, isBranch: boolean): number {
  if (isBranch) return 0;
  return (body.readUInt16LE(start + NODE.flags) & LONG_NODE) === 0 ? body.readUInt32LE(start) : LONG.bytes;
}

function compareKeys(one: Buffer, other: Buffer, kind: Kind): number {
  if (kind !== 'free') return one.compare(other);
  return readWhole(one, 0) - readWhole(other, 0);
}

function readWhole(bytes: Buffer, offset: number): number {
  return Number(bytes.readBigUInt64LE(offset));
}
