import { assert } from '../base/assert.ts';
import type { QuorumPolicy } from './quorum.ts';
import type { LogKey } from './verifierKey.ts';

/**
 * A period in which one set of keys signs the log under one rule. Epochs have no gaps: each ends when the next
 * begins, and the last is open. A receipt belongs to the epoch of its `sealed_at`; so does its time-stamp.
 */
export interface Epoch {
  /** Milliseconds since the Unix epoch. */
  from: number;
  /** In the order of the configuration when the epoch was planned. */
  keys: EpochKey[];
  quorum: QuorumPolicy;
  /** Whether each checkpoint is time-stamped. */
  timestamps: 'required' | 'none';
  /** The authorities known when the epoch was planned: name of the authority, Base64 DER of a root. */
  roots: { name: string; root: string }[];
}

export interface EpochKey extends LogKey {
  /** `key_label` of the configured partition that holds this key. It is the label of that partition's first key. */
  partition: string;
}

/** All epochs of a log, as of one change. */
export interface Epochs {
  /** The number of changes so far. */
  revision: number;
  /** In chronological order. At least one. */
  list: readonly Epoch[];
}

/** An epoch and its end: milliseconds since the Unix epoch, exclusive; `Infinity` for the last. */
export interface Term {
  epoch: Epoch;
  end: number;
  /** `revision` of the epochs that this one was taken from. */
  revision: number;
}

/** The epoch in force at a time; before the first epoch, the first one. */
export function termAt({ list, revision }: Epochs, at: number): Term {
  const found = list.findLastIndex(({ from }) => from <= at);
  const index = Math.max(found, 0);
  const epoch = list[index];
  assert(epoch, 'a log without an epoch');
  return { epoch, end: list[index + 1]?.from ?? Infinity, revision };
}

/** The epoch that follows the one in force at a time. */
export function comingAt({ list }: Epochs, at: number): Epoch | undefined {
  return list.slice(1).find(({ from }) => from > at);
}
