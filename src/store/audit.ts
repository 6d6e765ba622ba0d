import { auditExpiry, auditQuotas } from './audit/clients.ts';
import { Facts, type Flaw, type IndexAudit } from './audit/flaw.ts';
import { auditLookups, auditScopes, auditSources, auditWaiting } from './audit/jobs.ts';
import { auditOutcomes, auditTiles } from './audit/log.ts';
import { auditDeadLetters, auditOutbox, auditRevisions, auditTallies } from './audit/webhooks.ts';
import type { Commits } from './commits.ts';
import type { Databases } from './databases.ts';

/** Each after those it follows from. */
const AUDITS: readonly IndexAudit[] = [
  auditTiles,
  auditOutcomes,
  auditSources,
  auditWaiting,
  auditScopes,
  auditLookups,
  auditExpiry,
  auditQuotas,
  auditRevisions,
  auditOutbox,
  auditDeadLetters,
  auditTallies,
];

/**
 * Everything in the store that does not follow from what it is derived from, page by page: leaves, jobs and what became of them, idempotency
 * entries, endpoints. Those must be whole. Whoever writes the changes of each page before he asks for the next has mended all of it at the end.
 */
export async function* auditIndexes(
  databases: Databases,
  commits: Commits,
  now: number,
): AsyncIterable<Flaw[]> {
  const facts = new Facts(databases, now);
  for (const audit of AUDITS) {
    const pages = audit(facts)[Symbol.iterator]();
    for (;;) {
      commits.assertIntact();
      databases.root.resetReadTxn();
      const { done, value } = pages.next();
      if (done) break;
      if (value.length > 0) yield value;
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
}
