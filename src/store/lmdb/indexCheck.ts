import type { Databases } from './databases.ts';
import { checkExpiry, checkQuotas } from './indexCheck/clients.ts';
import { Facts, type Flaw, type IndexCheck } from './indexCheck/flaw.ts';
import { checkLookups, checkScopes, checkSources, checkWaiting } from './indexCheck/jobs.ts';
import { checkOutcomes, checkTiles } from './indexCheck/log.ts';
import { checkDeadLetters, checkOutbox, checkRevisions, checkTallies } from './indexCheck/webhooks.ts';

/** Each after those it follows from. */
const CHECKS: readonly IndexCheck[] = [
  checkTiles,
  checkOutcomes,
  checkSources,
  checkWaiting,
  checkScopes,
  checkLookups,
  checkExpiry,
  checkQuotas,
  checkRevisions,
  checkOutbox,
  checkDeadLetters,
  checkTallies,
];

/**
 * Everything in the store that does not follow from what it is derived from, page by page: leaves, jobs and what became of them, idempotency
 * entries, endpoints. Those must be whole. Whoever writes the changes of each page before he asks for the next has mended all of it at the end.
 */
export async function* checkIndexes(databases: Databases, now: number): AsyncIterable<Flaw[]> {
  const facts = new Facts(databases, now);
  for (const check of CHECKS) {
    const pages = check(facts)[Symbol.iterator]();
    for (;;) {
      databases.root.resetReadTxn();
      const { done, value } = pages.next();
      if (done) break;
      if (value.length > 0) yield value;
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
}
