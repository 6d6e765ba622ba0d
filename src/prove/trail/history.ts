import { assert } from '../../base/assert.ts';
import { OperatorError } from '../../base/errors.ts';
import type { Checkpoint } from '../../log/checkpoint.ts';
import { consistencyProof, verifyConsistency } from '../../log/proof.ts';
import { meetsQuorum, type QuorumPolicy } from '../../log/quorum.ts';
import { openCheckpoint, signersOf } from '../../log/signedCheckpoint.ts';
import { emptyRoot } from '../../log/tree.ts';
import type { LogKey } from '../../log/verifierKey.ts';
import { parseReceipt } from '../../manifest/received.ts';
import type { TrustFile } from '../../manifest/trustFile.ts';
import type { Batch, Store } from '../../store/store.ts';
import { receiptIn } from '../verify/bundleCheck.ts';
import { parseReceiptJson } from '../verify/receiptText.ts';
import { verifyReceipt } from '../verify/verify.ts';

/** Text that proves an earlier state of the log: a signed checkpoint, or a receipt, which contains one. */
export interface EarlierState {
  text: string;
  /** Its origin, for messages. */
  from: string;
}

/** The checkpoint in it. Throws OperatorError if the log's keys did not sign it: it would prove nothing about this log. */
export function readEarlier({ text, from }: EarlierState, trust: TrustFile): EpochCheckpoint {
  const receipt = text.trimStart().startsWith('{') ? parseReceiptJson(text) : undefined;
  const found = receipt ? checkpointOfReceipt(receipt, trust) : signedCheckpoint(text, trust.logs);
  if (typeof found === 'string') throw new OperatorError(`${from} proves nothing about this log: ${found}`);
  return found;
}

/** Once these checks passed, the checkpoint commits to the receipt. The other checks do not matter here. */
const PROVEN = new Set(['receipt', 'manifest', 'leaf', 'checkpoint', 'quorum']);

function checkpointOfReceipt(receipt: unknown, trust: TrustFile): EpochCheckpoint | string {
  const { checks } = verifyReceipt({ document: undefined, receipt, trust });
  const fault = checks.find(({ name, outcome }) => PROVEN.has(name) && outcome !== 'passed');
  if (fault !== undefined) return `its ${fault.name} did not pass: ${fault.detail}`;
  const parsed = parseReceipt(receiptIn(receipt));
  assert(parsed.kind === 'receipt', 'a receipt that verified can be read');
  return signedCheckpoint(parsed.receipt.evidence.checkpoint, trust.logs);
}

/** A checkpoint signed by enough keys, and the indexes of the epochs in which the log can have signed it. */
export interface EpochCheckpoint extends Checkpoint {
  oldestEpoch: number;
  newestEpoch: number;
}

/**
 * A signed checkpoint, or why it does not belong to any of these logs. A checkpoint by itself does not state when it was signed. But a log
 * signs only with the keys of the epoch in force, so the signature of a new key shows that its epoch had begun.
 */
export function signedCheckpoint(
  text: string,
  logs: readonly { origin: string; epochs: readonly { keys: readonly LogKey[]; quorum: QuorumPolicy }[] }[],
): EpochCheckpoint | string {
  const opened = openCheckpoint(text);
  if (opened === undefined) return 'it is neither a signed checkpoint nor a receipt';
  const { note, checkpoint } = opened;
  const log = logs.find(({ origin }) => origin === checkpoint.origin);
  if (log === undefined) return 'it is of another log';
  const { origin, epochs } = log;
  const met = [...epochs.entries()].filter(([, { keys, quorum }]) =>
    meetsQuorum(quorum, signersOf(note, origin, keys).keys),
  );
  const everyKey = epochs.flatMap(({ keys }) => keys);
  const signers = signersOf(note, origin, everyKey).keys;
  const own = met.filter(([, { keys }]) =>
    signers.every((signer) => keys.some(({ spki }) => spki === signer.spki)),
  );
  // In an edited trust file, a key can be missing from one epoch and present in another.
  const [oldest, newest] = [own[0] ?? met[0], met.at(-1)];
  if (oldest === undefined || newest === undefined) return 'too few keys of this log signed it';
  return { ...checkpoint, oldestEpoch: oldest[0], newestEpoch: newest[0] };
}

/**
 * Why a log cannot have signed both checkpoints, given that its epochs follow each other while it grows; undefined if it can. If both have
 * the same size, `now` counts as the larger one.
 */
export function epochContradiction(earlier: EpochCheckpoint, now: EpochCheckpoint): string | undefined {
  const [smaller, larger] = now.treeSize < earlier.treeSize ? [now, earlier] : [earlier, now];
  return larger.newestEpoch < smaller.oldestEpoch
    ? `the checkpoint of ${larger.treeSize} leaves has the signatures of an earlier epoch only, but a later epoch had begun when the log had ${smaller.treeSize} leaves`
    : undefined;
}

/**
 * Why the log in the store, with the given head, contradicts that checkpoint; undefined if the log has only grown since (RFC 9162, section
 * 2.1.4). Throws if tiles are missing.
 */
export async function contradiction(
  store: Pick<Store, 'log'>,
  earlier: Checkpoint,
  head: Batch | undefined,
): Promise<string | undefined> {
  const now = head && openCheckpoint(head.checkpoint)?.checkpoint;
  const { treeSize, root } = now ?? { treeSize: 0, root: emptyRoot };
  if (treeSize < earlier.treeSize) return olderCopy(treeSize, earlier);
  const proof = await consistencyProof(earlier.treeSize, treeSize, (level, index) =>
    store.log.tile(level, index),
  );
  if (verifyConsistency(earlier.treeSize, treeSize, proof, earlier.root, root)) return undefined;
  return continuedOtherwise(earlier);
}

export function olderCopy(treeSize: number, earlier: Checkpoint): string {
  return `the log has ${treeSize} leaves, and had ${earlier.treeSize} already: this is an older copy of it`;
}

export function continuedOtherwise(earlier: Checkpoint): string {
  return `the first ${earlier.treeSize} leaves are not those that were signed: an older copy of the log was continued`;
}
