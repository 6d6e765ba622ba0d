import type { Clock } from '../../base/clock.ts';
import { INDEXES, type IndexFlaw, type IndexStore, type RepairOptions } from '../indexStore.ts';
import type { StoreIdentity } from '../store.ts';
import type { Change, Commits } from './commits.ts';
import type { Databases } from './databases.ts';
import { identityChange } from './identity.ts';
import { RULES } from './indexRules.ts';
import { IndexView } from './indexView.ts';

/** A flaw, and what mends it. */
interface Flaw extends IndexFlaw {
  change: Change;
}

/** Compares the indexes with what they follow from, and writes the entries that differ. */
export class IndexRepair implements IndexStore {
  readonly #databases: Databases;
  readonly #commits: Commits;
  readonly #identity: StoreIdentity;
  readonly #clock: Clock;

  constructor(databases: Databases, commits: Commits, identity: StoreIdentity, clock: Clock) {
    this.#databases = databases;
    this.#commits = commits;
    this.#identity = identity;
    this.#clock = clock;
  }

  async *check(): AsyncIterable<IndexFlaw> {
    for await (const flaws of this.#flaws()) yield* flaws;
  }

  async repair({ backup, onMended, isGood }: RepairOptions): Promise<boolean> {
    const { repair, ...whole } = this.#identity;
    const mark = repair ?? { begunAt: this.#clock(), ...(backup !== undefined && { backup }) };
    await this.#mark({ ...whole, repair: mark });
    for await (const flaws of this.#flaws()) {
      await this.#commits.write({ changes: flaws.map(({ change }) => change) });
      for (const flaw of flaws) onMended(flaw);
    }
    if (!(await isGood())) return false;
    await this.#mark(whole);
    return true;
  }

  /** Page by page. Whoever writes the changes of each page before asking for the next has mended every index at the end. */
  async *#flaws(): AsyncIterable<Flaw[]> {
    const view = new IndexView(this.#databases, this.#clock());
    for (const index of INDEXES) {
      const { database: name, entryOf, tell } = RULES[index];
      const pages = tell(view)[Symbol.iterator]();
      for (;;) {
        this.#databases.root.resetReadTxn();
        const { done, value: page } = pages.next();
        if (done) break;
        const database = this.#databases[name];
        const flaws: Flaw[] = [];
        for (const [key, value] of page) {
          if (view.isAsExpected(name, [key, value])) continue;
          const isThere = view.get(name, key) !== undefined;
          const kind = value === undefined ? 'superfluous' : isThere ? 'wrong' : 'missing';
          flaws.push({
            index,
            kind,
            entry: entryOf(key),
            change: { database, key, ...(value && { value }) },
          });
          view.mend(name, [key, value]);
        }
        if (flaws.length > 0) yield flaws;
        await new Promise((resolve) => setImmediate(resolve));
      }
    }
  }

  async #mark(identity: StoreIdentity): Promise<void> {
    await this.#commits.write({ changes: [identityChange(this.#databases, identity)] });
  }
}
