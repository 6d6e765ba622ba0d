import { BrokenInvariant } from '../../base/assert.ts';
import { bytesEqual } from '../../base/bytes.ts';
import { OperatorError } from '../../base/errors.ts';
import { isReceived, type Job } from '../../job/job.ts';
import type { Checkpoint } from '../../log/checkpoint.ts';
import { inclusionProof, verifyInclusion } from '../../log/proof.ts';
import { openCheckpoint } from '../../log/signedCheckpoint.ts';
import { HASH_BYTES, type ReadTile, TILE_WIDTH } from '../../log/tiles.ts';
import { leafHash } from '../../log/tree.ts';
import { leafData, manifestOf } from '../../manifest/manifest.ts';
import type { Batch, Store } from '../../store/store.ts';
import { EpochContradiction } from './sealedEpochs.ts';

/** The newest batch, and its checkpoint. */
export interface Head {
  batch: Batch;
  checkpoint: Checkpoint;
}

/** Throws {@link EpochContradiction} if the head does not contain a checkpoint of the log. */
export async function openHead(store: Pick<Store, 'log' | 'identity'>): Promise<Head | undefined> {
  const batch = await store.log.head();
  if (batch === undefined) return undefined;
  const checkpoint = openCheckpoint(batch.checkpoint)?.checkpoint;
  if (checkpoint?.origin !== store.identity.logOrigin || checkpoint.treeSize !== batch.treeSize)
    throw new EpochContradiction(`the newest checkpoint, of size ${batch.treeSize}, cannot be read`);
  return { batch, checkpoint };
}

/** Leaves of a store's log, each proven from the tiles. Reading neighbours is cheap: the last tile and the last batch are kept. */
export class ProvenLeaves {
  readonly #store: Pick<Store, 'identity' | 'jobs' | 'log'>;
  #batch: Batch | undefined;
  /** The tile that was proven last. */
  #tile: { tile: number; treeSize: number; hashes: Uint8Array } | undefined;

  constructor(store: Pick<Store, 'identity' | 'jobs' | 'log'>) {
    this.#store = store;
  }

  /** A leaf, proven to be under the head with the time of its batch. */
  async prove(index: number, head: Head): Promise<{ job: Job; batch: Batch }> {
    const { log, jobs, identity } = this.#store;
    const [leaf] = await log.leaves(index, index + 1);
    const last = this.#batch;
    // Neighbours mostly belong to the same batch.
    const isSame = last !== undefined && last.firstLeaf <= index && index < last.treeSize;
    const batch = isSame ? last : await log.batchOf(index);
    this.#batch = batch;
    const job = leaf && (await jobs.get(leaf.jobId))?.job;
    if (job === undefined || !isReceived(job) || batch === undefined) throw altered();
    const hash = leafHash(leafData(manifestOf(job, identity.environment, batch.sealedAt)));
    const tile = await this.#proveTile(Math.floor(index / TILE_WIDTH), head);
    const from = (index % TILE_WIDTH) * HASH_BYTES;
    if (!bytesEqual(hash, tile.subarray(from, from + HASH_BYTES))) throw altered();
    return { job, batch };
  }

  /**
   * The leaf hashes of a tile, proven to be under the head. The proof of the first leaf involves all others: its siblings are hashed from
   * this tile.
   */
  async #proveTile(tile: number, { batch: { treeSize }, checkpoint }: Head): Promise<Uint8Array> {
    const proven = this.#tile;
    if (proven?.tile === tile && proven.treeSize === treeSize) return proven.hashes;
    const { log } = this.#store;
    const hashes = await log.tile(0, tile);
    if (hashes === undefined) throw altered();
    const readTile: ReadTile = async (level, index) =>
      level === 0 && index === tile ? hashes : log.tile(level, index);
    const first = tile * TILE_WIDTH;
    try {
      const proof = await inclusionProof(first, treeSize, readTile);
      if (!verifyInclusion(first, treeSize, hashes.subarray(0, HASH_BYTES), proof, checkpoint.root))
        throw altered();
    } catch (error) {
      if (error instanceof BrokenInvariant) throw altered(); // a tile is missing
      throw error;
    }
    this.#tile = { tile, treeSize, hashes };
    return hashes;
  }
}

/** Leaves, batches and tiles can be damaged as well as altered: the check of the store distinguishes the two. */
export function altered(): OperatorError {
  return new OperatorError(
    'the log in the store does not match its newest checkpoint; nothing will be signed. Run `pdfseal check`: its last line says what to do',
  );
}
