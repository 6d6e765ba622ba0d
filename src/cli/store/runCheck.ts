import { OperatorError } from '../../base/errors.ts';
import type { Config } from '../../config/config.ts';
import { STRANGER_REMEDY, strangersOf, trustOfStore } from '../../config/trustAnchors.ts';
import type { TrustFile } from '../../manifest/trustFile.ts';
import { examineEpochs } from '../../prove/epochs/epochSeal.ts';
import {
  type EarlierState,
  type EpochCheckpoint,
  epochContradiction,
  readEarlier,
  signedCheckpoint,
} from '../../prove/trail/history.ts';
import type { Store } from '../../store/store.ts';
import { note, print, showProgress } from '../terminal.ts';
import { checkStore } from './storeCheck.ts';
import { flawCount, isWhole, type StoreReport } from './storeReport.ts';

/** Maximum number of problems printed one by one; the rest are counted. */
const PROBLEMS_SHOWN_MAX = 20;

/** Checks the store, and shows progress on a terminal. The log must extend what `against` shows. */
export async function runCheck(store: Store, config: Config, against?: EarlierState): Promise<StoreReport> {
  const trust = await trustOfStore(store, config);
  const earlier = against && (await earlierOf(store, against, trust));
  const head = await store.log.head();
  using progress = showProgress('checking', head?.treeSize ?? 0, 'leaves');
  const report = await checkStore(store, {
    trust,
    earlier,
    problemsMax: PROBLEMS_SHOWN_MAX,
    onLeaves: progress.update,
    onPart: (part) => progress.rename(`checking ${part}`),
  });
  // Missing signatures on the newest checkpoint are found with its receipts.
  const now = head && signedCheckpoint(head.checkpoint, trust.logs);
  const contradiction = earlier && typeof now === 'object' ? epochContradiction(earlier, now) : undefined;
  const roots = (await strangersOf(store, config)).map((stranger) => `${stranger}; ${STRANGER_REMEDY}`);
  const problems = [...(contradiction === undefined ? [] : [`${contradiction}: restore a backup`]), ...roots];
  return withProblems(report, problems);
}

/** Adds to a report problems that were found separately. */
export function withProblems(report: StoreReport, problems: readonly string[]): StoreReport {
  return {
    ...report,
    problemCount: report.problemCount + problems.length,
    problems: [...report.problems, ...problems],
  };
}

/** Undefined if forged epochs are the reason why no key of the log signed it: the report names them. */
async function earlierOf(
  store: Store,
  against: EarlierState,
  trust: TrustFile,
): Promise<EpochCheckpoint | undefined> {
  try {
    return readEarlier(against, trust);
  } catch (error) {
    if (!(error instanceof OperatorError) || (await examineEpochs(store)).problems.length === 0) throw error;
    return undefined;
  }
}

/** `doubt`: the reason why a good report does not show whether the log is complete. */
export function printReport(report: StoreReport, doubt?: string): void {
  const { leaves, batches, completed, failed, waiting, problems, problemCount, flaws, indexes } = report;
  for (const line of [...problems, ...flaws]) note(`pdfseal: ${line}`);
  const flawed = indexes === undefined ? 0 : flawCount(indexes);
  const hidden = problemCount - problems.length + flawed - flaws.length;
  if (hidden > 0) note(`pdfseal: and ${hidden} more`);
  print(
    `${leaves} leaves in ${batches} checkpoints; jobs: ${completed} completed, ${failed} failed, ${waiting} waiting`,
  );
  for (const line of report.signers_unknown ?? [])
    print(`could not tell whether the store is older than what its signers remember: ${line}`);
  if (report.epochs === 'contradicted')
    print(`bad: the epochs are not those that the log sealed; run \`pdfseal epochs repair\``);
  else if (report.records_missing !== undefined) {
    print(
      `bad: ${problemCount} problems; audit records were removed, and no command brings them back: see "Forged epochs" in the manual, recovery.html`,
    );
  } else if (problemCount > 0) {
    const remedy =
      indexes === undefined
        ? 'restore a backup, and find the cause (the indexes were not checked)'
        : 'do what the lines above say, and find the cause';
    print(`bad: ${problemCount} problems; ${remedy}`);
  } else if (flawed > 0) print(`bad: ${flawed} entries of indexes; run \`pdfseal repair-index\``);
  else print(doubt === undefined ? 'good' : `could not tell: ${doubt}`);
  for (const line of [...(report.void_records ?? []), ...(report.lapses ?? [])]) note(`pdfseal: ${line}`);
}

export function reportJson(report: StoreReport, doubt?: string) {
  const { problemCount, problems, indexes = null, flaws, ...counts } = report;
  const outcome = !isWhole(report) ? 'bad' : doubt === undefined ? 'good' : 'unknown';
  return {
    outcome,
    doubt,
    ...counts,
    problem_count: problemCount,
    problems,
    indexes,
    flaws,
  };
}
