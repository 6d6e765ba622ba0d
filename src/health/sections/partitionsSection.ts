import * as z from 'zod';
import { toRfc3339 } from '../../base/clock.ts';
import { KEY_ALGORITHMS } from '../../kms/keyAlgorithm.ts';
import type { PartitionStatus } from '../../kms/partitionStatus.ts';
import type { Partitions } from '../../kms/partitions.ts';
import { countOf, encodeQuorum, neededBy, type QuorumPolicy } from '../../log/quorum.ts';
import { kmsKeyId } from '../../log/verifierKey.ts';
import { by, plain, type StatusMetric, showAs, WIRE } from './section.ts';

const { count, time } = WIRE;

export const partitionSchema = z.object({
  name: z.string().describe('`<region>/<key label>`.'),
  algorithm: z.enum(KEY_ALGORITHMS),
  software: z.literal(true).optional().describe('The private key is in a file, and not in an HSM.'),
  state: z
    .enum([
      'starting',
      'ready',
      'unavailable',
      'pin_refused',
      'key_changed',
      'key_lost',
      'withdrawn',
      'closed',
    ])
    .describe('Only `ready` signs.'),
  since: time,
  last_error: z.string().optional(),
  signatures: count,
  refusals: count.describe(
    'How often its signer refused to sign: another history of the log, or a false time.',
  ),
  trees_given_up: count.describe('Checkpoints that it signed and that the log went on without.'),
  restarts: count,
  sessions: count.describe(
    'Signatures it gives at the same time: `kms.sessions`, or fewer if the token refuses more.',
  ),
  sessions_refused: z.string().optional().describe('How the token refused more sessions: `CKR_…`.'),
  pid: z.int().optional(),
  returns_at: time.optional().describe('When one that was withdrawn is put back by itself.'),
});
export type PresentedPartition = z.infer<typeof partitionSchema>;

export const partitionsSchema = z
  .object({
    quorum: z.union([count, z.string()]),
    needed: count,
    signing: count,
    members: z.array(partitionSchema),
  })
  .describe(
    '`quorum` as the configuration has it, how many signatures it takes, and how many of those there are count.',
  );
type PartitionsSection = z.infer<typeof partitionsSchema>;

/** The partitions that are out of service on purpose. */
export interface Withdrawals {
  /** Milliseconds since the epoch; undefined unless the partition of that name is out. */
  returnsAt(partition: string): number | undefined;
}

export function presentPartitions(
  partitions: Pick<Partitions, 'status'>,
  quorum: QuorumPolicy,
  drills: Withdrawals,
): PartitionsSection {
  const members = partitions.status();
  return {
    quorum: encodeQuorum(quorum),
    needed: neededBy(quorum),
    signing: countOf(
      quorum,
      members.filter(({ state }) => state === 'ready'),
    ),
    members: members.map((member) => presentPartition(member, drills)),
  };
}

function presentPartition(status: PartitionStatus, drills: Withdrawals): PresentedPartition {
  const { region, keyLabel, since, lastError, sessionsRefused, treesGivenUp, ...others } = status;
  const name = kmsKeyId({ region, keyLabel });
  const returnsAt = drills.returnsAt(name);
  return {
    name,
    since: toRfc3339(since),
    ...others,
    trees_given_up: treesGivenUp,
    last_error: lastError,
    sessions_refused: sessionsRefused,
    ...(returnsAt !== undefined && { returns_at: toRfc3339(returnsAt) }),
  };
}

/** A total of each partition since the start of the daemon. */
function total(
  name: `pdfseal_partition_${string}_total`,
  help: string,
  of: 'signatures' | 'refusals' | 'trees_given_up' | 'restarts',
): StatusMetric<PartitionsSection> {
  return by('partition', name, help, ({ members }) => members.map((member) => [member.name, member[of]]));
}

showAs(partitionsSchema, [
  by('partition', 'pdfseal_partition_ready', '1 while this partition signs', ({ members }) =>
    members.map(({ name, state }) => [name, state === 'ready']),
  ),
  total('pdfseal_partition_signatures_total', 'Checkpoints this partition signed', 'signatures'),
  total('pdfseal_partition_refusals_total', 'How often its signer refused to sign', 'refusals'),
  total(
    'pdfseal_partition_trees_given_up_total',
    'Checkpoints it signed and the log went on without',
    'trees_given_up',
  ),
  total('pdfseal_partition_restarts_total', 'Signer processes that were replaced', 'restarts'),
  plain('pdfseal_quorum', 'How many must sign (kms.quorum), in the epoch in force', 'needed'),
  plain(
    'pdfseal_quorum_signers',
    'How many of those that sign count towards the quorum; below it nothing is sealed',
    'signing',
  ),
]);
