import { randomFillSync } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { pino } from 'pino';
import type { AuthorityAlgorithm } from '../../src/asn1/signatureAlgorithm.ts';
import { systemClock } from '../../src/base/clock.ts';
import { newJobId } from '../../src/job/id.ts';
import type { ReceivedJob } from '../../src/job/job.ts';
import { inspectKey } from '../../src/kms/keyOperations.ts';
import { bytesOrder } from '../../src/kms/order.ts';
import { openPartitions, type PartitionOptions } from '../../src/kms/partitions.ts';
import { openSealer } from '../../src/seal/openSealer.ts';
import { openSigning } from '../../src/seal/signing.ts';
import { Timestamping, unitSigner } from '../../src/seal/timestamping.ts';
import { openStore } from '../../src/store/lmdb/open.ts';
import { openAuthority } from '../../src/tsa/builtInAuthority.ts';
import { issueRoot, issueTimestampingCertificate, type KeyInUse } from '../../src/tsa/pki.ts';
import { Timestamps } from '../../src/tsa/timestamps.ts';
import { openTrustedClock } from '../../src/tsa/trustedClock.ts';
import { HttpClient } from '../../src/web/httpClient.ts';
import { TargetPolicy } from '../../src/web/policy.ts';
import { Deliverer } from '../../src/webhook/deliver.ts';
import { newEndpoint } from '../../src/webhook/endpoints.ts';
import { type Latency, latencyOf } from './stats.ts';

/** What the parent may ask for: seal for some time, or until so many jobs are sealed. */
export type SealerOrder = { inFlight: number; clientId?: string } & (
  | { durationMs: number }
  | { entries: number }
);

export interface SealerResult extends Latency {
  entriesPerSecond: number;
  /** Of this process, in all its threads. */
  cpuMsPerEntry: number;
  /** Jobs in the log by now. */
  treeSize: number;
}

/**
 * The sealer as the daemon wires it, on a real store and real partitions, with a closed loop of jobs in the place of HTTP. A
 * process of its own, so that each round starts with a fresh heap.
 */
const [storePath = '', partitionsJson = '[]', webhookUrl = ''] = process.argv.slice(2);
const tokens = JSON.parse(partitionsJson) as PartitionOptions[];
const logger = pino({ level: 'error' });
const store = await openStore({ path: storePath });
const onFatal = (error: unknown) => {
  throw error;
};
mkdirSync(`${storePath}-signers`, { recursive: true });
const signing = await openSigning({
  store,
  partitions: tokens,
  duties: {
    log: { origin: store.identity.logOrigin, folder: `${storePath}-signers`, sessions: 2, isUnit: false },
  },
  sessions: 2,
  signTimeoutMs: 5000,
  clock: systemClock,
  logger,
  onFatal,
});
const timestamping = await openTimestamps();
const sealer = await openSealer({
  store,
  signing,
  timestamping,
  requireRecord: async () => undefined,
  queueJobsMax: 50_000,
  batchJobsMax: 4096,
  giveUpAfterMs: 86_400_000,
  clock: systemClock,
  logger,
  onFatal,
});

const CLIENT = 'cl_bench';

/** The built-in authority as the daemon has it, with a certificate of its own making. */
async function openTimestamps(): Promise<Timestamping> {
  const [token] = tokens;
  if (token === undefined) throw new Error('there is no token');
  const stamping = { ...token, keyLabel: 'timestamp' };
  const { algorithm, spki } = await inspectKey(stamping);
  if (algorithm === 'ed25519' || algorithm === 'mldsa44') throw new Error('not a time-stamping key');
  const held = { region: token.region, keyLabel: 'timestamp', algorithm, spki };
  const partitions = await openPartitions<AuthorityAlgorithm>({
    partitions: [stamping],
    keys: [held],
    quorum: { needed: 1 },
    duties: { anything: true },
    sessions: 2,
    signTimeoutMs: 5000,
    logger,
  });
  const [signer] = partitions.signers;
  if (signer === undefined) throw new Error('nobody signs');
  const inUse: KeyInUse = {
    key: held,
    sign: async (message) => (await signer.sign(bytesOrder(message))) ?? fail(),
  };
  const [notBefore, notAfter] = [Date.now() - 60_000, Date.now() + 86_400_000];
  const root = await issueRoot({ subject: { commonName: 'Bench' }, notBefore, notAfter }, inUse);
  const subject = { commonName: 'Bench time' };
  const certificate = await issueTimestampingCertificate(
    { subject, key: held, issuer: root, notBefore, notAfter },
    inUse,
  );
  const source = { trust: 'system' } as const;
  const clock = await openTrustedClock({ source, accuracyMs: 1000, newest: 0, logger });
  const units = [{ signer: unitSigner(signer), chain: [certificate, root] }];
  const authority = openAuthority({ units, policy: '1.3.6.1.4.1.99999.1.2', clock, logger });
  return new Timestamping(clock, new Timestamps({ authorities: [authority], clock, logger }), authority);
}

