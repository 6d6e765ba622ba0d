import { assert } from '../base/assert.ts';
import type { QuorumPolicy } from './quorum.ts';
import type { LogKey } from './verifierKey.ts';

/**
 * A time within which one set of keys signs the log by one rule. Epochs follow each other without a gap: one ends where the
 * next begins, and the last goes on. What is sealed belongs to the epoch its `sealed_at` is in, and its time-stamp is of the
 * same one.
 */
export interface Epoch {
  /** Milliseconds since the epoch of Unix. */
  from: number;
  /** In the order of the configuration when it was planned. */
  keys: EpochKey[];
  quorum: QuorumPolicy;
  /** Whether each checkpoint is time-stamped. */
  timestamps: 'required' | 'none';
  /** Who could stamp as far as was known when it was planned: name of the authority, Base64 DER of a root. */
  roots: { name: string; root: string }[];
}

export interface EpochKey extends LogKey {
  /** `key_label` of the configured partition that holds the key, which is the label of that partition's first key. */
  partition: string;
}

/** All epochs of a log, as of one of the changes to them. */
export interface Epochs {
  /** How often they were changed. */
  revision: number;
  /** In the order of time, at least one. */
  list: readonly Epoch[];
}

/** An epoch, and when it is over: milliseconds since the epoch of Unix, exclusive, `Infinity` for the last. */
export interface Term {
  epoch: Epoch;
  end: number;
  /** Of the epochs it was taken from. */
  revision: number;
}

/** The epoch in force at a time; the first one for all that was before. */
export function termAt({ list, revision }: Epochs, at: number): Term {
  const index = Math.max(
    list.findLastIndex(({ from }) => from <= at),
    0,
  );
  const epoch = list[index];
  assert(epoch, 'a log without an epoch');
  return { epoch, end: list[index + 1]?.from ?? Infinity, revision };
}

/** The epoch that begins when the one in force at that time ends. */
export function comingAt({ list }: Epochs, at: number): Epoch | undefined {
  return list.slice(1).find(({ from }) => from > at);
}
