import type { Clock } from '../../base/clock.ts';
import { INDEXES, type IndexFlaw, type IndexStore } from '../indexStore.ts';
import type { StoreIdentity } from '../store.ts';
import type { Change, Commits } from './commits.ts';
import type { Databases } from './databases.ts';
import { identityChange } from './identity.ts';
import { RULES } from './indexRules.ts';
import { IndexView } from './indexView.ts';

/** A flaw, and the change that mends it. */
interface Flaw extends IndexFlaw {
  change: Change;
}

/** Compares the indexes with the entries they follow from, and writes the entries that differ. */
export function indexRepair(
  databases: Databases,
  commits: Commits,
  identity: StoreIdentity,
  clock: Clock,
): IndexStore {
  /**
   * Yields the flaws page by page. A caller that writes the changes of each page before requesting the next has mended every index at the
   * end.
   */
  async function* pagesOfFlaws(): AsyncIterable<Flaw[]> {
    const view = new IndexView(databases, clock());
    for (const index of INDEXES) {
      const { database: name, entryOf, tell } = RULES[index];
      const pages = tell(view)[Symbol.iterator]();
      for (;;) {
        databases.root.resetReadTxn();
        const { done, value: page } = pages.next();
        if (done) break;
        const database = databases[name];
        const flaws: Flaw[] = [];
        for (const [key, value] of page) {
          if (view.isAsExpected(name, [key, value])) continue;
          const isThere = view.get(name, key) !== undefined;
          const kind = value === undefined ? 'superfluous' : isThere ? 'wrong' : 'missing';
          flaws.push({
            index,
            kind,
            entry: entryOf(key),
            change: { database, key, value },
          });
          view.mend(name, [key, value]);
        }
        if (flaws.length > 0) yield flaws;
        await new Promise((resolve) => setImmediate(resolve));
      }
    }
  }

  async function keepIdentity(identity: StoreIdentity): Promise<void> {
    await commits.write({ changes: [identityChange(databases, identity)] });
  }

  return {
    async *check() {
      for await (const flaws of pagesOfFlaws()) yield* flaws;
    },

    async repair({ backup, onMended, isGood }) {
      const { repair, ...whole } = identity;
      const mark = repair ?? { begunAt: clock(), backup };
      await keepIdentity({ ...whole, repair: mark });
      for await (const flaws of pagesOfFlaws()) {
        await commits.write({ changes: flaws.map(({ change }) => change) });
        for (const flaw of flaws) onMended(flaw);
      }
      if (!(await isGood())) return false;
      await keepIdentity(whole);
      return true;
    },
  };
}
