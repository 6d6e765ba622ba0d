import type { Clock } from '../../base/clock.ts';
import { indexStoreOf, type MendableFlaw } from '../indexCheck.ts';
import { INDEXES, type IndexStore } from '../indexStore.ts';
import type { StoreIdentity } from '../store.ts';
import type { Change, Commits } from './commits.ts';
import type { Databases } from './databases.ts';
import { identityChange } from './identity.ts';
import { RULES } from './indexRules.ts';
import { IndexView } from './indexView.ts';

/** Compares the indexes with the entries they follow from, and writes the entries that differ. */
export function indexRepair(
  databases: Databases,
  commits: Commits,
  identity: StoreIdentity,
  clock: Clock,
): IndexStore {
  async function* flaws(): AsyncIterable<MendableFlaw<Change>[]> {
    const view = new IndexView(databases, clock());
    for (const index of INDEXES) {
      const { database: name, entryOf, tell } = RULES[index];
      const pages = tell(view)[Symbol.iterator]();
      for (;;) {
        databases.root.resetReadTxn();
        const { done, value: page } = pages.next();
        if (done) break;
        const database = databases[name];
        const flaws: MendableFlaw<Change>[] = [];
        for (const [key, value] of page) {
          if (view.isAsExpected(name, [key, value])) continue;
          const isThere = view.get(name, key) !== undefined;
          const kind = value === undefined ? 'superfluous' : isThere ? 'wrong' : 'missing';
          const mend = { database, key, value };
          flaws.push({ index, kind, entry: entryOf(key), mend });
          view.mend(name, [key, value]);
        }
        if (flaws.length > 0) yield flaws;
        await new Promise((resolve) => setImmediate(resolve));
      }
    }
  }

  return indexStoreOf({
    identity,
    clock,
    flaws,
    mend: (changes) => commits.write({ changes }),
    keepIdentity: (identity) => commits.write({ changes: [identityChange(databases, identity)] }),
  });
}
