import * as z from 'zod';
import type { RefusedJobs } from '../../seal/refusedJobs.ts';
import type { AcceptanceStore } from '../../store/acceptances.ts';
import { plain, showAs, WIRE } from './section.ts';

export const acceptanceSchema = z
  .object({
    keys: z.array(z.string()).describe('The names of the acceptance keys that count; empty without one.'),
    refused: WIRE.count.describe(
      'Jobs in the store that failed since the start, because no request can have made them, or because they are not what a node with the key accepted.',
    ),
  })
  .describe('How the daemon that seals knows that a node accepted what waits. Absent in a front.');
type AcceptanceSection = z.infer<typeof acceptanceSchema>;

export function presentAcceptance(
  acceptances: Pick<AcceptanceStore, 'names'> | undefined,
  refused: Pick<RefusedJobs, 'count'>,
): AcceptanceSection {
  return { keys: [...(acceptances?.names ?? [])], refused: refused.count };
}

showAs(acceptanceSchema, [
  plain(
    'pdfseal_refused_jobs_total',
    'Jobs in the store that failed, because no request can have made them, or no node accepted them so',
    'refused',
  ),
]);
