/** The query that a person carries to an outside authority, while the timer calls `pdfseal renew`. */
import { systemClock, toRfc3339 } from '../../base/clock.ts';
import { OperatorError } from '../../base/errors.ts';
import { endOfDraft } from '../../prove/renewal/renewalRun.ts';
import type { RenewalDraft } from '../../store/renewalStore.ts';
import { hasWays, type Renewing, type Survey, waysAt } from './renewRun.ts';

/**
 * The draft of an open query that can still help, unless another hash function is requested now. Throws OperatorError if a renewal has
 * ended on which the query builds: a time-stamp of today would not serve it, but an answer from before that end can be on its way, and can
 * prove what nothing else does.
 */
export async function queryToKeep(
  renewing: Renewing,
  { first }: Pick<Survey, 'first'>,
  hash?: string,
): Promise<RenewalDraft | undefined> {
  const draft = await renewing.store.renewals.draft();
  if (draft?.nonce === undefined || systemClock() >= endOfDraft(draft)) return undefined;
  if (draft.digest === first?.ofDigest || draft.digest !== (hash ?? draft.digest)) return undefined;
  if (hasWays(draft, waysAt(renewing, draft.thefts ?? [], systemClock()))) return draft;
  const until = toRfc3339(endOfDraft(draft));
  throw new OperatorError(
    `a query that builds on an ended renewal is still open: nothing is renewed until its answer comes, or until ${until}`,
    {
      remedy:
        'if the authority answered before that end, pass the answer on: pdfseal renew accept <answer.tsr. Otherwise write another query: pdfseal renew request >query.tsq',
    },
  );
}
