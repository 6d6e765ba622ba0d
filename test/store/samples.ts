import { createHash, randomBytes } from 'node:crypto';
import { v7 as uuidv7 } from 'uuid';
import type { Content, Job, ReceivedJob } from '../../src/job/job.ts';
import type { Epoch } from '../../src/log/epochs.ts';
import type { Act } from '../../src/manifest/auditRecord.ts';
import type { Credential } from '../../src/store/credentialStore.ts';
import type {
  IdempotencyEntry,
  Leaf,
  SealedBatch,
  Store,
  StoreIdentity,
  Viewer,
} from '../../src/store/store.ts';
import type { NewEndpoint } from '../../src/store/webhookStore.ts';

/** Where the tests' clocks begin. */
export const START_MS = Date.UTC(2026, 0, 2, 3, 4, 5, 678);

export const identity: Omit<StoreIdentity, 'schema'> = {
  environment: 'sandbox',
  logOrigin: 'seal.example.com/sandbox/2026',
  createdAt: START_MS,
};

export const epoch: Epoch = {
  from: START_MS,
  keys: [
    {
      region: 'eu-central',
      keyLabel: 'log-2026',
      partition: 'log-2026',
      algorithm: 'ed25519',
      spki: 'MCowBQYDK2VwAyEA',
    },
  ],
  quorum: { needed: 1 },
  timestamps: 'none',
  roots: [],
};

export function sampleJob(fields: Partial<ReceivedJob> = {}): ReceivedJob {
  const acceptedAt = fields.acceptedAt ?? START_MS;
  return {
    id: `job_${uuidv7({ msecs: acceptedAt }).replaceAll('-', '')}`,
    clientId: 'billing',
    organization: 'acme',
    traceId: '0af7651916cd43dd8448eb211c80319c',
    mode: 'async',
    visibility: 'private',
    preserveMetadata: false,
    source: 'upload',
    content: sampleContent(),
    capabilities: ['receipt.sha512'],
    acceptedAt,
    ...fields,
  };
}

export function sampleContent(): Content {
  const document = {
    sha256: randomBytes(32).toString('hex'),
    sha512: randomBytes(64).toString('hex'),
    bytes: 1234,
  };
  return { document, scan: { verdict: 'not_configured' } };
}

/** A job whose document is still to be fetched. */
export function sampleUrlJob(fields: Partial<Job> = {}): Job {
  const { content, ...job } = sampleJob();
  return { ...job, source: 'url', checksumSha256: content.document.sha256, ...fields };
}

/** Jobs accepted one millisecond after the other, in the order of their ids. */
export function sampleJobs(count: number): ReceivedJob[] {
  return Array.from({ length: count }, (_, n) => sampleJob({ acceptedAt: START_MS + n }));
}

export function sampleEntry(job: Job, fields: Partial<IdempotencyEntry> = {}): IdempotencyEntry {
  return {
    clientId: job.clientId,
    operation: 'createSealJob',
    key: `key-of-${job.id}`,
    fingerprint: createHash('sha256').update(job.id).digest('hex'),
    jobId: job.id,
    answer: JSON.stringify({ id: job.id, phase: 'queued' }),
    acceptedAt: job.acceptedAt,
    ...fields,
  };
}

/** A batch that follows a tree of `firstLeaf` leaves. Its tiles are bytes of the right length, not hashes of anything. */
export function sampleBatch(firstLeaf: number, jobs: Pick<Job, 'id' | 'clientId'>[]): SealedBatch {
  const treeSize = firstLeaf + jobs.length;
  return {
    epochsRevision: 0,
    firstLeaf,
    treeSize,
    sealedAt: START_MS + treeSize,
    checkpoint: `seal.example.com/sandbox/2026\n${treeSize}\nroot\n\n— seal.example.com/sandbox/2026 sig\n`,
    algorithm: 'pdfseal-v1.ed25519',
    kmsKeyId: 'eu-central/log-2026',
    leaves: jobs.map(({ id, clientId }) => ({ jobId: id, clientId, data: leafData(id) })),
    tiles: [
      {
        level: 0,
        index: (treeSize - 1) >> 8,
        hashes: Buffer.alloc(32 * (((treeSize - 1) % 256) + 1), treeSize),
      },
    ],
  };
}

export function leafData(jobId: string): Leaf['data'] {
  return createHash('sha512').update(jobId).digest();
}

export function sampleCredential(fields: Partial<Credential> = {}): Credential {
  return {
    keyHash: randomBytes(32).toString('hex'),
    id: 'key_1',
    clientId: 'billing',
    organization: 'acme',
    scopes: ['jobs:create', 'jobs:read'],
    createdAt: START_MS,
    since: START_MS,
    ...fields,
  };
}

/** Adds or replaces credentials, as an act that is on record. */
export async function putCredentials(
  { credentials: store }: Pick<Store, 'credentials'>,
  credentials: Credential[],
): Promise<void> {
  const act: Act = { act: 'config.reload', actor: { via: 'command' }, object: {}, outcome: 'done' };
  await store.change(() => ({ credentials, act }));
}

export function sampleEndpoint(fields: Partial<NewEndpoint> = {}): NewEndpoint {
  return {
    id: `we_${uuidv7().replaceAll('-', '')}`,
    clientId: 'billing',
    url: 'https://hooks.example.com/pdfseal',
    events: ['job.completed', 'job.failed'],
    secrets: [{ secret: `whsec_${randomBytes(32).toString('base64')}` }],
    createdAt: START_MS,
    ...fields,
  };
}

export const billing: Viewer = { clientId: 'billing', organization: 'acme', partnerOf: [] };

export async function collected<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
}
