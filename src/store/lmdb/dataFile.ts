import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { OperatorError } from '../../base/errors.ts';
import { formatBytes } from '../../base/units.ts';

/** What an administrator does about a store that was damaged. */
export const RESTORE =
  'find the cause (the disk, or a copy that was interrupted), and restore the newest backup';

/** Offsets in LMDB's data file on 64 bits (mdb.c: MDB_page_header, MDB_meta, MDB_db, MDB_node, MDB_ovpage). */
const HEADER_BYTES = 24;
const PAGE = { flags: 18, lower: 20 };
const META = { magic: 24, pageBytes: 48, freeRoot: 88, mainRoot: 136, lastPage: 144, transaction: 152 };
const META_BYTES = 160;
const NODE = { flags: 4, keyBytes: 6, key: 8 };
const ROOT_IN_DATABASE = 40;
const PAGES_IN_OVERFLOW = 16;

const MAGIC = 0xbeefc0de;
const BRANCH = 0x01;
const LEAF = 0x02;
const OVERFLOW_NODE = 0x01;
const DATABASE_NODE = 0x02;
/** The root of an empty tree. */
const NO_PAGE = 2 ** 64;

/** A transaction that commits meanwhile may use pages again that this reads: then it begins anew, so often at most. */
const ATTEMPTS_MAX = 5;

interface Meta {
  pageBytes: number;
  /** Of the trees of free pages and of all databases. */
  roots: number[];
  lastPage: number;
  transaction: number;
}

/**
 * Throws OperatorError if a data file has not all the pages that its newest transaction refers to. LMDB maps the file without
 * looking, and the kernel ends the process (SIGBUS) when it touches a page that is not there; on a file without LMDB's meta pages
 * lmdb-js crashes too.
 */
export function assertWholeFile(path: string): void {
  const file = openSync(path, 'r');
  try {
    let fault = faultOfFile(file);
    for (let attempt = 1; fault !== undefined && attempt < ATTEMPTS_MAX; attempt++) fault = faultOfFile(file);
    if (fault !== undefined) throw new OperatorError(`${path} ${fault}: ${RESTORE}`);
  } finally {
    closeSync(file);
  }
}

function faultOfFile(file: number): string | undefined {
  const meta = newestMeta(file);
  if (meta === undefined) return 'is damaged or not of LMDB';
  const { pageBytes, lastPage } = meta;
  const { size } = fstatSync(file);
  // A file may be shorter if its last pages are free, which is rare: then every page that is in use is looked at.
  try {
    if (size >= (lastPage + 1) * pageBytes || areAllThere(file, meta, Math.floor(size / pageBytes)))
      return undefined;
  } catch (error) {
    // A page that is none has offsets beyond its end.
    if (!(error instanceof RangeError)) throw error;
  }
  return `is cut short: it has ${formatBytes(size)} of ${formatBytes((lastPage + 1) * pageBytes)}`;
}

/** Of the two meta pages the one that was written last; undefined if either is none. */
function newestMeta(file: number): Meta | undefined {
  const first = readMeta(file, 0);
  const second = first && readMeta(file, first.pageBytes);
  if (first === undefined || second === undefined) return undefined;
  return first.transaction > second.transaction ? first : second;
}

function readMeta(file: number, offset: number): Meta | undefined {
  const bytes = Buffer.alloc(META_BYTES);
  const isWhole = readSync(file, bytes, 0, META_BYTES, offset) === META_BYTES;
  if (!isWhole || bytes.readUInt32LE(META.magic) !== MAGIC) return undefined;
  const pageBytes = bytes.readUInt32LE(META.pageBytes);
  // From 512 bytes to 64 KiB (MAX_PAGESIZE), a power of two.
  if (pageBytes < 512 || pageBytes > 65_536 || (pageBytes & (pageBytes - 1)) !== 0) return undefined;
  return {
    pageBytes,
    roots: [readWhole(bytes, META.freeRoot), readWhole(bytes, META.mainRoot)],
    lastPage: readWhole(bytes, META.lastPage),
    transaction: readWhole(bytes, META.transaction),
  };
}

/** Walks all trees. Whether each page in them is one of the first `pages` of the file. */
function areAllThere(file: number, { pageBytes, roots, lastPage }: Meta, pages: number): boolean {
  const page = Buffer.alloc(pageBytes);
  const next = roots.filter((root) => root !== NO_PAGE);
  for (let seen = 0; next.length > 0; seen++) {
    const number = next.pop() ?? 0;
    if (number >= pages || seen > lastPage) return false;
    readSync(file, page, 0, pageBytes, number * pageBytes);
    for (const { first, count, isTree } of pagesBelow(page)) {
      if (first + count > pages) return false;
      if (isTree) next.push(first);
    }
  }
  return true;
}

/** What a page of a tree refers to: further pages of the tree, or pages of a long value, which refer to nothing. */
function* pagesBelow(page: Buffer): Iterable<{ first: number; count: number; isTree: boolean }> {
  const kind = page.readUInt16LE(PAGE.flags) & (BRANCH | LEAF);
  const nodes = page.readUInt16LE(PAGE.lower) >> 1;
  for (let n = 0; n < nodes; n++) {
    const node = page.subarray(HEADER_BYTES + page.readUInt16LE(HEADER_BYTES + 2 * n));
    if (kind === BRANCH) {
      // The number of the page takes the place of a value's length, and of its flags.
      yield { first: node.readUIntLE(0, 6), count: 1, isTree: true };
      continue;
    }
    const flags = node.readUInt16LE(NODE.flags);
    const value = node.subarray(NODE.key + node.readUInt16LE(NODE.keyBytes));
    if (flags & DATABASE_NODE) {
      const root = readWhole(value, ROOT_IN_DATABASE);
      if (root !== NO_PAGE) yield { first: root, count: 1, isTree: true };
    } else if (flags & OVERFLOW_NODE)
      yield { first: readWhole(value, 0), count: readWhole(value, PAGES_IN_OVERFLOW), isTree: false };
  }
}

function readWhole(bytes: Buffer, offset: number): number {
  return Number(bytes.readBigUInt64LE(offset));
}