function fail(): never {
  throw new Error('the key does not sign');
}

/** As the daemon has it, with an endpoint of the client whose jobs are sealed here. */
async function openWebhooks(url: string): Promise<Deliverer> {
  const known = await store.webhooks.endpoints.all();
  if (known.length === 0) {
    await store.webhooks.endpoints.add(newEndpoint(CLIENT, { url }, systemClock()), 1, null);
  }
  const deliverer = new Deliverer({
    store,
    client: new HttpClient({ policy: new TargetPolicy(['127.0.0.0/8']), idleConnectionsMax: 4 }),
    inFlightMax: 32,
    perEndpointMax: 4,
    timeoutMs: 15_000,
    retryDelaysMs: [5000, 300_000],
    probeIntervalMs: 60_000,
    deadLetterMs: 86_400_000,
    present: ({ job }) => job,
    clock: systemClock,
    logger,
    onFatal(error) {
      throw error;
    },
  });
  deliverer.start();
  return deliverer;
}

const deliverer = webhookUrl === '' ? undefined : await openWebhooks(webhookUrl);

/** Keeps `inFlight` jobs between acceptance and outcome, each followed by the next. */
async function run(order: SealerOrder): Promise<SealerResult> {
  const startMs = performance.now();
  const startCpu = process.cpuUsage();
  const samplesMs: number[] = [];
  let started = 0;
  const goesOn = () =>
    'entries' in order ? started < order.entries : performance.now() - startMs < order.durationMs;
  const loop = async () => {
    while (goesOn()) {
      started++;
      samplesMs.push(await timedSeal(order.clientId ?? CLIENT));
    }
  };
  await Promise.all(Array.from({ length: order.inFlight }, loop));
  const { user, system } = process.cpuUsage(startCpu);
  return {
    cpuMsPerEntry: (user + system) / 1000 / samplesMs.length,
    entriesPerSecond: (samplesMs.length * 1000) / (performance.now() - startMs),
    ...latencyOf(samplesMs),
    treeSize: (await store.log.head())?.treeSize ?? 0,
  };
}

/** Milliseconds from the submission of a blocking job to its durable outcome. */
async function timedSeal(clientId: string): Promise<number> {
  const job = makeJob(clientId);
  const startMs = performance.now();
  sealer.submit(job);
  const outcome = await sealer.settled(job.id, new AbortController().signal);
  if (outcome?.kind !== 'sealed') throw new Error(`a job was not sealed: ${JSON.stringify(outcome)}`);
  return performance.now() - startMs;
}

/** Digests and reference are random, as they are in life: the indexes over them grow at random places. */
function makeJob(clientId: string): ReceivedJob {
  const random = randomHex();
  return {
    id: newJobId(),
    clientId,
    organization: 'acme',
    traceId: random.slice(0, 32),
    mode: 'blocking',
    visibility: 'private',
    purpose: 'bench',
    customerReference: random.slice(32, 64),
    preserveMetadata: false,
    source: 'upload',
    content: {
      document: { sha256: random.slice(64, 128), sha512: random.slice(128), bytes: 100_000 },
      scan: { verdict: 'not_configured' },
    },
    capabilities: ['receipt.sha512', 'receipt.inclusion_proof'],
    acceptedAt: systemClock(),
  };
}

const pool = Buffer.alloc(64 * 1024);
let used = pool.length;

/** 256 characters. Drawn in bulk: a system call for each job would cost a fifth of what is measured. */
function randomHex(): string {
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  used += 128;
  return pool.toString('hex', used - 128, used);
}

process.on('message', async (order: SealerOrder) => {
  process.send?.(await run(order));
});
process.on('disconnect', async () => {
  await deliverer?.close();
  await sealer.close();
  await signing.close();
  await store.close();
});
process.send?.('ready');
