import { assert } from '../base/assert.ts';
import { isReceived, type Job } from '../job/job.ts';
import { inclusionProof } from '../log/proof.ts';
import { assembleReceipt, type Receipt } from '../manifest/receipt.ts';
import type { LogStore, Store } from '../store/store.ts';

/**
 * The receipt of a sealed job, assembled from its batch and the tiles of the log. All of these are immutable, so
 * the receipt has the same bytes every time. Throws BrokenInvariant if the store contradicts itself.
 */
export async function readReceipt(
  store: Pick<Store, 'identity'> & { log: Pick<LogStore, 'batchOf' | 'tile'> },
  job: Job,
  leafIndex: number,
): Promise<Receipt> {
  assert(isReceived(job), `${job.id} was sealed without a document`);
  const batch = await store.log.batchOf(leafIndex);
  assert(batch, `no batch holds leaf ${leafIndex} of ${job.id}`);
  const proof = await inclusionProof(leafIndex, batch.treeSize, (level, index) =>
    store.log.tile(level, index),
  );
  return assembleReceipt({ job, environment: store.identity.environment, batch, leafIndex, proof });
}
