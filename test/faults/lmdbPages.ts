/** The pages of an LMDB data file, by what they are for, and the places in them that mean something (mdb.c). */
import { readFileSync } from 'node:fs';

const META_BYTES = 160;
const META = { pageBytes: 48, freeRoot: 88, mainRoot: 136, lastPage: 144, transaction: 152 };
const HEADER_BYTES = 24;
const PAGE = { flags: 18, lower: 20, upper: 22 };
const BRANCH = 0x01;
const OVERFLOW_NODE = 0x01;
const DATABASE_NODE = 0x02;
const ROOT_IN_DATABASE = 40;
const NO_PAGE = 2n ** 64n - 1n;

/** Bytes of the file, from one offset to another, that are in use. */
export interface Region {
  from: number;
  to: number;
}

/** By the kind of page, as `leaf of jobs`, the regions of each page: its header, its pointers, and its nodes or value. */
export type Pages = Map<string, Region[][]>;

/** Of a whole file that nobody writes. */
export function readPages(path: string): Pages {
  const file = readFileSync(path);
  const pageBytes = file.readUInt32LE(META.pageBytes);
  const pages: Pages = new Map();
  const add = (kind: string, ...regions: Region[]) =>
    pages.set(kind, [...(pages.get(kind) ?? []), regions.filter(({ from, to }) => to > from)]);
  const metas = [0, pageBytes];
  for (const from of metas) add('meta', { from, to: from + META_BYTES });
  const [newest = 0] = metas.sort((a, b) =>
    Number(file.readBigUInt64LE(b + META.transaction) - file.readBigUInt64LE(a + META.transaction)),
  );
  const walk = (root: bigint, tree: string): void => {
    if (root === NO_PAGE) return;
    const at = Number(root) * pageBytes;
    const page = file.subarray(at, at + pageBytes);
    const isBranch = (page.readUInt16LE(PAGE.flags) & BRANCH) !== 0;
    const [lower, upper] = [page.readUInt16LE(PAGE.lower), page.readUInt16LE(PAGE.upper)];
    add(
      `${isBranch ? 'branch' : 'leaf'} of ${tree}`,
      { from: at, to: at + HEADER_BYTES },
      { from: at + HEADER_BYTES, to: at + HEADER_BYTES + lower },
      { from: at + HEADER_BYTES + upper, to: at + pageBytes },
    );
    for (let n = 0; n < lower >> 1; n++) {
      const node = page.subarray(HEADER_BYTES + page.readUInt16LE(HEADER_BYTES + 2 * n));
      if (isBranch) {
        walk(BigInt(node.readUIntLE(0, 6)), tree);
        continue;
      }
      const flags = node.readUInt16LE(4);
      const keyBytes = node.readUInt16LE(6);
      const value = node.subarray(8 + keyBytes);
      if (flags & DATABASE_NODE)
        walk(
          value.readBigUInt64LE(ROOT_IN_DATABASE),
          node.toString('latin1', 8, 8 + keyBytes).replaceAll('\0', ''),
        );
      else if (flags & OVERFLOW_NODE) {
        const first = Number(value.readBigUInt64LE(0)) * pageBytes;
        const bytes = HEADER_BYTES + node.readUInt32LE(0);
        add(
          `long value of ${tree}`,
          { from: first, to: first + HEADER_BYTES },
          { from: first + HEADER_BYTES, to: first + bytes },
        );
      }
    }
  };
  walk(file.readBigUInt64LE(newest + META.freeRoot), 'the free pages');
  walk(file.readBigUInt64LE(newest + META.mainRoot), 'all tables');
  return pages;
}
