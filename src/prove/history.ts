import { assert } from '../base/assert.ts';
import { OperatorError } from '../base/errors.ts';
import type { Checkpoint } from '../log/checkpoint.ts';
import { consistencyProof, verifyConsistency } from '../log/proof.ts';
import { meetsQuorum, type QuorumPolicy } from '../log/quorum.ts';
import { openCheckpoint, signersOf } from '../log/signedCheckpoint.ts';
import { emptyRoot } from '../log/tree.ts';
import type { LogKey } from '../log/verifierKey.ts';
import { parseReceipt } from '../manifest/received.ts';
import type { TrustFile } from '../manifest/trustFile.ts';
import type { Store } from '../store/store.ts';
import { parseReceiptJson, verifyReceipt } from './verify.ts';

/** Text that is to show an earlier state of the log: a signed checkpoint, or a receipt, which carries one. */
export interface EarlierState {
  text: string;
  /** Where it is from, as messages name it. */
  from: string;
}

/**
 * The checkpoint in it. Throws OperatorError for anything that the log's keys did not sign: it proves nothing about this
 * log.
 */
export function readEarlier({ text, from }: EarlierState, trust: TrustFile): Checkpoint {
  const receipt = text.trimStart().startsWith('{') ? parseReceiptJson(text) : undefined;
  const found =
    receipt === undefined ? signedCheckpoint(text, trust.logs) : checkpointOfReceipt(receipt, trust);
  if (typeof found === 'string') throw new OperatorError(`${from} proves nothing about this log: ${found}`);
  return found;
}

/** Once these checks passed, the checkpoint commits to the receipt. The other checks do not matter here. */
const PROVEN = new Set(['receipt', 'manifest', 'leaf', 'checkpoint', 'quorum']);

function checkpointOfReceipt(receipt: unknown, trust: TrustFile): Checkpoint | string {
  const { checks } = verifyReceipt({ document: undefined, receipt, trust });
  const fault = checks.find(({ name, outcome }) => PROVEN.has(name) && outcome !== 'passed');
  if (fault !== undefined) return `its ${fault.name} did not pass: ${fault.detail}`;
  const parsed = parseReceipt(receipt);
  assert(parsed.kind === 'receipt', 'a receipt that verified can be read');
  return signedCheckpoint(parsed.receipt.evidence.checkpoint, trust.logs);
}

/** A log, and who signs it when. */
interface SignedLog {
  origin: string;
  epochs: readonly { keys: readonly LogKey[]; quorum: QuorumPolicy }[];
}

/** A signed checkpoint, or why it is none of these logs. */
export function signedCheckpoint(text: string, logs: readonly SignedLog[]): Checkpoint | string {
  const opened = openCheckpoint(text);
  if (opened === undefined) return 'it is neither a signed checkpoint nor a receipt';
  const { note, checkpoint } = opened;
  const log = logs.find(({ origin }) => origin === checkpoint.origin);
  if (log === undefined) return 'it is of another log';
  // A checkpoint by itself does not say when it was signed.
  const isSigned = log.epochs.some(({ keys, quorum }) =>
    meetsQuorum(quorum, signersOf(note, log.origin, keys).keys),
  );
  return isSigned ? checkpoint : 'too few keys of this log signed it';
}

/**
 * Why the log in the store contradicts that checkpoint; undefined if the log has only grown since (RFC 9162,
 * section 2.1.4). Throws if tiles are missing.
 */
export async function contradiction(
  store: Pick<Store, 'log'>,
  earlier: Checkpoint,
): Promise<string | undefined> {
  const head = await store.log.head();
  const now = head && openCheckpoint(head.checkpoint)?.checkpoint;
  const { treeSize, root } = now ?? { treeSize: 0, root: emptyRoot };
  if (treeSize < earlier.treeSize) {
    return olderCopy(treeSize, earlier);
  }
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
