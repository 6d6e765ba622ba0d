import { toHex } from '../../base/bytes.ts';
import { toRfc3339 } from '../../base/clock.ts';
import { sha256 } from '../../base/crypto.ts';
import type { ActObject } from '../../manifest/auditRecord.ts';
import type { KeptTheft, RenewalRun } from '../../store/renewalStore.ts';
import { newestOf, rootOfRun } from './renewalRun.ts';
import { bytesOf, type RenewalTrees } from './renewals.ts';

/** The object of the audit record of a renewal. */
export function auditedRun(
  trees: RenewalTrees,
  run: Pick<
    RenewalRun,
    'number' | 'digest' | 'from' | 'to' | 'path' | 'older' | 'rows' | 'tokens' | 'thefts'
  >,
): ActObject {
  const { number, digest, from, to, rows, tokens, thefts = [] } = run;
  return {
    run: number,
    digest,
    from,
    to,
    root: toHex(rootOfRun(trees, run, rows)),
    authorities: tokens.map(({ authority }) => authority),
    stamped_at: toRfc3339(newestOf([run])),
    // The SHA-256 of each root, and the time from which it is distrusted.
    ...(thefts.length > 0 && { distrusted: thefts.map(auditedTheft) }),
  };
}

function auditedTheft({ root, since }: KeptTheft): string {
  return `${toHex(sha256(bytesOf(root)))} since ${toRfc3339(since)}`;
}
