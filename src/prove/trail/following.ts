import { bytesEqual } from '../../base/bytes.ts';
import { toRfc3339 } from '../../base/clock.ts';
import { OperatorError } from '../../base/errors.ts';
import type { Checkpoint } from '../../log/checkpoint.ts';
import { cosignaturesIn } from '../../log/cosignature.ts';
import { parseNote } from '../../log/note.ts';
import { consistencyProof, inclusionProof, verifyConsistency, verifyInclusion } from '../../log/proof.ts';
import { HASH_BYTES, type ReadTile, TILE_WIDTH } from '../../log/tiles.ts';
import { leafHash, loadEdge, rootOf } from '../../log/tree.ts';
import { satisfiesPolicy, type WitnessPolicy } from '../../log/witnessPolicy.ts';
import { leafData } from '../../manifest/manifest.ts';
import { parseReceipt } from '../../manifest/received.ts';
import type { TrustFile } from '../../manifest/trustFile.ts';
import { receiptIn } from '../verify/bundleCheck.ts';
import type { CheckName } from '../verify/finding.ts';
import { verifyReceipt } from '../verify/verify.ts';
import { continuedOtherwise, olderCopy } from './history.ts';

/** How far ahead the clock of a witness may be. */
const AHEAD_MS_MAX = 300_000;

/**
 * Why a log that now shows one checkpoint contradicts an earlier one; undefined if it has only grown (RFC 9162, section 2.1.4). The tiles
 * come from the log unsigned: they count only as far as they prove the newer root. Throws what `readTile` throws, and OperatorError for
 * tiles that do not match that root.
 */
export async function whyNotGrown(
  earlier: Checkpoint,
  now: Checkpoint,
  readTile: ReadTile,
): Promise<string | undefined> {
  if (now.treeSize < earlier.treeSize) return olderCopy(now.treeSize, earlier);
  // Two signed roots of the same size need no tile, so a log cannot hide a fork by withholding its tiles.
  if (now.treeSize === earlier.treeSize)
    return bytesEqual(now.root, earlier.root) ? undefined : continuedOtherwise(earlier);
  const shown = rootOf(await loadEdge(earlier.treeSize, readTile));
  const proof = await consistencyProof(earlier.treeSize, now.treeSize, readTile);
  if (!verifyConsistency(earlier.treeSize, now.treeSize, proof, shown, now.root)) throw wrongTiles();
  return bytesEqual(shown, earlier.root) ? undefined : continuedOtherwise(earlier);
}

function wrongTiles(): OperatorError {
  return new OperatorError(
    'the tiles that the log shows do not give the root of its checkpoint: they prove nothing. Ask again later; if it stays so, ask who runs the log',
  );
}

/**
 * Why witnesses have not cosigned the checkpoint as the policy demands, up to the time `at`; undefined if they have. Cosignatures dated in
 * the future do not count: they would stay fresh for ever.
 */
export function whyNotWitnessed(
  checkpoint: string,
  policy: WitnessPolicy,
  at: number,
  ageMsMax: number,
): string | undefined {
  const note = parseNote(checkpoint);
  const cosigned = note === undefined ? [] : cosignaturesIn(note, policy.witnesses);
  const newest = cosigned.filter(({ time }) => {
    const ageMs = at - time * 1000;
    return ageMs <= ageMsMax && ageMs >= -AHEAD_MS_MAX;
  });
  if (satisfiesPolicy(policy, new Set(newest.map(({ cosigner }) => cosigner.label)))) return undefined;
  const seen = cosigned.map(({ cosigner, time }) => `${cosigner.label} at ${toRfc3339(time * 1000)}`);
  return `the newest witnessed checkpoint is cosigned by ${seen.join(', ') || 'no witness of the policy'}: the policy is not met since ${toRfc3339(at - ageMsMax)}, so others may be shown another log`;
}

/** The checks that say nothing about the leaf of a receipt. */
const NO_MATTER: readonly CheckName[] = ['document', 'revocation'];

/** The fault of a receipt that a log should contain. */
export interface Missing {
  why: string;
  /** The log contains it, or it is of a later version; but the trust file and the clock do not suffice to judge it. */
  isUndecided?: true;
}

/**
 * Why a receipt is not one of the log that shows this checkpoint; undefined if it verifies and its leaf is there. The document is not looked
 * at. Throws what `readTile` throws.
 */
export async function whyNotThere(
  receipt: unknown,
  now: Checkpoint,
  trust: TrustFile,
  readTile: ReadTile,
): Promise<Missing | undefined> {
  const parsed = parseReceipt(receiptIn(receipt));
  const { checks } = verifyReceipt({ document: undefined, receipt, trust });
  const failed = checks.find(({ outcome }) => outcome === 'failed');
  if (failed !== undefined) return { why: `it does not verify: ${failed.name}: ${failed.detail}` };
  const open = checks.find(({ name, outcome }) => !NO_MATTER.includes(name) && outcome === 'unknown');
  const undecided = open && {
    why: `it cannot be judged: ${open.name}: ${open.detail}`,
    isUndecided: true as const,
  };
  if (parsed.kind !== 'receipt') return undecided;
  const { manifest, evidence } = parsed.receipt;
  const { leaf_index: index, log_origin: origin } = evidence;
  if (origin !== now.origin) return { why: `it is of another log, ${origin}` };
  if (index >= now.treeSize)
    return { why: `the log has ${now.treeSize} leaves, and leaf ${index} is its own` };
  const proof = await inclusionProof(index, now.treeSize, readTile);
  const leaf = leafHash(leafData(manifest));
  if (verifyInclusion(index, now.treeSize, leaf, proof, now.root)) return undecided;
  const tile = await readTile(0, Math.floor(index / TILE_WIDTH));
  const at = (index % TILE_WIDTH) * HASH_BYTES;
  const shown = tile?.subarray(at, at + HASH_BYTES) ?? new Uint8Array(0);
  if (!verifyInclusion(index, now.treeSize, shown, proof, now.root)) throw wrongTiles();
  return { why: `leaf ${index} of the log is another` };
}
