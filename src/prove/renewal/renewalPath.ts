import {
  type LeafRange,
  pathOf,
  type RenewalRun,
  type RenewalScope,
  type RenewalToken,
  type RenewalWays,
  rangesOf,
  runsOf,
  SKIPPED,
} from '../../store/renewalStore.ts';

// Chooses the path of evidence records through the renewals of a log. It is always chosen from all runs, as the best path that is valid at
// a given time.

/** The paths of records as the last run left them. */
export function waysNow(runs: readonly RenewalScope[]): RenewalWays {
  const last = runs.at(-1);
  if (last === undefined) return { path: [] };
  const older = last.older?.map(({ to, path }) => ({ to, path: [...path, 0] }));
  return { path: [...last.path, 0], ...(older && { older }) };
}

/** How long the token of a renewal can be trusted. */
export interface TokenStanding {
  /** Milliseconds since the epoch. */
  genTime: number;
  until: number;
  /** Why another token of the run is preferred: its key was stolen, or the configuration does not name its root. */
  doubt?: 'stolen' | 'unknown';
}

type StandingOf = (token: RenewalToken) => TokenStanding;

/** A path that ends with a token of a run. */
interface Way {
  run: number;
  index: number;
  before?: Way;
  /** The first token of the path: the number of its run, 1 if there is a doubt, and the time. */
  first: readonly number[];
  /** How long the token can be trusted. */
  until: number;
  doubts: number;
}

/** Begins with a batch's own time-stamp, or with none: whether that one is trusted does not make a path better than another. */
const BEGIN: Way = { run: 0, index: SKIPPED, first: [Infinity], until: Infinity, doubts: 0 };

/**
 * The path of these batches' records `at` a time, milliseconds since the epoch. On it, each token is trusted until the next one was made,
 * and the last one at that time. The best path begins with the earliest run, and there with the earliest token without a doubt, so that it
 * depends on the batches' own time-stamps for the shortest time; then it ends with the latest run; then it has the fewest tokens with a
 * doubt. If nothing is valid any more, the path is empty.
 */
export function bestPath(
  range: LeafRange,
  runs: readonly RenewalRun[],
  standingOf: StandingOf,
  at: number,
): number[] {
  const known: (Way | undefined)[][] = [];
  let best = BEGIN;
  for (const run of runs) {
    const before = range.treeSize <= run.to ? waysTo(run, range, runs, known, standingOf) : [];
    const reached = run.tokens.map((_, index) =>
      before
        .flatMap((way) => goOn(way, run, index, standingOf) ?? [])
        .reduce<Way | undefined>((one, other) => (one && !isBetter(other, one) ? one : other), undefined),
    );
    known.push(reached);
    for (const way of reached) if (way && way.until >= at && isBetter(way, best)) best = way;
  }
  const path = runs.map(() => SKIPPED);
  for (let way: Way | undefined = best; way; way = way.before) if (way.run > 0) path[way.run - 1] = way.index;
  return path;
}

/** The paths that a run covers. */
function waysTo(
  run: RenewalRun,
  range: LeafRange,
  runs: readonly RenewalRun[],
  known: readonly (Way | undefined)[][],
  standingOf: StandingOf,
): Way[] {
  if (range.firstLeaf < run.from) return known.at(-1)?.filter((way) => way !== undefined) ?? [];
  const path = pathOf(run, range);
  const covered = runsOf(range, runs, path);
  const last = covered.at(-1);
  if (last === undefined) return [BEGIN];
  const indexOf = ({ number }: RenewalRun) => path[number - 1] ?? SKIPPED;
  // A time-stamp renewal covers one token; a hash renewal covers everything before it.
  if (last.digest === run.digest) return [known[last.number - 1]?.[indexOf(last)] ?? []].flat();
  let way: Way | undefined = BEGIN;
  for (const one of covered) way = way && goOn(way, one, indexOf(one), standingOf);
  return way ? [way] : [];
}

/** Undefined if the path was no longer valid when that token was made. */
function goOn(before: Way, run: RenewalRun, index: number, standingOf: StandingOf): Way | undefined {
  const token = run.tokens[index];
  const standing = token && standingOf(token);
  if (standing === undefined || before.until < standing.genTime) return undefined;
  const { genTime, until } = standing;
  const doubt = standing.doubt === undefined ? 0 : 1;
  const first = before === BEGIN ? [run.number, doubt, genTime] : before.first;
  return { run: run.number, index, before, first, until, doubts: before.doubts + doubt };
}

function isBetter(one: Way, other: Way): boolean {
  const rankOf = ({ first, run, doubts }: Way) => [...first, -run, doubts];
  const rank = rankOf(other);
  const differences = rankOf(one).map((value, n) => value - (rank[n] ?? 0));
  return (differences.find((difference) => difference !== 0) ?? 0) < 0;
}

/** The best paths of all records: see {@link bestPath}. */
export function chooseWays(runs: readonly RenewalRun[], standingOf: StandingOf, at: number): RenewalWays {
  const groups: { to: number; path: number[]; ranges: LeafRange[] }[] = [];
  for (const range of rangesOf(runs)) {
    const path = bestPath(range, runs, standingOf, at);
    const group = groups.at(-1);
    const joint = group?.path.map((index, n) => (index === SKIPPED ? (path[n] ?? SKIPPED) : index)) ?? path;
    const isJoint =
      isSameWay(range, runs, joint, path) &&
      (group?.path.join() === joint.join() ||
        group?.ranges.every((one) => isSameWay(one, runs, joint, group.path)));
    if (group && isJoint)
      Object.assign(group, { to: range.treeSize, path: joint, ranges: [...group.ranges, range] });
    else groups.push({ to: range.treeSize, path, ranges: [range] });
  }
  const older = groups.slice(0, -1).map(({ to, path }) => ({ to, path }));
  return { path: groups.at(-1)?.path ?? runs.map(() => SKIPPED), ...(older.length > 0 && { older }) };
}

function isSameWay(range: LeafRange, runs: readonly RenewalRun[], a: number[], b: number[]): boolean {
  const of = (path: number[]) =>
    runsOf(range, runs, path)
      .map(({ number }) => [number, path[number - 1]])
      .join();
  return of(a) === of(b);
}
