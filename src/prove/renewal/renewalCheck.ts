import { toRfc3339 } from '../../base/clock.ts';
import type { TrustedAuthority } from '../../manifest/trustFile.ts';
import {
  pathOf,
  type RenewalRun,
  rangesOf,
  renewedUntil,
  runsOf,
  SKIPPED,
} from '../../store/renewalStore.ts';
import type { Store } from '../../store/store.ts';
import { type TokenStanding, waysNow } from './renewalPath.ts';
import { judgeRenewal, makeRow, newestOf, orderFault, rootOfRun, rootOfTiles } from './renewalRun.ts';
import { openToken, pathsAt, tokenStandings } from './renewalStandings.ts';
import { byCertificates } from './renewalSurvey.ts';
import { batchesOf, RenewalTrees } from './renewals.ts';
import { theftsOf } from './thefts.ts';

/** Describes renewals that do not follow from the log, or do not prove anything. Every hash is computed again. */
export async function renewalProblems(
  store: Pick<Store, 'log' | 'renewals'>,
  authorities: readonly TrustedAuthority[],
  width?: number,
): Promise<string[]> {
  const runs = await store.renewals.runs();
  const trees = new RenewalTrees(store, runs, width);
  const problems: string[] = [];
  let newest = -Infinity;
  for (const run of runs) {
    const fault = (await shapeFault(store, run, runs)) ?? (await treeFault(store, run, trees));
    if (fault !== undefined) {
      // Later runs are based on this one, so they are not checked.
      return [...problems, `renewal ${run.number} ${fault}: restore a backup`];
    }
    const root = rootOfRun(trees, run, run.rows);
    for (const token of run.tokens) {
      const judged = judgeRenewal(token, { scope: run, root }, authorities);
      const found =
        'fault' in judged ? judged.fault : await orderFault(store, run, newest, judged.timestamp.genTime);
      if (found === undefined) continue;
      const isUntrusted = 'fault' in judged && judged.isUntrusted;
      const remedy = isUntrusted ? `; a backup does not help: ${putBack(token.authority)}` : '';
      problems.push(`the token of ${token.authority} in renewal ${run.number}: ${found}${remedy}`);
    }
    newest = Math.max(newest, newestOf([run]));
  }
  return problems;
}

async function shapeFault(
  { log }: Pick<Store, 'log'>,
  run: RenewalRun,
  runs: readonly RenewalRun[],
): Promise<string | undefined> {
  const { number, from, to, path, older = [] } = run;
  const before = runs.slice(0, number - 1);
  if (runs[number - 1]?.number !== number) return 'is not where it belongs';
  const isPath = (one: number[]) =>
    one.length === before.length &&
    one.every((index, n) => index === SKIPPED || before[n]?.tokens[index] !== undefined);
  if (![path, ...older.map((one) => one.path)].every(isPath)) return 'builds on a token that does not exist';
  if (from !== renewedUntil(before, run) || to < (before.at(-1)?.to ?? 0))
    return 'does not follow the renewal before it';
  return to > 0 && (await log.batchAt(to)) === undefined
    ? `ends at ${to} leaves, where no checkpoint is`
    : undefined;
}

async function treeFault(
  { renewals }: Pick<Store, 'renewals'>,
  run: RenewalRun,
  trees: RenewalTrees,
): Promise<string | undefined> {
  let leaf = run.from;
  for (const [number, { first, root }] of run.rows.entries()) {
    const tiles = await renewals.row(run.number, number);
    if (tiles === undefined) return `has no row ${number}`;
    if (first !== leaf || rootOfTiles(run.digest, tiles) !== root) return `has another row ${number}`;
    const made = await makeRow(trees, run, leaf);
    if (JSON.stringify(made) !== JSON.stringify(tiles)) return `is not of the checkpoints of row ${number}`;
    for await (const batch of trees.batchesOfTile(tiles.at(-1)?.first ?? leaf, run.to)) leaf = batch.treeSize;
  }
  return leaf === run.to ? undefined : 'does not cover all checkpoints';
}

/** The remedy that makes the root of an authority trusted again. */
function putBack(authority: string): string {
  return `add the authority to the configuration again: [timestamp.remotes.${authority}] with its roots_file and without url; older trust files contain the root`;
}

/**
 * Describes authorities of renewals whose root is not among these, each with the remedy. Verifiers need that root. The store deliberately
 * does not keep it: a root that anyone with write access to the store could add would not be a reason to trust.
 */
