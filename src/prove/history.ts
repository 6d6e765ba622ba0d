import { assert } from '../base/assert.ts';
import { OperatorError } from '../base/errors.ts';
import type { Checkpoint } from '../log/checkpoint.ts';
import { consistencyProof, verifyConsistency } from '../log/proof.ts';
import { meetsQuorum } from '../log/quorum.ts';
import { emptyRoot } from '../log/tree.ts';
import { parseReceipt } from '../manifest/received.ts';
import type { TrustFile } from '../manifest/trustFile.ts';
import type { Store } from '../store/store.ts';
import { openCheckpoint, signersOf } from './checkpointCheck.ts';
import { parseReceiptJson, verifyReceipt } from './verify.ts';

/**
 * An earlier checkpoint of a log, from the text of a signed checkpoint or of a receipt, which carries one. Throws
 * OperatorError for anything that the log's keys did not sign: it proves nothing about this log.
 */
export function readEarlier(text: string, trust: TrustFile): Checkpoint {
  const receipt = text.trimStart().startsWith('{') ? parseReceiptJson(text) : undefined;
  if (receipt === undefined) return readCheckpoint(text, trust);
  const { checks } = verifyReceipt({ document: undefined, receipt, trust });
  const fault = checks.find(({ name, outcome }) => PROVEN.has(name) && outcome !== 'passed');
  if (fault !== undefined) throw useless(`its ${fault.name} did not pass: ${fault.detail}`);
  const parsed = parseReceipt(receipt);
  assert(parsed.kind === 'receipt', 'a receipt that verified can be read');
  return readCheckpoint(parsed.receipt.evidence.checkpoint, trust);
}

/** Once these checks passed, the checkpoint commits to the receipt. The other checks do not matter here. */
const PROVEN = new Set(['receipt', 'manifest', 'leaf', 'checkpoint', 'quorum']);

function readCheckpoint(text: string, { logs }: TrustFile): Checkpoint {
  const opened = openCheckpoint(text);
  if (opened === undefined) throw useless('it is neither a signed checkpoint nor a receipt');
  const { note, checkpoint } = opened;
  const log = logs.find(({ origin }) => origin === checkpoint.origin);
  if (log === undefined) throw useless('it is of another log');
  // A checkpoint by itself does not say when it was signed.
  const signed = log.epochs.some(({ keys, quorum }) =>
    meetsQuorum(quorum, signersOf(note, log.origin, keys).keys),
  );
  if (!signed) throw useless('too few keys of this log signed it');
  return checkpoint;
}

function useless(why: string): OperatorError {
  return new OperatorError(`what --against names proves nothing about this log: ${why}`);
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
