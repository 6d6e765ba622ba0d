import { fromBase64 } from '../base/bytes.ts';
import { parseProof, verifyConsistency } from '../log/proof.ts';
import type { Step, Tree } from './protocol.ts';
import { SignerFailure } from './signerFailure.ts';

/** A signer's memory of what a log key has signed. */
export interface SignedTrees {
  /** Each contains the one before; the last is the newest that was signed. None before the first signature. */
  trees: readonly Tree[];
  /** Number of times that trees may still be given up for another. */
  credit: number;
  /** Time of that count; milliseconds since the Unix epoch. */
  countedAt: number;
}

/** More than crashes and outages use up, since a sealer pauses as long; few enough that a daemon which forks is detected. */
export const CREDIT_MAX = 64;
const CREDIT_INTERVAL_MS = 5_000;

export const NOTHING_SIGNED: SignedTrees = { trees: [], credit: CREDIT_MAX, countedAt: 0 };

/**
 * The rule of a signer: returns what it remembers once it signs `next`, and the trees that this gives up. Throws SignerFailure if it must
 * not sign.
 *
 * - Any tree must be larger than a tree that it holds, and contain it. Trees that it signed after that one will never be continued: they
 *   were batches that could not be sealed, for example without a time-stamp. So it holds one line of trees, never two branches.
 * - A tree that it holds may be signed again. The trees between it and the tree that the step leads from are given up: batches that were
 *   joined.
 * - It holds the last `depth` trees, as many as there can be batches on their way, and the one before, which was committed. It never goes
 *   back beyond that. Trees of batches that were joined since take no place of these: it forgets them, even if it did not sign the joined
 *   batch.
 * - The number of times that it gives up trees is limited: {@link CREDIT_MAX} times, and once more every five seconds. This bounds what a
 *   compromised daemon can have signed in addition to the log: trees that no later tree will ever contain.
 * - It trusts the tree that the first step leads from, which must be committed: otherwise it might hold nothing but trees that are given
 *   up. Such a step gives up nothing: if two batches are the first that it signs, the second is asked for again, from the first.
 */
export function follow(
  held: SignedTrees,
  next: Tree,
  step: Step,
  { depth, now }: { depth: number; now: number },
): { held: SignedTrees; abandoned: readonly Tree[] } {
  const trees = held.trees.length === 0 && step.isCommitted ? [step.from] : held.trees;
  const at = trees.findIndex((tree) => isSameTree(tree, step.from));
  const again = held.trees.findIndex((tree) => isSameTree(tree, next));
  if (again >= 0 && (at < 0 || again <= at + 1)) return { held, abandoned: [] };
  if (at < 0) throw new TreeUnknown(trees);
  if (again < 0 && !contains(next, step)) {
    const why = `a tree of ${next.size} leaves is not proven to contain that of ${step.from.size} leaves that was signed before`;
    throw new SignerFailure('tree_inconsistent', why);
  }
  const [abandoned, kept] =
    again < 0 ? [trees.slice(at + 1), [next]] : [trees.slice(at + 1, again), trees.slice(again)];
  if (step.isCommitted && abandoned.length > 0) throw new TreeUnknown(trees);
  const below = trees.slice(0, at + 1).filter(({ size }) => isDraftedOn(size, step));
  const line = [...below, ...kept].slice(-(depth + 1));
  return { held: { ...(abandoned.length === 0 ? held : spend(held, now)), trees: line }, abandoned };
}

/** A refusal that lists the trees from which a step may lead. */
export class TreeUnknown extends SignerFailure {
  readonly trees: readonly Tree[];

  constructor(trees: readonly Tree[]) {
    const sizes = trees.map(({ size }) => size).join(', ') || 'no';
    super('tree_unknown', `the log contains none of the trees that this key signed last, of ${sizes} leaves`);
    this.trees = trees;
  }
}

/** Whether the log can still go back to a tree of this size that the step's tree contains. */
function isDraftedOn(size: number, { draftedOn }: Step): boolean {
  if (draftedOn === undefined) return true;
  const [committed = 0] = draftedOn;
  return size <= committed || draftedOn.includes(size);
}

function isSameTree(one: Tree, other: Tree): boolean {
  return one.size === other.size && one.root === other.root;
}

function contains(next: Tree, { from, proof: lines }: Step): boolean {
  const proof = parseProof(lines);
  const [oldRoot, newRoot] = [fromBase64(from.root), fromBase64(next.root)];
  if (proof === undefined || oldRoot === undefined || newRoot === undefined) return false;
  return next.size > from.size && verifyConsistency(from.size, next.size, proof, oldRoot, newRoot);
}

/** The memory at a start: if the clock was set back since, no credit would be earned for that long. */
export function heldAt(held: SignedTrees, now: number): SignedTrees {
  return held.countedAt > now ? { ...held, countedAt: now } : held;
}

function spend(held: SignedTrees, now: number): SignedTrees {
  const { credit, countedAt } = heldAt(held, now);
  const earned = Math.floor((now - countedAt) / CREDIT_INTERVAL_MS);
  const total = Math.min(CREDIT_MAX, credit + earned);
  if (total === 0)
    throw new SignerFailure('trees_abandoned', 'too many trees were signed and abandoned in a short time');
  const isFull = total === CREDIT_MAX;
  return { ...held, credit: total - 1, countedAt: isFull ? now : countedAt + earned * CREDIT_INTERVAL_MS };
}
