import * as z from 'zod';
import { toRfc3339 } from '../../base/clock.ts';
import type { Witnessing, WitnessStatus } from '../../watch/witnessing.ts';
import { by, epochSeconds, plain, type StatusMetric, showAs, WIRE } from './section.ts';

const { count, time } = WIRE;

const STATES = ['cosigning', 'waiting', 'failing', 'not_asked', 'contradiction'] as const;

const memberSchema = z.object({
  name: z.string().describe('Its name in the policy.'),
  state: z.enum(STATES),
  tree_size: count.describe('Of the newest tree of the log that it holds.'),
  cosigned_at: time.optional(),
  trouble: z.string().optional(),
  detail: z.string().optional(),
});
export type PresentedWitness = z.infer<typeof memberSchema>;

export const witnessesSchema = z
  .object({
    can_cosign: z
      .boolean()
      .describe('False while too few witnesses can be reached for a batch that must wait for them.'),
    fork_alarm: z
      .boolean()
      .describe('Whether a witness holds another history of the log: then nothing is sealed.'),
    by_hand: z
      .boolean()
      .describe('Whether the quorum needs a witness without a URL, to which somebody carries the requests.'),
    witnessed: z
      .object({ tree_size: count, cosigned_at: time })
      .optional()
      .describe('The newest checkpoint that the quorum of the policy has cosigned.'),
    members: z.array(memberSchema),
  })
  .describe('Absent where no witness is asked.');
type PresentedWitnesses = z.infer<typeof witnessesSchema>;

export function presentWitnesses(
  witnessing: Pick<Witnessing, 'isForked' | 'status' | 'canCosign'>,
): PresentedWitnesses {
  const { witnesses, witnessed, isByHand } = witnessing.status;
  return {
    can_cosign: witnessing.canCosign(),
    fork_alarm: witnessing.isForked,
    by_hand: isByHand,
    ...(witnessed && { witnessed: { tree_size: witnessed.treeSize, cosigned_at: toRfc3339(witnessed.at) } }),
    members: witnesses.map(presentWitness),
  };
}

function presentWitness(status: WitnessStatus): PresentedWitness {
  const { name, treeSize, cosignedAt, trouble, contradiction } = status;
  const detail = contradiction?.detail ?? trouble?.detail;
  return {
    name,
    state: stateOf(status),
    tree_size: treeSize,
    ...(cosignedAt !== undefined && { cosigned_at: toRfc3339(cosignedAt * 1000) }),
    trouble: trouble?.code,
    detail,
  };
}

function stateOf({ isAsked, cosignedAt, trouble, contradiction }: WitnessStatus): PresentedWitness['state'] {
  if (contradiction !== undefined) return 'contradiction';
  if (trouble !== undefined) return 'failing';
  if (!isAsked) return 'not_asked';
  return cosignedAt === undefined ? 'waiting' : 'cosigning';
}

function each(
  name: string,
  help: string,
  value: (member: PresentedWitness) => number | boolean | undefined,
): StatusMetric<PresentedWitnesses> {
  return by('witness', name, help, ({ members }) => members.map((member) => [member.name, value(member)]));
}

showAs(witnessesSchema, [
  plain(
    'pdfseal_fork_alarm',
    '1 while a witness holds another history of the log, and nothing is sealed; absent without witnesses',
    'fork_alarm',
  ),
  plain(
    'pdfseal_witnessing_by_hand',
    '1 if the quorum needs a witness without a URL, to which somebody carries the requests',
    'by_hand',
  ),
  plain(
    'pdfseal_witnessed_leaves',
    'Size of the newest checkpoint that the quorum of witnesses has cosigned; absent until then',
    ({ witnessed }) => witnessed?.tree_size,
  ),
  plain(
    'pdfseal_witnessed_timestamp_seconds',
    'When the quorum of witnesses last cosigned a checkpoint; absent until then',
    ({ witnessed }) => epochSeconds(witnessed?.cosigned_at),
  ),
  each(
    'pdfseal_cosigner_up',
    '1 unless the newest answer of this witness was not a cosignature',
    ({ state }) => (state === 'not_asked' ? undefined : state !== 'failing' && state !== 'contradiction'),
  ),
  each(
    'pdfseal_cosigner_leaves',
    'Size of the newest tree of the log that this witness holds',
    ({ tree_size: size }) => size,
  ),
]);
