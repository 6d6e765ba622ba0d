/** A store with jobs of several clients, and the evidence of those that are sealed. */
import { createHash } from 'node:crypto';
import type { Test } from 'tap';
import { v7 as uuidv7 } from 'uuid';
import type { DocumentDigests, ReceivedJob } from '../../src/job/job.ts';
import { encodeCheckpoint } from '../../src/log/checkpoint.ts';
import { appendLeaves, emptyEdge, leafHash, rootOf } from '../../src/log/tree.ts';
import { kmsKeyId } from '../../src/log/verifierKey.ts';
import { type SealedFilesOptions, sealedFilesOf } from '../../src/main/sealedFiles.ts';
import { leafData, manifestOf } from '../../src/manifest/manifest.ts';
import { receiptAlgorithm } from '../../src/manifest/receipt.ts';
import { openStore } from '../../src/store/lmdb/open.ts';
import type { Store } from '../../src/store/store.ts';
import { putCredentials, sampleCredential } from '../store/samples.ts';
import { makeContent, makeJob } from '../support/sealing.ts';
import { key, makeEmptyStore, SEALED_AT, sign, trusting } from '../support/wholeStore.ts';

export function digestsOf(document: Uint8Array): DocumentDigests {
  const of = (name: string) => createHash(name).update(document).digest('hex');
  return { sha256: of('sha256'), sha512: of('sha512'), bytes: document.length };
}

export interface SealedStore {
  store: Store;
  evidence: ReturnType<typeof sealedFilesOf>;
}

/** It has no job yet, and closes with the test. */
export async function openSealedStore(t: Test, clients: readonly string[]): Promise<SealedStore> {
  const path = `${t.testdir({})}/store`;
  await makeEmptyStore(path);
  const store = await openStore({ path });
  t.teardown(() => store.close());
  const credentials = clients.map((clientId, n) => sampleCredential({ clientId, id: `key_${n}` }));
  await putCredentials(store, credentials);
  return { store, evidence: evidenceIn(store) };
}

/** No copy is kept. */
export function evidenceIn(store: Store): SealedStore['evidence'] {
  const kept = { copies: {}, retentionMs: 0, time: { ageMs: () => 0 } } as unknown as SealedFilesOptions;
  return sealedFilesOf({ ...kept, store, trust: () => trusting(1) });
}

export function jobOf(document: Uint8Array, fields: Partial<ReceivedJob> = {}): ReceivedJob {
  const { acceptedAt = SEALED_AT - 500 } = fields;
  const id = `job_${uuidv7({ msecs: acceptedAt }).replaceAll('-', '')}`;
  return makeJob(id, { content: makeContent({ document: digestsOf(document) }), acceptedAt, ...fields });
}

/** Accepts the jobs, and seals them as the first batch of the log. */
export async function sealFirst(store: Store, jobs: readonly ReceivedJob[]): Promise<void> {
  for (const job of jobs) await store.jobs.accept(job);
  const leaves = jobs.map((job) => ({
    jobId: job.id,
    clientId: job.clientId,
    data: leafData(manifestOf(job, 'test', SEALED_AT)),
  }));
  const hashes = leaves.map(({ data }) => leafHash(data));
  const { edge, tiles } = appendLeaves(emptyEdge(), hashes);
  const { logOrigin: origin } = store.identity;
  await store.log.commit({
    epochsRevision: 0,
    firstLeaf: 0,
    treeSize: edge.size,
    sealedAt: SEALED_AT,
    checkpoint: sign(encodeCheckpoint({ origin, treeSize: edge.size, root: rootOf(edge) })),
    algorithm: receiptAlgorithm(key.algorithm),
    kmsKeyId: kmsKeyId(key),
    leaves,
    tiles,
  });
}
