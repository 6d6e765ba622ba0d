import { assert } from '../base/assert.ts';
import { type RenewalRun, type RenewalScope, type RenewalToken, SKIPPED } from '../store/renewalStore.ts';
import type { Batch } from '../store/store.ts';

// The way of evidence records through the renewals of a log. A path has an entry for each run: the token with which records go on, or
// SKIPPED. A run carries the time-stamps of the run before, or it has a leaf for each checkpoint: then records come to it as its own path says.

/** The path of records of today. */
export function pathNow(runs: readonly RenewalScope[]): number[] {
  const last = runs.at(-1);
  return last === undefined ? [] : [...last.path, 0];
}

/** The runs in the record of a batch, oldest first. */
export function runsOf(
  { firstLeaf, treeSize }: Pick<Batch, 'firstLeaf' | 'treeSize'>,
  runs: readonly RenewalRun[],
  path: readonly number[],
): RenewalRun[] {
  const found: RenewalRun[] = [];
  for (const [index, chosen] of path.entries()) {
    const run = runs[index];
    assert(run, `renewal ${index + 1} is gone`);
    const isReached = firstLeaf >= run.from || found.at(-1)?.number === run.number - 1;
    if (treeSize <= run.to && chosen !== SKIPPED && isReached) found.push(run);
  }
  return found;
}

/** Until when the token of a renewal can be believed. */
export interface TokenStanding {
  /** Milliseconds since the epoch. */
  genTime: number;
  until: number;
  /** Its key was stolen: another token is preferred. */
  isStolen: boolean;
}

/**
 * The path of a run that is made `at` a time, milliseconds since the epoch. Each token must be believed until the next one was made. As before
 * where that is so; else with another token of the run; else without the run, since records through it prove nothing. What a run with a leaf
 * for each checkpoint has covered stays as it was.
 */
export function choosePath(
  runs: readonly RenewalRun[],
  standingOf: (token: RenewalToken) => TokenStanding,
  at: number,
): number[] {
  const path = pathNow(runs);
  let next = at;
  for (const { number, from, path: before, tokens } of runs.toReversed()) {
    const standings = tokens.map(standingOf);
    const former = path[number - 1] ?? SKIPPED;
    const candidates = [former, ...standings.keys()].filter((one) => (standings[one]?.until ?? 0) >= next);
    const chosen = candidates.find((one) => !standings[one]?.isStolen) ?? candidates[0] ?? SKIPPED;
    path[number - 1] = chosen;
    next = standings[chosen]?.genTime ?? at;
    if (from === 0 && chosen !== SKIPPED) return [...before, ...path.slice(before.length)];
  }
  return path;
}
