import * as z from 'zod';
import { toRfc3339 } from '../../base/clock.ts';
import type { NodeOutlook } from '../../seal/remoteSealer.ts';
import { epochSeconds, plain, showAs, WIRE } from './section.ts';

export const sealingSchema = z
  .object({
    active: z.boolean().describe('Whether a daemon that seals is active.'),
    node: z.string().describe('The one that was active last; empty before the first.'),
    obstacle: z.string().optional().describe('Why it can seal nothing: the code of the error.'),
    scans: z.boolean().describe('Whether it scans documents for viruses; then the front must, too.'),
    lacks_acceptance_key: z
      .boolean()
      .describe('Whether it demands an acceptance key that the front does not have.'),
    last_commit_at: WIRE.time.optional().describe('`sealed_at` of the newest batch of the log.'),
  })
  .describe(
    'What a front knows of the daemon that seals what the front accepts. Only in the status of a front.',
  );
type SealingSection = z.infer<typeof sealingSchema>;

export function presentSealing(
  { isActive, holder, obstacle, scans, lacksAcceptanceKey }: NodeOutlook,
  sealedAt: number | undefined,
): SealingSection {
  return {
    active: isActive,
    node: holder,
    ...(isActive && obstacle !== undefined && { obstacle }),
    scans,
    lacks_acceptance_key: lacksAcceptanceKey,
    ...(sealedAt !== undefined && { last_commit_at: toRfc3339(sealedAt) }),
  };
}

/** Only of a front. */
showAs(sealingSchema, [
  plain('pdfseal_sealing_active', 'In a front: 1 while a daemon that seals is active', 'active'),
  plain(
    'pdfseal_sealing_last_commit_timestamp_seconds',
    'In a front: sealed_at of the newest batch of the log',
    (sealing) => epochSeconds(sealing.last_commit_at),
  ),
]);