export async function missingRoots(
  { renewals }: Pick<Store, 'renewals'>,
  authorities: readonly TrustedAuthority[],
): Promise<{ detail: string; remedy: string }[]> {
  const missing = new Map<string, number[]>();
  for (const { number, tokens } of await renewals.runs())
    for (const { token, certificates, authority } of tokens)
      if (openToken(token, certificates, authorities).timestamp === undefined)
        missing.set(authority, [...(missing.get(authority) ?? []), number]);
  return Array.from(missing, ([authority, runs]) => ({
    detail: `renewal ${runs.join(', ')} is from ${authority}, whose root the configuration does not name: verifiers cannot tell what it proves`,
    remedy: putBack(authority),
  }));
}

/**
 * Describes time-stamps that expired before they were renewed, as of a time in milliseconds since the epoch. The store is still intact, and
 * restoring a backup does not help: the proof of the time of sealing is lost.
 */
export async function renewalLapses(
  store: Pick<Store, 'log' | 'renewals'>,
  authorities: readonly TrustedAuthority[],
  at: number,
): Promise<string[]> {
  const runs = await store.renewals.runs();
  const pathAt = pathsAt(runs, authorities, at);
  const firstLeaf = runs.at(-1)?.to ?? 0;
  const treeSize = (await store.log.head())?.treeSize ?? 0;
  const ranges = [...rangesOf(runs), ...(firstLeaf < treeSize ? [{ firstLeaf, treeSize }] : [])];
  const paths = ranges.map(pathAt);
  const ways = ranges.map((range, n) => runsOf(range, runs, paths[n] ?? []));
  const former = waysNow(runs);
  const standingOf = tokenStandings(authorities, theftsOf(runs));
  const found = runs.flatMap((run) => {
    const without = ranges.filter(({ treeSize }, n) => treeSize <= run.to && !ways[n]?.includes(run));
    const [first, last] = [without[0], without.at(-1)];
    if (first === undefined || last === undefined) return [];
    const isNew = without.some((range) => runsOf(range, runs, pathOf(former, range)).includes(run));
    const why = whyLeftOut(run.tokens.map(standingOf), runs[run.number]?.tokens.map(standingOf), at);
    const leaves = `the evidence records of leaves ${first.firstLeaf} to ${last.treeSize - 1} leave it out`;
    const remedy = isNew ? '; run `pdfseal renew`: it renews what can still be proven without it' : '';
    return [`renewal ${run.number} ${why}: ${leaves}${remedy}`];
  });
  // Checkpoints whose own time-stamps expired before the first renewal in their records: how many, the first of them, and since when.
  const lost = new Map<RenewalRun | undefined, { batches: number; leaf: number; since: number }>();
  const strengthOfBatch = byCertificates(authorities);
  for (const [n, range] of ranges.entries()) {
    const [first] = ways[n] ?? [];
    const token = first?.tokens[paths[n]?.[first.number - 1] ?? SKIPPED];
    const renewedAt = token ? standingOf(token).genTime : at;
    for await (const batch of batchesOf(store, range.firstLeaf, range.treeSize)) {
      const { notAfter } = strengthOfBatch(batch);
      if (notAfter === null || notAfter >= renewedAt) continue;
      const known = lost.get(first) ?? { batches: 0, leaf: batch.firstLeaf, since: notAfter };
      lost.set(first, { ...known, batches: known.batches + 1, since: Math.min(known.since, notAfter) });
    }
  }
  const words = Array.from(lost, ([first, { batches, leaf, since }]) => {
    const what = `the time-stamps of ${batches} checkpoints, the first from leaf ${leaf}, ended`;
    return first
      ? `${what} before renewal ${first.number}: no time-stamp proves any longer when these were sealed`
      : `${what} since ${toRfc3339(since)}, and no renewal proves them: run \`pdfseal renew\`, so that no more end; what witnesses cosigned still proves the order of the log`;
  });
  return [...found, ...words];
}

/** Why records skip these tokens of a run, phrased to follow its name. `next`: the tokens of the next run. */
function whyLeftOut(
  tokens: readonly TokenStanding[],
  next: readonly TokenStanding[] | undefined,
  at: number,
): string {
  if (tokens.every(({ doubt }) => doubt === 'stolen')) return 'is of a stolen key';
  const until = Math.max(...tokens.map((token) => token.until));
  const renewedAt = next ? Math.min(...next.map(({ genTime }) => genTime)) : at;
  return until < renewedAt
    ? `ended ${toRfc3339(until)}, before anything renewed it`
    : 'was made from a time-stamp that had ended, or with a stolen key';
}
