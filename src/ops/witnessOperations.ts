/** Operations with which a witness without a network cosigns: a request is carried to it, and its answer back. */
import * as z from 'zod';
import { toRfc3339 } from '../base/clock.ts';
import { WIRE } from '../health/sections/section.ts';
import type { CarriedOutcome, CarriedRequest } from '../watch/carrying.ts';
import { operation } from './operation.ts';
import { trueOrFalseText } from './operationFields.ts';
import { type DaemonParts, existing } from './operationParts.ts';

const { count, time } = WIRE;

const NO_WITNESS = 'No witness is configured: name their policy in witness.policy.';

const witnessField = {
  says: 'name in the policy (default: the only one, or the only one without a URL)',
  schema: z.string().optional(),
  typed: '<name>',
};
const witness = z.string().describe('Its name in the policy.');

const requestSchema = z.object({
  witness,
  old_size: count.describe('Of the newest tree that the witness holds, as far as the log knows.'),
  tree_size: count.describe('Of the tree to cosign.'),
  request: z.string().describe('The body of `POST <prefix>/add-checkpoint` (C2SP tlog-witness).'),
});
export type PresentedRequest = z.infer<typeof requestSchema>;

const outcomeSchema = z.object({
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
  next: requestSchema.optional().describe('What to carry now.'),
  detail: z.string().optional().describe('Of a contradiction. The fork alarm is on.'),
});
export type PresentedOutcome = z.infer<typeof outcomeSchema>;

export const requestCosignature = operation({
  name: 'witness.request',
  says: 'Gets the newest checkpoint for a witness, to be transferred by file.',
  explains:
    'The checkpoint is kept until its answer comes. The witnesses on the network are asked to cosign it first.',
  route: {
    id: 'requestCosignature',
    method: 'post',
    path: '/witness/request',
    failures: ['missing_parameter', 'not_found'],
  },
  role: 'administrator',
  needs: 'daemon',
  acts: ['witness.request'],
  guard: ({ carrying }) => existing(carrying, NO_WITNESS),
  fields: {
    witness: witnessField,
    tree_size: {
      says: 'the checkpoint of that size again, which another witness was given: a quorum cosigns one checkpoint',
      schema: z.int('must be a number of leaves.').min(0).optional(),
      typed: '<leaves>',
    },
  },
  around: {
    object: (fields) => carriedObject(fields),
    result: ({ witness, tree_size }) => ({ witness, tree_size }),
  },
  answer: { name: 'WitnessRequest', says: 'The request.', schema: requestSchema },
  async run({ carrying }: DaemonParts, { witness, tree_size }) {
    return presentRequest(await existing(carrying, NO_WITNESS).request(witness, tree_size));
  },
});

export const acceptCosignature = operation({
  name: 'witness.accept',
  says: 'Accepts the answer of a witness that was transferred by file.',
  explains:
    'Without `raise_fork_alarm=true`, the answer that the witness holds another history of the log is refused, and changes nothing: nothing signs such an answer.',
  route: {
    id: 'acceptCosignature',
    method: 'post',
    path: '/witness/answer',
    sends: { text: 'answer' },
    failures: ['missing_parameter', 'not_found'],
  },
  role: 'administrator',
  needs: 'daemon',
  acts: ['witness.accept'],
  guard: ({ carrying }) => existing(carrying, NO_WITNESS),
  fields: {
    witness: witnessField,
    raise_fork_alarm: {
      says: 'you have made sure of the answer: if it is whole and contradicts the log, raise the fork alarm, and nothing more is sealed',
      schema: trueOrFalseText.prefault(false),
    },
    answer: { says: 'the answer of the witness', schema: z.string() },
  },
  around: {
    object: ({ answer: _, ...fields }) => carriedObject(fields),
    result: ({ witness, outcome, tree_size: size }) => {
      return { witness, answer: outcome, ...(size !== undefined && { tree_size: size }) };
    },
  },
  answer: { name: 'WitnessOutcome', says: 'What the answer says.', schema: outcomeSchema },
  async run({ carrying }: DaemonParts, { witness, raise_fork_alarm: raisesAlarm, answer }) {
    return presentOutcome(await existing(carrying, NO_WITNESS).accept(answer, witness, raisesAlarm));
  },
});

/** The object of an audit record. Any text can be given as the name of a witness. */
function carriedObject({
  witness,
  ...others
}: { witness: string | undefined } & Record<string, string | number | boolean | undefined>) {
  const given = { witness: witness?.slice(0, 80), ...others };
  return Object.fromEntries(
    Object.entries(given).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );
}

function presentRequest({ witness, oldSize, treeSize, body }: CarriedRequest): PresentedRequest {
  return { witness, old_size: oldSize, tree_size: treeSize, request: body };
}

function presentOutcome(found: CarriedOutcome): PresentedOutcome {
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
