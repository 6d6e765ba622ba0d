import type { Checkpoint } from '../log/checkpoint.ts';
import { consistencyProof, inclusionProof, verifyConsistency, verifyInclusion } from '../log/proof.ts';
import type { ReadTile } from '../log/tiles.ts';
import { leafHash } from '../log/tree.ts';
import { leafData } from '../manifest/manifest.ts';
import { parseReceipt } from '../manifest/received.ts';
import type { TrustFile } from '../manifest/trustFile.ts';
import { continuedOtherwise, olderCopy } from './history.ts';
import { verifyReceipt } from './verify.ts';

/**
 * Why a log that now shows one checkpoint contradicts an earlier one; undefined if it has only grown (RFC 9162, section 2.1.4). The tiles
 * are those that the log shows: they need not be trusted, because both roots are checked. Throws what `readTile` throws.
 */
export async function whyNotGrown(
  earlier: Checkpoint,
  now: Checkpoint,
  readTile: ReadTile,
): Promise<string | undefined> {
  if (now.treeSize < earlier.treeSize) return olderCopy(now.treeSize, earlier);
  const proof = await consistencyProof(earlier.treeSize, now.treeSize, readTile);
  const isGrown = verifyConsistency(earlier.treeSize, now.treeSize, proof, earlier.root, now.root);
  return isGrown ? undefined : continuedOtherwise(earlier);
}

/**
 * Why a receipt is not one of the log that shows this checkpoint; undefined if its leaf is there. The document is not looked at. Throws what
 * `readTile` throws.
 */
export async function whyNotThere(
  receipt: unknown,
  now: Checkpoint,
  trust: TrustFile,
  readTile: ReadTile,
): Promise<string | undefined> {
  const parsed = parseReceipt(receipt);
  const { checks } = verifyReceipt({ document: undefined, receipt, trust });
  const fault = checks.find(({ name, outcome }) => name !== 'document' && outcome !== 'passed');
  if (parsed.kind !== 'receipt' || fault !== undefined)
    return `it does not verify: ${fault?.name}: ${fault?.detail}`;
  const { manifest, evidence } = parsed.receipt;
  const { leaf_index: index, log_origin: origin } = evidence;
  if (origin !== now.origin) return `it is of another log, ${origin}`;
  if (index >= now.treeSize) return `the log has ${now.treeSize} leaves, and leaf ${index} is its own`;
  const proof = await inclusionProof(index, now.treeSize, readTile);
  const isThere = verifyInclusion(index, now.treeSize, leafHash(leafData(manifest)), proof, now.root);
  return isThere ? undefined : `leaf ${index} of the log is another`;
}
