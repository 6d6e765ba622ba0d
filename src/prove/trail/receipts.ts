import type { RevocationList } from '../../asn1/revocationList.ts';
import { assert } from '../../base/assert.ts';
import { isReceived, type Job, type ReceivedJob } from '../../job/job.ts';
import { inclusionProof } from '../../log/proof.ts';
import { encodeTlogProof } from '../../log/tlogProof.ts';
import { assembleBundle, type WrittenBundle } from '../../manifest/bundle.ts';
import { encodeManifest, manifestOf } from '../../manifest/manifest.ts';
import { assembleReceipt, encodeReceipt, type Receipt } from '../../manifest/receipt.ts';
import { suffixOf } from '../../pdf/update/suffix.ts';
import type { Batch, LogStore, Store } from '../../store/store.ts';
import type { CosignedCheckpoint, WitnessStore } from '../../store/witnessStore.ts';

type ReadableStore = Pick<Store, 'identity'> & { log: Pick<LogStore, 'batchOf' | 'tile'> };

/**
 * The receipt of a sealed job, assembled from its batch and the tiles of the log. All of these are immutable, so
 * the receipt has the same bytes every time. Throws BrokenInvariant if the store contradicts itself.
 */
export async function readReceipt(store: ReadableStore, job: Job, leafIndex: number): Promise<Receipt> {
  return receiptOf(store, await readBatch(store, job, leafIndex), leafIndex);
}

/**
 * What is appended to the document of a sealed job to attach its receipt; undefined if no sealed PDF was requested. The same bytes every time, as
 * those of {@link readReceipt}.
 */
export async function readSuffix(
  store: ReadableStore,
  job: Job,
  leafIndex: number,
): Promise<Uint8Array | undefined> {
  const plan = job.content?.attachment;
  if (plan === undefined) return undefined;
  const receipt = await readReceipt(store, job, leafIndex);
  return suffixOf(plan, Buffer.from(encodeReceipt(receipt)), Date.parse(receipt.sealed_at));
}

/** A store that also knows what witnesses have cosigned. */
type WitnessedStore = ReadableStore & { witnessing: Pick<WitnessStore, 'get'> };

/**
 * The C2SP tlog-proof of a sealed job, with its manifest in the line `extra`. It leads to the newest checkpoint cosigned by the quorum of
 * witnesses, or else to the checkpoint of the receipt. Throws as {@link readReceipt} does.
 */
export async function readTlogProof(store: WitnessedStore, job: Job, leafIndex: number): Promise<string> {
  const { received, batch } = await readBatch(store, job, leafIndex);
  const manifest = manifestOf(received, store.identity.environment, batch.sealedAt);
  const checkpoint = (await witnessedWith(store, leafIndex)) ?? batch;
  return encodeProof(store, leafIndex, checkpoint, encodeManifest(manifest));
}

/** Evidence that a service adds to a receipt after it was issued. */
export interface LaterEvidence {
  /** The evidence record of a batch; undefined if nothing has stamped it. */
  recordOf(batch: Batch): Promise<Uint8Array | undefined>;
  /** The lists of the time-stamp authorities. */
  revocationLists: readonly RevocationList[];
}

/**
 * The bundle of a sealed job, with the newest checkpoint that the quorum of witnesses has cosigned; undefined while no such checkpoint covers the
 * leaf. Throws as {@link readReceipt} does.
 */
export async function readBundle(
  store: WitnessedStore,
  job: Job,
  leafIndex: number,
  { recordOf, revocationLists }: LaterEvidence,
): Promise<WrittenBundle | undefined> {
  const checkpoint = await witnessedWith(store, leafIndex);
  if (checkpoint === undefined) return undefined;
  const sealed = await readBatch(store, job, leafIndex);
  const receipt = await receiptOf(store, sealed, leafIndex);
  const evidenceRecord = await recordOf(sealed.batch);
  const tlogProof = await encodeProof(store, leafIndex, checkpoint);
  return assembleBundle({ receipt, tlogProof, evidenceRecord, revocationLists });
}

async function witnessedWith(
  { witnessing }: WitnessedStore,
  leafIndex: number,
): Promise<CosignedCheckpoint | undefined> {
  const { witnessed } = await witnessing.get();
  return witnessed && witnessed.treeSize > leafIndex ? witnessed : undefined;
}

async function encodeProof(
  { log }: ReadableStore,
  index: number,
  { treeSize, checkpoint }: CosignedCheckpoint,
  extra?: Uint8Array,
): Promise<string> {
  const proof = await inclusionProof(index, treeSize, (level, tile) => log.tile(level, tile));
  return encodeTlogProof({ ...(extra && { extra }), index, proof, checkpoint });
}

async function receiptOf(
  { identity: { environment }, log }: ReadableStore,
  { received: job, batch }: { received: ReceivedJob; batch: Batch },
  leafIndex: number,
): Promise<Receipt> {
  const proof = await inclusionProof(leafIndex, batch.treeSize, (level, index) => log.tile(level, index));
  return assembleReceipt({ job, environment, batch, leafIndex, proof });
}

/** A job and the batch that sealed it. */
async function readBatch(store: ReadableStore, job: Job, leafIndex: number) {
  assert(isReceived(job), `${job.id} was sealed without a document`);
  const batch = await store.log.batchOf(leafIndex);
  assert(batch, `no batch holds leaf ${leafIndex} of ${job.id}`);
  return { received: job, batch };
}
