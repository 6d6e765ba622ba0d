import { assert, BrokenInvariant } from '../base/assert.ts';
import { bytesEqual, toBase64 } from '../base/bytes.ts';
import type { ReceivedJob } from '../job/job.ts';
import type { Growth } from '../kms/order.ts';
import type { PartitionSignature } from '../kms/partitions.ts';
import type { Step } from '../kms/protocol.ts';
import { encodeCheckpoint } from '../log/checkpoint.ts';
import { encodeNote } from '../log/note.ts';
import { consistencyProof, growthProof } from '../log/proof.ts';
import { openCheckpoint } from '../log/signedCheckpoint.ts';
import type { ReadTile, Tile } from '../log/tiles.ts';
import { appendLeaves, type Edge, leafHash, loadEdge, rootOf } from '../log/tree.ts';
import { isClassical, kmsKeyId, noteKeyId } from '../log/verifierKey.ts';
import { leafData, manifestOf } from '../manifest/manifest.ts';
import { receiptAlgorithm } from '../manifest/receipt.ts';
import type { Batch, SealedLeaf, StoreIdentity } from '../store/store.ts';

/** Everything a checkpoint commits to. It exists in memory only, before any key signs it. */
export interface Draft {
  firstLeaf: number;
  leaves: SealedLeaf[];
  leafHashes: Uint8Array[];
  tiles: Tile[];
  /** The tree's right edge before these leaves. */
  base: Edge;
  /** The tree's right edge after these leaves. */
  edge: Edge;
  /** Milliseconds since the epoch. */
  sealedAt: number;
  /** The unsigned text of the checkpoint. */
  text: string;
}

/** Manifests → leaves → tree → checkpoint text. Nothing is written: a crash loses only the work. */
export function draftBatch(
  identity: StoreIdentity,
  edge: Edge,
  jobs: readonly ReceivedJob[],
  sealedAt: number,
): Draft {
  const leaves = jobs.map((job) => ({
    jobId: job.id,
    clientId: job.clientId,
    data: leafData(manifestOf(job, identity.environment, sealedAt)),
  }));
  const leafHashes = leaves.map((leaf) => leafHash(leaf.data));
  const grown = appendLeaves(edge, leafHashes);
  const checkpoint = {
    origin: identity.logOrigin,
    treeSize: grown.edge.size,
    root: rootOf(grown.edge),
  };
  const text = encodeCheckpoint(checkpoint);
  return { firstLeaf: edge.size, leaves, leafHashes, base: edge, ...grown, sealedAt, text };
}

/**
 * Shows a signer that the log has only grown since the committed state. `ahead`: the drafts in progress that this one is based on.
 * `readTile` returns the tiles of all of them.
 */
export function growthOf(
  { base, leafHashes, edge }: Draft,
  committed: Edge,
  ahead: readonly Draft[],
  readTile: ReadTile,
): Growth {
  const draftedOn = [committed, ...ahead.map((draft) => draft.edge)].map(({ size }) => size);
  const stepOf = (from: Edge, proof: readonly Uint8Array[]): Step => ({
    from: { size: from.size, root: toBase64(rootOf(from)) },
    proof: proof.map(toBase64),
    draftedOn,
  });
  const stepFrom = async (from: Edge) => stepOf(from, await consistencyProof(from.size, edge.size, readTile));
  let step: Step | undefined;
  return {
    step: () => (step ??= stepOf(base, growthProof(base, leafHashes))),
    stepFrom: async (trees) => {
      if (trees.length === 0) return { ...(await stepFrom(committed)), isCommitted: true };
      for (const { size, root } of trees.filter((tree) => tree.size <= base.size).toReversed()) {
        const from = await loadEdge(size, readTile);
        if (toBase64(rootOf(from)) === root) return stepFrom(from);
      }
      return undefined;
    },
  };
}

/**
 * The draft with its signatures: the checkpoint is a signed note (C2SP signed-note), one line per signature, each under the log's origin as
 * its name. Receipts name the first classical key, in configuration order.
 */
export function signDraft(
  { text, firstLeaf, edge, sealedAt }: Draft,
  origin: string,
  signatures: readonly PartitionSignature[],
): Batch {
  const first = signatures.find(isClassical);
  assert(first, 'a quorum of no classical signatures');
  const lines = signatures.map((one) => ({
    name: origin,
    keyId: noteKeyId(origin, one),
    signature: one.signature,
  }));
  return {
    firstLeaf,
    treeSize: edge.size,
    sealedAt,
    checkpoint: encodeNote(text, lines),
    algorithm: receiptAlgorithm(first.algorithm),
    kmsKeyId: kmsKeyId(first),
  };
}

/** The edge of the tree that the checkpoint commits to; undefined if tiles are missing or give a different root. */
export async function committedEdge(head: Batch, readTile: ReadTile): Promise<Edge | undefined> {
  const checkpoint = openCheckpoint(head.checkpoint)?.checkpoint;
  try {
    const edge = await loadEdge(head.treeSize, readTile);
    const isIts = checkpoint?.treeSize === edge.size && bytesEqual(checkpoint.root, rootOf(edge));
    return isIts ? edge : undefined;
  } catch (error) {
    if (error instanceof BrokenInvariant) return undefined;
    throw error;
  }
}
