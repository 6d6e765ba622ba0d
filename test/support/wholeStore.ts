/** A store with everything in it that there can be, its log signed and stamped, and a look at all of its entries. */

import { newJobId } from '../../src/job/id.ts';
import type { Job, ReceivedJob } from '../../src/job/job.ts';
import { encodeCheckpoint } from '../../src/log/checkpoint.ts';
import { appendLeaves, type Edge, emptyEdge, leafHash, rootOf } from '../../src/log/tree.ts';
import { kmsKeyId } from '../../src/log/verifierKey.ts';
import { leafData, manifestOf } from '../../src/manifest/manifest.ts';
import { receiptAlgorithm } from '../../src/manifest/receipt.ts';
import { epochObject } from '../../src/manifest/sealedForm.ts';
import type { TrustFile } from '../../src/manifest/trustFile.ts';
import { actOfProcess } from '../../src/store/acts.ts';
import { auditedKey } from '../../src/store/apiKeys.ts';
import { type Databases, openDatabases } from '../../src/store/lmdb/databases.ts';
import { idKey } from '../../src/store/lmdb/keyLayout.ts';
import { createStore, openStore } from '../../src/store/lmdb/open.ts';
import type { Store } from '../../src/store/store.ts';
import { sampleCredential, sampleEndpoint, sampleEntry } from '../store/samples.ts';
import { HeldClock, makeAuthority, makePki } from './authority.ts';
import {
  firstEpoch,
  makeContent,
  makeJob,
  makeKey,
  oneEpoch,
  signNote,
  stampCheckpoint,
  type TestKey,
} from './sealing.ts';

export const ORIGIN = 'seal.example.com/test/2026';
export const SEALED_AT = Date.parse('2026-03-04T05:06:08Z');
/** Past the first tile, so that there are full ones, partial ones and two levels. */
export const BATCHES = [1, 2, 250, 30];
export const SIZE = BATCHES.reduce((sum, leaves) => sum + leaves);
export const key = makeKey('ed25519', 'one');
const { privateKey: _privateKey, ...publicKey } = key;
export const logKey = publicKey;
const pki = await makePki();
const authority = makeAuthority([pki.unit], new HeldClock(SEALED_AT));

const HOUR_MS = 3_600_000;
const startsAt = Math.floor(Date.now() / HOUR_MS) * HOUR_MS;
const quota = { name: 'default', startsAt, endsAt: startsAt + HOUR_MS };

/** The first `SIZE` are leaves; then one that waits, one that failed, and one whose create was taken back. */
export const jobs = Array.from({ length: SIZE + 3 }, (_, n) =>
  makeJob(newJobId(), {
    customerReference: `order ${n % 7}`,
    acceptedAt: Date.now(),
    ...(n % 3 === 0 && { quota }),
    ...(n === 1 && { visibility: 'partner' }),
    ...(n === 2 && { source: 'url', checksumSha256: makeContent().document.sha256 }),
  }),
);
const { content: _content, ...withoutContent } = makeJob(newJobId(), {
  source: 'url',
  checksumSha256: 'ef'.repeat(32),
  acceptedAt: Date.now(),
});
export const unfetched: Job = withoutContent;
export const endpoints = [
  sampleEndpoint({ clientId: 'acme-web' }),
  sampleEndpoint({ clientId: 'acme-web' }),
] as const;

export function jobAt(index: number): ReceivedJob {
  const job = jobs[index];
  if (job === undefined) throw new Error(`no job ${index}`);
  return job;
}

export const [first, shared, fetched] = [jobAt(0), jobAt(1), jobAt(2)];
export const [waiting, failed, released] = [jobAt(SIZE), jobAt(SIZE + 1), jobAt(SIZE + 2)];

export function keyOf({ id }: Pick<Job, 'id'>): Buffer {
  return idKey('job', id) ?? Buffer.alloc(0);
}

export function sign(text: string, by: TestKey = key): string {
  return signNote(ORIGIN, text, [by]);
}

export function trusting(quorum: number): TrustFile {
  const log = oneEpoch({ origin: ORIGIN, environment: 'env_test', quorum, keys: [logKey] });
  const timestampAuthorities = [{ name: 'built-in', root: pki.root }];
  return { timestampAuthorities, logs: [log] };
}

export async function makeEmptyStore(path: string): Promise<void> {
  const identity = { environment: 'test', logOrigin: ORIGIN, createdAt: SEALED_AT };
  // Its record waits, so it begins after the batches.
  const epoch = firstEpoch([logKey], { from: SEALED_AT + 1 });
  const act = actOfProcess('command', 'log.create', epochObject(ORIGIN, epoch));
  await createStore({ path, identity, epoch, act });
}

