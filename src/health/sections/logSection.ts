import * as z from 'zod';
import { toRfc3339 } from '../../base/clock.ts';
import type { LastCheckpointStatus } from '../../prove/trail/lastCheckpoint.ts';
import { epochSeconds, plain, showAs, WIRE } from './section.ts';

const { count, time } = WIRE;

export const auditSchema = z
  .object({ unsealed: count })
  .describe('Records of the audit trail that wait to be sealed.');

export const logSchema = z.object({ origin: z.string(), tree_size: count, sealed_at: time.optional() });

export const lastCheckpointSchema = z
  .object({ tree_size: count, current_at: time.optional() })
  .describe(
    'Size of the log as the last-checkpoint file has it, and when that was last known to be the newest.',
  );
type LastCheckpointSection = z.infer<typeof lastCheckpointSchema>;

export function presentLastCheckpoint({ treeSize, currentAt }: LastCheckpointStatus): LastCheckpointSection {
  return { tree_size: treeSize, ...(currentAt !== undefined && { current_at: toRfc3339(currentAt) }) };
}

showAs(auditSchema, [
  plain('pdfseal_audit_unsealed', 'Records of the audit trail that wait to be sealed', 'unsealed'),
]);

showAs(logSchema, [
  plain('pdfseal_log_leaves', 'Size of the log: sealed jobs, canaries too', 'tree_size'),
  plain(
    'pdfseal_log_sealed_timestamp_seconds',
    'When the newest checkpoint was sealed; absent while the log is empty',
    (log) => epochSeconds(log.sealed_at),
  ),
]);

/** The second names are former ones: they stay until December 2027. */
showAs(
  lastCheckpointSchema,
  ['pdfseal_last_checkpoint', 'pdfseal_witness'].flatMap((name) => [
    plain(`${name}_leaves`, 'Size of the log as the last-checkpoint file has it', 'tree_size'),
    plain(
      `${name}_current_timestamp_seconds`,
      'When the last-checkpoint file was last known to hold the newest checkpoint; absent until it is',
      (last) => epochSeconds(last.current_at),
    ),
  ]),
);
