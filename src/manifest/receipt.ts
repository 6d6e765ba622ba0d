import { assert } from '../base/assert.ts';
import { toBase64 } from '../base/bytes.ts';
import type { ReceivedJob } from '../job/job.ts';
import { verifyInclusion } from '../log/proof.ts';
import { openCheckpoint } from '../log/signedCheckpoint.ts';
import { leafHash } from '../log/tree.ts';
import { CLASSICAL_ALGORITHMS, type ClassicalAlgorithm } from '../log/verifierKey.ts';
import { digestWithout } from './jcs.ts';
import { leafData, type Manifest, manifestOf } from './manifest.ts';

/** The receipt of a sealed job (section 2.2 of the contract). The members have the order of the file. */
export interface Receipt {
  job_id: string;
  algorithm: ReceiptAlgorithm;
  document_sha256: string;
  receipt_sha512: string;
  kms_key_id: string;
  sealed_at: string;
  customer_reference?: string;
  manifest: Manifest;
  evidence: Evidence;
}

/** The sealing schemes: the type of the log, and the signature of its checkpoint. */
export type ReceiptAlgorithm = `pdfseal-v1.${ClassicalAlgorithm}`;

/** The proof that the manifest is in the log, and since when. Binary values are Base64 (RFC 4648, section 4). */
export interface Evidence {
  log_origin: string;
  leaf_index: number;
  tree_size: number;
  /** 32 bytes each, from the leaf's sibling upward (RFC 9162, section 2.1.3). */
  inclusion_proof: string[];
  /** A signed note (C2SP tlog-checkpoint). */
  checkpoint: string;
  timestamps: ReceiptTimestamp[];
  /** DER of the certificates in the chains of the tokens. */
  certificates: string[];
}

/** A time-stamp over the signed checkpoint (RFC 3161). */
export interface ReceiptTimestamp {
  type: 'rfc3161';
  token: string;
}

/** The parts of a receipt. They never change, so a receipt always has the same bytes. */
export interface ReceiptParts {
  job: ReceivedJob;
  /** Name of the environment, without `env_`. */
  environment: string;
  batch: {
    treeSize: number;
    sealedAt: number;
    checkpoint: string;
    algorithm: string;
    kmsKeyId: string;
    timestamp?: { token: string; certificates: readonly string[] };
  };
  leafIndex: number;
  /** Inclusion proof of the leaf in the tree of `batch.treeSize` leaves. */
  proof: readonly Uint8Array[];
}

/** `algorithm` of receipts for which such a key is the first to have signed the checkpoint. */
export function receiptAlgorithm(algorithm: ClassicalAlgorithm): ReceiptAlgorithm {
  return `pdfseal-v1.${algorithm}`;
}

/** Builds the receipt. Throws BrokenInvariant if the proof does not lead from this job to the checkpoint. */
export function assembleReceipt({ job, environment, batch, leafIndex, proof }: ReceiptParts): Receipt {
  const manifest = manifestOf(job, environment, batch.sealedAt);
  const checkpoint = openCheckpoint(batch.checkpoint)?.checkpoint;
  const leaf = leafHash(leafData(manifest));
  assert(
    checkpoint?.treeSize === batch.treeSize &&
      verifyInclusion(leafIndex, batch.treeSize, leaf, proof, checkpoint.root),
    `the log does not hold ${job.id} as leaf ${leafIndex} of ${batch.treeSize}`,
  );
  assert(isReceiptAlgorithm(batch.algorithm), `${batch.algorithm} is not a sealing scheme`);
  const receipt: Receipt = {
    job_id: job.id,
    algorithm: batch.algorithm,
    document_sha256: job.content.document.sha256,
    receipt_sha512: '',
    kms_key_id: batch.kmsKeyId,
    sealed_at: manifest.sealed_at,
    ...(job.customerReference !== undefined && { customer_reference: job.customerReference }),
    manifest,
    evidence: {
      log_origin: checkpoint.origin,
      leaf_index: leafIndex,
      tree_size: batch.treeSize,
      inclusion_proof: proof.map(toBase64),
      checkpoint: batch.checkpoint,
      timestamps: batch.timestamp === undefined ? [] : [{ type: 'rfc3161', token: batch.timestamp.token }],
      certificates: [...(batch.timestamp?.certificates ?? [])],
    },
  };
  receipt.receipt_sha512 = receiptDigest(receipt);
  return receipt;
}

/** `receipt_sha512`. Throws if the receipt has no canonical form. */
export function receiptDigest(receipt: object): string {
  return digestWithout('receipt_sha512', receipt);
}

/** The text of the receipt: indented for people, always the same bytes. */
export function encodeReceipt(receipt: object): string {
  return `${JSON.stringify(receipt, undefined, 2)}\n`;
}

/** Whether this version of the program supports the sealing scheme. */
export function isReceiptAlgorithm(text: string): text is ReceiptAlgorithm {
  return CLASSICAL_ALGORITHMS.some((algorithm) => text === receiptAlgorithm(algorithm));
}
