/** The answers of the administration about requests that are carried to witnesses, and of their answers. */
import * as z from 'zod';
import { toRfc3339 } from '../base/clock.ts';
import { WIRE } from '../health/sections/section.ts';
import type { CarriedOutcome, CarriedRequest } from '../watch/carrying.ts';

const { count, time } = WIRE;

const witness = z.string().describe('Its name in the policy.');

export const carriedRequestSchema = z.object({
  witness,
  old_size: count.describe('Of the newest tree that the witness holds, as far as the log knows.'),
  tree_size: count.describe('Of the tree to cosign.'),
  request: z.string().describe('The body of `POST <prefix>/add-checkpoint` (C2SP tlog-witness).'),
});
export type PresentedRequest = z.infer<typeof carriedRequestSchema>;

export const carriedOutcomeSchema = z.object({
  witness,
  outcome: z.enum(['cosigned', 'other_size', 'contradiction']),
  tree_size: count.optional().describe('Of the tree that the witness cosigned, or says it holds.'),
  cosigned_at: time.optional(),
  witnessed: z
    .boolean()
    .optional()
    .describe('Whether the newest checkpoint that the quorum has cosigned has this size.'),
  is_news: z
    .boolean()
    .optional()
    .describe(
      'False if the size was known. If this is the answer to the newest request, the witness then holds another tree of that size: repeat the answer with `raise_fork_alarm=true`.',
    ),
  next: carriedRequestSchema.optional().describe('What to carry now.'),
  detail: z.string().optional().describe('Of a contradiction. The fork alarm is on.'),
});
export type PresentedOutcome = z.infer<typeof carriedOutcomeSchema>;

export function presentRequest({ witness, oldSize, treeSize, body }: CarriedRequest): PresentedRequest {
  return { witness, old_size: oldSize, tree_size: treeSize, request: body };
}

export function presentOutcome(found: CarriedOutcome): PresentedOutcome {
  const { witness, kind: outcome } = found;
  switch (found.kind) {
    case 'cosigned': {
      const { treeSize, cosignedAt, isWitnessed } = found;
      const at = toRfc3339(cosignedAt * 1000);
      return { witness, outcome, tree_size: treeSize, cosigned_at: at, witnessed: isWitnessed };
    }
    case 'other_size': {
      const { heldSize, isNews, request } = found;
      return { witness, outcome, tree_size: heldSize, is_news: isNews, next: presentRequest(request) };
    }
    case 'contradiction':
      return { witness, outcome, detail: found.detail };
  }
}