export async function makeWholeStore(path: string): Promise<void> {
  await makeEmptyStore(path);
  const store = await openStore({ path });
  const sourceUrl = 'https://files.example.com/a.pdf';
  const credential = sampleCredential();
  const actor = { via: 'command' } as const;
  const issued = { act: 'key.issue', actor, object: auditedKey(credential), outcome: 'done' } as const;
  await store.credentials.change(() => ({ credentials: [credential], act: issued }));
  for (const { content, ...job } of jobs) {
    const idempotency = sampleEntry(job);
    if (job.source === 'upload') {
      await store.jobs.accept({ ...job, content }, { idempotency });
    } else {
      await store.jobs.accept(job, { sourceUrl });
      await store.jobs.receive(job.id, content);
    }
  }
  await store.jobs.accept(unfetched, { sourceUrl, idempotency: sampleEntry(unfetched) });
  let edge = emptyEdge();
  for (const leaves of BATCHES) {
    edge = await seal(store, edge, jobs.slice(edge.size, edge.size + leaves));
    // So the first batch was told to nobody.
    if (edge.size === 1)
      for (const endpoint of endpoints) await store.webhooks.endpoints.add(endpoint, 5, null);
  }
  const failure = { code: 'kms_partition_unavailable', message: 'gone', failedAt: SEALED_AT } as const;
  await store.jobs.fail(failed.id, failure);
  await store.jobs.fail(released.id, failure);
  await deliver(store);
  const { checkpoint = '' } = (await store.log.batchAt(3)) ?? {};
  await store.witnessing.put({
    witnesses: { 'witness.example+00000000+BA==': { treeSize: 3, cosignedAt: SEALED_AT / 1000 } },
    cosigned: { treeSize: 3, checkpoint },
    witnessed: { treeSize: 3, checkpoint },
  });
  await store.close();
}

/** One delivery is done, one is to be repeated, one is dead, and a test waits. */
async function deliver({ webhooks }: Store): Promise<void> {
  const { id } = endpoints[0];
  const [done, again, dead] = await webhooks.outbox.pending(id, { limit: 3 });
  if (!done || !again || !dead) throw new Error('there is nothing to deliver');
  const failure = { at: SEALED_AT, reason: 'http_500' };
  await webhooks.outbox.settle(done, { kind: 'delivered' });
  await webhooks.outbox.settle(again, { kind: 'retry', dueAt: Date.now() + HOUR_MS, failure });
  await webhooks.outbox.settle(dead, { kind: 'dead', failure });
  await webhooks.outbox.test(id);
}

/** Seals accepted jobs as one batch. */
export async function seal(store: Store, edge: Edge, batch: ReceivedJob[]): Promise<Edge> {
  const leaves = batch.map((job) => ({
    jobId: job.id,
    clientId: job.clientId,
    data: leafData(manifestOf(job, 'test', SEALED_AT)),
  }));
  const grown = appendLeaves(
    edge,
    leaves.map(({ data }) => leafHash(data)),
  );
  const treeSize = grown.edge.size;
  const checkpoint = sign(encodeCheckpoint({ origin: ORIGIN, treeSize, root: rootOf(grown.edge) }));
  await store.log.commit({
    epochsRevision: 0,
    firstLeaf: edge.size,
    treeSize,
    sealedAt: SEALED_AT,
    checkpoint,
    algorithm: receiptAlgorithm(key.algorithm),
    kmsKeyId: kmsKeyId(key),
    // The first two alone: a log may have been without an authority for a while.
    ...(treeSize <= 3 && { timestamp: await stampCheckpoint(authority, checkpoint) }),
    leaves,
    tiles: grown.tiles,
  });
  return grown.edge;
}

/** Does something to a store that nobody has open. */
export async function tamper(path: string, damage: (databases: Databases) => unknown): Promise<void> {
  const databases = await openDatabases(path, { readOnly: false });
  await damage(databases);
  await databases.root.flushed;
  await databases.close();
}

/** Every entry of every database, in hex, one a line. */
export async function dump(path: string): Promise<string[]> {
  const databases = await openDatabases(path, { readOnly: true });
  const lines = Object.entries(databases).flatMap(([name, database]) =>
    name === 'root'
      ? []
      : Array.from(
          (database as Databases['jobs']).getRange({}),
          ({ key, value }) => `${name} ${Buffer.from(key).toString('hex')} ${value.toString('hex')}`,
        ),
  );
  await databases.close();
  return lines;
}
