import { assert } from '../base/assert.ts';
import { toRfc3339 } from '../base/clock.ts';
import type { TrustedAuthority } from '../manifest/trustFile.ts';
import {
  type LeafRange,
  pathOf,
  type RenewalRun,
  rangesOf,
  renewedUntil,
  runsOf,
  SKIPPED,
} from '../store/renewalStore.ts';
import type { Store } from '../store/store.ts';
import { type TokenStanding, waysNow } from './renewalPath.ts';
import { judgeRenewal, makeRow, orderFault, rootOfRun, rootOfTiles } from './renewalRun.ts';
import { byCertificates, openToken, pathsAt, tokenStandings } from './renewalSurvey.ts';
import { batchesOf, RenewalTrees } from './renewals.ts';
import { theftsOf } from './thefts.ts';

/** Where the renewals do not follow from the log, or are no proof, in words. Every hash is computed again. */
export async function renewalProblems(
  store: Pick<Store, 'log' | 'renewals'>,
  authorities: readonly TrustedAuthority[],
  width?: number,
): Promise<string[]> {
  const runs = await store.renewals.runs();
  const trees = new RenewalTrees(store, runs, width);
  const problems: string[] = [];
  for (const run of runs) {
    const fault = (await shapeFault(store, run, runs)) ?? (await treeFault(store, run, trees));
    if (fault !== undefined) {
      // What follows was made of this.
      return [...problems, `renewal ${run.number} ${fault}: restore a backup`];
    }
    const root = rootOfRun(trees, run, run.rows);
    for (const token of run.tokens) {
      const judged = judgeRenewal(token, { scope: run, root }, authorities);
      const found = 'fault' in judged ? judged.fault : await orderFault(store, run, judged.timestamp.genTime);
      if (found === undefined) continue;
      const remedy =
        'isUntrusted' in judged && judged.isUntrusted
          ? `; no backup mends this: ${putBack(token.authority)}`
          : '';
      problems.push(`the token of ${token.authority} in renewal ${run.number}: ${found}${remedy}`);
    }
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
  if (![path, ...older.map((one) => one.path)].every(isPath)) return 'goes on with a token that is not there';
  if (from !== renewedUntil(before, run) || to < (before.at(-1)?.to ?? 0))
    return 'does not follow the one before';
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

/** What puts the root of an authority back among those that are trusted. */
function putBack(authority: string): string {
  return `put the authority back into the configuration: [timestamp.remotes.${authority}] with its roots_file, and no url; older trust files have the root`;
}

/**
 * Authorities of renewals whose root is not among these, in words, each with the remedy. Verifiers need that root. The store does not keep it
 * by itself: a root that anybody who can write to the store could add would be no reason to trust.
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
    detail: `renewal ${runs.join(', ')} is of ${authority}, whose root the configuration does not name: verifiers cannot tell what it proves`,
    remedy: putBack(authority),
  }));
}

/**
 * Where time-stamps ended before they were renewed, in words. The store is whole all the same, and no backup mends it: lost is the proof of
 * when something was sealed.
 */
export async function renewalLapses(
  store: Pick<Store, 'log' | 'renewals'>,
  authorities: readonly TrustedAuthority[],
): Promise<string[]> {
  const runs = await store.renewals.runs();
  const path = pathNow(runs);
  const tokens = runs.map((run, n) => run.tokens[path[n] ?? SKIPPED]);
  const found = new Set(leftOut(runs));
  const strengthOfBatch = byCertificates(authorities);
  for (const [n, { to }] of runs.entries()) {
    const range = { firstLeaf: runs[n - 1]?.to ?? 0, treeSize: to };
    const records = runsOf(range, runs, path).map(({ number }) => {
      const token = tokens[number - 1];
      assert(token, `renewal ${number} has no token`);
      return { number, ...tokenStandings(authorities)(token) };
    });
    for (const [n, { number, until }] of records.entries()) {
      const next = records[n + 1];
      if (next && until < next.genTime)
        found.add(
          `renewal ${number} ended ${toRfc3339(until)}, before renewal ${next.number}: it proves nothing any more, and the next renewal leaves it out`,
        );
    }
    const [first] = records;
    const lost = { batches: 0, leaf: 0 };
    if (first === undefined) continue;
    for await (const batch of batchesOf(store, range.firstLeaf, to)) {
      const { notAfter } = strengthOfBatch(batch);
      if (notAfter === null || notAfter >= first.genTime) continue;
      if (lost.batches === 0) lost.leaf = batch.firstLeaf;
      lost.batches += 1;
    }
    if (lost.batches > 0)
      found.add(
        `the time-stamps of ${lost.batches} checkpoints, the first from leaf ${lost.leaf}, ended before renewal ${first.number}: no time-stamp proves any more when these were sealed`,
      );
  }
  return [...found];
}

function leftOut(runs: readonly RenewalRun[]): string[] {
  return runs.flatMap(({ number }, n) => {
    const next = runs.find(({ path }) => path[n] === SKIPPED);
    return next && runs.at(-1)?.path[n] === SKIPPED
      ? [
          `renewal ${number} had ended, or its key was stolen, before renewal ${next.number}: evidence records leave it out`,
        ]
      : [];
  });
}
