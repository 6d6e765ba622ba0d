/** Operations on a running daemon: its status, canaries, drills, its clock, and time-stamps for renewals. */
import * as z from 'zod';
import { fromHex } from '../base/bytes.ts';
import { toRfc3339 } from '../base/clock.ts';
import { ServiceError } from '../base/errors.ts';
import { presentRun, runSchema } from '../health/sections/canarySection.ts';
import { partitionSchema } from '../health/sections/partitionsSection.ts';
import { quotasSchema } from '../health/sections/quotasSection.ts';
import { WIRE } from '../health/sections/section.ts';
import { statusSchema } from '../health/statusSchema.ts';
import { invalidField } from '../job/fieldValues.ts';
import { RENEWAL_DIGESTS } from '../store/renewalStore.ts';
import { TimestampUnavailable } from '../tsa/unavailable.ts';
import { operation } from './operation.ts';
import { durationText, trueOrFalseText } from './operationFields.ts';
import { type DaemonParts, existing, IS_FRONT } from './operationParts.ts';

const { time } = WIRE;

const READS = { role: 'reader', needs: 'daemon', acts: [] } as const;
const CHANGES = { role: 'administrator', needs: 'daemon' } as const;

export const readStatusOperation = operation({
  name: 'status.read',
  says: 'Shows everything that `pdfseal status` and `doctor` show.',
  route: { id: 'getStatus', method: 'get', path: '/status' },
  ...READS,
  fields: {},
  answer: { name: 'Status', says: 'The status of the daemon.', schema: statusSchema },
  run: ({ status }: DaemonParts) => status.read(),
});

export const listQuotas = operation({
  name: 'quotas.list',
  says: 'Lists what each client has used of its rate and its quotas.',
  route: { id: 'getQuotas', method: 'get', path: '/quotas' },
  ...READS,
  fields: {},
  answer: {
    name: 'Quotas',
    says: 'All clients that have their own limits or have used part of a limit, by name.',
    schema: quotasSchema,
  },
  run: async ({ status }: DaemonParts) => status.quotas(),
});

export const sealCanary = operation({
  name: 'canary.seal',
  says: 'Seals and verifies a canary now.',
  route: { id: 'singCanary', method: 'post', path: '/canary', failures: ['not_found'] },
  ...CHANGES,
  acts: [],
  fields: {},
  answer: { name: 'Run', says: 'The result of the run; `verified` can be false.', schema: runSchema },
  run: async ({ canary, clock }: DaemonParts) => presentRun(await existing(canary, IS_FRONT).run(), clock()),
});

/** How long a partition is out of service at most. */
const OUT_MS_MAX = 3_600_000;

const partitionName = {
  says: 'region of the partition, or <region>/<key label>',
  schema: z.string(),
  typed: '<name>',
};

export const takePartitionOut = operation({
  name: 'partition.out',
  says: 'Takes a partition out of service for a time.',
  route: {
    id: 'takePartitionOut',
    method: 'post',
    path: '/partitions/{name}/out',
    failures: ['partition_not_ready', 'below_quorum'],
  },
  ...CHANGES,
  acts: ['drill.begin'],
  fields: {
    name: partitionName,
    for: {
      says: 'how long the partition is out, at most 1h; then it returns by itself',
      schema: durationText({
        min: 1,
        max: OUT_MS_MAX,
        what: 'a duration of at most 1h, such as 30s',
      }).prefault('30s'),
      typed: '<duration>',
    },
    below_quorum: {
      says: 'also if too few partitions are left to sign',
      schema: trueOrFalseText.prefault(false),
    },
  },
  answer: { name: 'Partition', says: 'The partition, withdrawn.', schema: partitionSchema },
  async run({ drills, status }: DaemonParts, { name, for: forMs, below_quorum: belowQuorum }, actor) {
    const out = await existing(drills, IS_FRONT).takeOut(name, { forMs, belowQuorum }, actor);
    return partitionIn(status, out);
  },
});

export const putPartitionIn = operation({
  name: 'partition.in',
  says: 'Puts a partition back into service.',
  route: { id: 'putPartitionIn', method: 'post', path: '/partitions/{name}/in' },
  ...CHANGES,
  acts: ['drill.end'],
  fields: { name: partitionName },
  answer: {
    name: 'Partition',
    says: 'The partition; it can take a moment until it signs.',
    schema: partitionSchema,
  },
  async run({ drills, status }: DaemonParts, { name }, actor) {
    return partitionIn(status, await existing(drills, IS_FRONT).putBack(name, actor));
  },
});

