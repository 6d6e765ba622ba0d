import * as z from 'zod';
import type { EgressStatus } from '../../web/egressClient.ts';
import { plain, showAs, WIRE } from './section.ts';

export const egressSchema = z
  .object({
    mode: z.enum(['unit', 'child']).describe('Whether it is a unit of its own, or a child of the daemon.'),
    answers: z
      .boolean()
      .describe('Whether it answered the newest request, or the daemon’s own question of each second.'),
    trouble: z.string().optional(),
    restarts: WIRE.count.describe('Of a child.'),
  })
  .describe('The process that sends what goes to other machines; absent until it is needed.');
type EgressSection = z.infer<typeof egressSchema>;

export function presentEgress({
  mode,
  isAnswering,
  trouble,
  restarts,
}: EgressStatus): EgressSection | undefined {
  if (isAnswering === undefined && restarts === 0) return undefined;
  return { mode, answers: isAnswering ?? false, trouble, restarts };
}

showAs(egressSchema, [
  plain(
    'pdfseal_egress_up',
    '1 if the egress process answers, of which it is asked every second; absent until it is needed',
    'answers',
  ),
  plain(
    'pdfseal_egress_restarts_total',
    'Egress processes that ended and were started again by the daemon',
    'restarts',
  ),
]);
