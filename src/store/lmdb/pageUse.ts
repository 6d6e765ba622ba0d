import type { PageReport, StorePages } from '../store.ts';
import { DATABASE_NAMES, type Databases, type TreeStats } from './databases.ts';

/** Pages at the beginning of the file that belong to no tree. */
const META_PAGES = 2;
/** Maximum number of remembered readings while a process reads an old snapshot. */
const MARKS_MAX = 10_000;

/** A transaction that was the newest at a reading of the pages. */
interface Mark {
  transaction: number;
  atMs: number;
}

/**
 * LMDB reuses a page only if no reader has a snapshot from before it was freed. It reports the transaction of each reader, but not since
 * when it reads: so every reading remembers the newest transaction, and a reader is as old as the first one that is newer than its own.
 */
export class PageUse implements StorePages {
  readonly #databases: Databases;
  readonly #monotonicMs: () => number;
  #marks: Mark[] = [];

  constructor(databases: Databases, monotonicMs: () => number) {
    this.#databases = databases;
    this.#monotonicMs = monotonicMs;
  }

  read(): PageReport {
    const { root } = this.#databases;
    root.readerCheck(); // forgets processes that have ended
    const now = this.#monotonicMs();
    const stats = root.getStats() as RootStats;
    const trees = [stats.root, stats.free, ...DATABASE_NAMES.map((name) => this.#databases[name].getStats())];
    const used = trees.reduce((sum, tree) => sum + pagesOf(tree), META_PAGES);
    const report = { freeBytes: (stats.lastPageNumber + 1 - used) * stats.pageSize };

    const oldest = readersOf(root.readerList()).reduce<Reader | undefined>(
      (first, reader) => (first && first.transaction <= reader.transaction ? first : reader),
      undefined,
    );
    // Readers only ever begin at the newest transaction: marks that are not newer than the oldest reader are of no further use.
    this.#marks = this.#marks.filter(({ transaction }) => oldest && transaction > oldest.transaction);
    const [overtaken] = this.#marks;
    const isNew = this.#marks.at(-1)?.transaction !== stats.lastTxnId && this.#marks.length < MARKS_MAX;
    if (isNew) this.#marks.push({ transaction: stats.lastTxnId, atMs: now });
    if (oldest === undefined || oldest.transaction >= stats.lastTxnId) return report;
    return { ...report, oldestReader: { pid: oldest.pid, ageMs: now - (overtaken?.atMs ?? now) } };
  }
}

interface RootStats {
  root: TreeStats;
  free: TreeStats;
  pageSize: number;
  lastPageNumber: number;
  lastTxnId: number;
}

function pagesOf({ treeBranchPageCount = 0, treeLeafPageCount = 0, overflowPages = 0 }: TreeStats): number {
  return treeBranchPageCount + treeLeafPageCount + overflowPages;
}

interface Reader {
  pid: number;
  transaction: number;
}

/** The current readers. Lines of `mdb_reader_list`: process, thread, transaction or `-`. */
function readersOf(list: string): Reader[] {
  return Array.from(list.matchAll(/^ *(\d+) [0-9a-f]+ (\d+)$/gm), ([, pid, transaction]) => ({
    pid: Number(pid),
    transaction: Number(transaction),
  }));
}