async function partitionIn(status: DaemonParts['status'], name: string) {
  const { partitions } = await status.read();
  return existing(
    partitions.members.find((member) => member.name === name),
    'The partition is not in use any more.',
  );
}

const NO_TIMESTAMPS =
  'The clock is checked only if receipts carry time-stamps, by the daemon that seals. See timestamp.authorities.';

export const acceptClock = operation({
  name: 'clock.accept',
  says: 'Trusts a date that is more than a day ahead.',
  explains:
    'With `clock.trust = "system"`, the clock is not trusted while it is more than 24 hours ahead of the last trusted date and the time since.',
  route: {
    id: 'acceptClock',
    method: 'post',
    path: '/clock/accept',
    failures: ['not_found'],
  },
  ...CHANGES,
  acts: ['clock.accept'],
  fields: {},
  guard: ({ timestamping }) => existing(timestamping, NO_TIMESTAMPS),
  around: { object: () => ({}), result: (dates) => dates },
  answer: {
    name: 'AcceptedDate',
    says: 'The date that was expected, and the one that is trusted now.',
    schema: z.object({ from: time, to: time }),
  },
  async run({ timestamping }: DaemonParts) {
    const { from, to } = existing(timestamping, NO_TIMESTAMPS).acceptDate();
    return { from: toRfc3339(from), to: toRfc3339(to) };
  },
});

/** Longer than one authority takes; the command waits a minute. */
const STAMP_MS_MAX = 50_000;

const renewalStampSchema = z.object({
  authority: z.string().describe('Its name in the configuration.'),
  token: z.string().describe('Base64 of the DER of the token (RFC 3161); it was verified.'),
  certificates: z
    .array(z.string())
    .describe('Base64 of the DER of the certificates from the token’s to its root, the root left out.'),
  gen_time: time,
  not_after: time.describe('When the first of its certificates ends.'),
});
export type PresentedStamp = z.infer<typeof renewalStampSchema>;

/** Keys and authorities are the daemon's. */
export const stampRenewal = operation({
  name: 'timestamp.renewal',
  says: 'Gets a time-stamp over the root of a renewal.',
  explains: '`pdfseal renew` asks for it. The time-stamp is verified before it is answered.',
  route: {
    id: 'stampRenewal',
    method: 'post',
    path: '/timestamp',
    // One run needs one time-stamp of each authority, one after the other.
    atOnce: { of: 'time-stamps', max: 4 },
    failures: ['not_found', 'timestamp_unavailable'],
  },
  ...CHANGES,
  acts: [],
  fields: {
    digest: { says: 'the digest to stamp, in hexadecimal', schema: z.string(), typed: '<digest>' },
    algorithm: {
      says: 'the hash function of the digest',
      schema: z.enum(RENEWAL_DIGESTS, `must be one of ${RENEWAL_DIGESTS.join(', ')}.`).prefault('sha512'),
      typed: '<name>',
    },
    authority: {
      says: 'its name in `timestamp.authorities`',
      schema: z.string(),
      typed: '<name>',
    },
  },
  answer: { name: 'RenewalStamp', says: 'The time-stamp.', schema: renewalStampSchema },
  async run({ timestamping }: DaemonParts, { algorithm, digest: hex, authority }) {
    const digits = Number(algorithm.slice('sha'.length)) / 4;
    if (hex.length !== digits || !/^[0-9a-f]*$/i.test(hex))
      throw invalidField('digest', `must be ${digits} hexadecimal characters.`);
    const names = timestamping?.status().authorities.map(({ name }) => name) ?? [];
    if (timestamping === undefined || !names.includes(authority))
      throw new ServiceError(
        'not_found',
        'No such time-stamp authority is in use: see timestamp.authorities.',
      );
    try {
      const signal = AbortSignal.timeout(STAMP_MS_MAX);
      const stamp = await timestamping.renew({ algorithm, digest: fromHex(hex) }, authority, signal);
      const { genTime, notAfter, ...token } = stamp;
      return { ...token, gen_time: toRfc3339(genTime), not_after: toRfc3339(notAfter) };
    } catch (error) {
      if (!(error instanceof TimestampUnavailable)) throw error;
      throw new ServiceError('timestamp_unavailable', `No time-stamp (${error.trouble}): ${error.message}.`);
    }
  },
});
