import { assert } from '../base/assert.ts';
import type { DigestName } from '../base/crypto.ts';
import type { Act } from '../manifest/auditRecord.ts';

/**
 * Renewals of time-stamps (RFC 4998, section 5). Runs are appended, never replaced or removed. One process drafts a run at a time, while
 * the daemon runs: if two do, the draft that is kept last continues, and the other process is notified. `test/store/renewalContract.ts` is
 * the executable form of this contract.
 */
export interface RenewalStore {
  /** Every committed run by any process, oldest first. */
  runs(): Promise<RenewalRun[]>;

  /** A row of a run, or of the draft: at most {@link TREE_WIDTH} tiles. Undefined if it does not exist. */
  row(run: number, row: number): Promise<RenewalTile[] | undefined>;

  draft(): Promise<RenewalDraft | undefined>;

  /**
   * Stores the draft of the next run in place of `former`, the draft that the caller read; undefined: no draft. Rows stay only if their run
   * is the same: see {@link isSameRun}. Returns false and writes nothing if a run of that number exists, or if another process has changed
   * the draft since.
   */
  keepDraft(draft: RenewalDraft, former: RenewalDraft | undefined): Promise<boolean>;

  /**
   * Adds a row to the draft of that run. Returns false and writes nothing if the draft is of another run, or missing. An existing row
   * stays, since all processes that draft the run make the same. Throws BrokenInvariant if it is different, or if the row before is
   * missing.
   */
  addRow(run: RenewalScope, row: number, tiles: readonly RenewalTile[]): Promise<boolean>;

  /**
   * One transaction: the run, and the record of the act; draft and survey are removed. Returns false and writes nothing if a run of that
   * number exists, if the draft is of another run, or missing, or if it has other thefts. Throws BrokenInvariant for a run that does not
   * follow the newest one and its own draft.
   */
  commit(run: RenewalRun, act: Act | null): Promise<boolean>;

  survey(): Promise<RenewalSurvey | undefined>;

  keepSurvey(survey: RenewalSurvey): Promise<void>;
}

/** The hash functions that a run may use. */
export const RENEWAL_DIGESTS = ['sha512', 'sha384'] as const satisfies readonly DigestName[];

/** Number of batches in a tile, and of tiles in a row, except the last. */
export const TREE_WIDTH = 256;

/** Takes the place of a token: evidence records skip the run. */
export const SKIPPED = -1;

/** The ways of evidence records through runs. */
export interface RenewalWays {
  /** For each run the index of the token with which records go on, or {@link SKIPPED}. */
  path: number[];
  /** Different paths of older batches: each applies up to tree size `to`. Ascending; absent if there are none. */
  older?: { to: number; path: number[] }[];
}

/** The parameters that decide every hash of a run; its ways are those through earlier runs. */
export interface RenewalScope extends RenewalWays {
  /** From 1, without gaps. */
  number: number;
  digest: DigestName;
  /** Batches from leaf index `from` to tree size `to` have a leaf of their own in the tree of the run. */
  from: number;
  to: number;
}

/** A theft of an authority's key: nothing that it signed from then on proves anything, whatever time it states. */
export interface KeptTheft {
  /** Root of the authority: Base64 DER. */
  root: string;
  /** Milliseconds since the epoch. */
  since: number;
}

/** A run in preparation. */
export interface RenewalDraft extends RenewalScope {
  /** Time at which it was begun, milliseconds since the epoch. */
  at: number;
  /** The nonce (hex) of a query that a person carries to an authority. */
  nonce?: string;
  /** Answers of authorities so far, if several are needed. */
  tokens?: RenewalToken[];
  /** Thefts that became known since the previous run: time-stamps of these authorities are not accepted. */
  thefts?: KeptTheft[];
}

/** A committed run: a hash tree, and time-stamps over its root. */
export interface RenewalRun extends RenewalScope {
  rows: RenewalTile[];
  /** Time-stamps over the root of the run's tree; one for each authority. */
  tokens: RenewalToken[];
  /** Thefts as in the draft. They stay known, so that no later record goes on with a time-stamp that they made worthless. */
  thefts?: KeptTheft[];
}

/** Token and certificates, in the form of a batch. */
export interface RenewalToken {
  /** Name of the authority in the configuration. */
  authority: string;
  token: string;
  certificates: string[];
}

/** A part of a run's tree. */
export interface RenewalTile {
  /** Index in the log of the first leaf of its first batch. */
  first: number;
  /** Its root hash, Base64. */
  root: string;
}

/**
 * The validity of the time-stamps that no run has renewed. It is a hint, always recomputed from the log, and was made under the
 * configuration of its time.
 */
export interface RenewalSurvey {
  /** The surveyed batches. */
  from: number;
  to: number;
  groups: SurveyGroup[];
}

/** Batches whose time-stamps are made alike, and end together. */
export interface SurveyGroup {
  /** The digest of the imprint, and the signature algorithms from the token to the root; empty if batches have no time-stamp. */
  digest: DigestName;
  signatures: string[];
  /** The first end of their certificates, milliseconds since the epoch; null if there is none, or none that is trusted. */
  notAfter: number | null;
  /** Leaf index at which the first of them begins. */
  leaf: number;
  batches: number;
}

/** Whether rows that were drafted for one run serve the other. */
export function isSameRun(a: RenewalScope, b: RenewalScope): boolean {
  const of = ({ number, digest, from, to, path, older = [] }: RenewalScope) =>
    JSON.stringify([number, digest, from, to, path, older.map((one) => [one.to, one.path])]);
  return of(a) === of(b);
}

/** Adjacent batches: leaf index of the first leaf, and tree size after the last one. */
export interface LeafRange {
  firstLeaf: number;
  treeSize: number;
}

/** The path of the records of these batches. */
export function pathOf({ path, older }: RenewalWays, { treeSize }: LeafRange): number[] {
  return older?.find(({ to }) => treeSize <= to)?.path ?? path;
}

/**
 * The runs in the records of these batches, oldest first. A run carries the time-stamps of the run before, or it has a leaf for each
 * checkpoint: then records come to it as its own path says.
 */
export function runsOf<Run extends RenewalScope>(
  { firstLeaf, treeSize }: LeafRange,
  runs: readonly Run[],
  path: readonly number[],
): Run[] {
  const found: Run[] = [];
  for (const [index, chosen] of path.entries()) {
    const run = runs[index];
    assert(run, `renewal ${index + 1} is gone`);
    const isReached = firstLeaf >= run.from || found.at(-1)?.number === run.number - 1;
    if (treeSize <= run.to && chosen !== SKIPPED && isReached) found.push(run);
  }
  return found;
}

/** Batches that the same runs cover, oldest first: each range has those that were sealed between two runs. */
export function rangesOf(runs: readonly RenewalScope[]): LeafRange[] {
  return runs
    .map(({ to }, n) => ({ firstLeaf: runs[n - 1]?.to ?? 0, treeSize: to }))
    .filter(({ firstLeaf, treeSize }) => firstLeaf < treeSize);
}

/**
 * The first leaf of the next run: after those that earlier runs cover. 0 if the digest changes, or if any records do not go on with the
 * last run: then each checkpoint has a leaf of its own again.
 */
export function renewedUntil(
  runs: readonly RenewalScope[],
  { digest, ...ways }: Pick<RenewalScope, 'digest'> & RenewalWays,
): number {
  const last = runs.at(-1);
  const goesOn = rangesOf(runs).every((range) => runsOf(range, runs, pathOf(ways, range)).at(-1) === last);
  return last?.digest === digest && goesOn ? last.to : 0;
}

/** Whether the draft is of that run: another process may have begun another one. */
export function isDraftOf(draft: RenewalDraft | undefined, run: RenewalScope): draft is RenewalDraft {
  return draft !== undefined && isSameRun(draft, run);
}

/** Whether the draft is still the one that was read. */
export function isSameDraft(a: RenewalDraft | undefined, b: RenewalDraft | undefined): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

/**
 * Whether the run matches the draft completely: another process may have added a theft, after which a time-stamp of the run may be
 * worthless.
 */
export function isRunOfDraft(draft: RenewalDraft | undefined, run: RenewalRun): boolean {
  const of = ({ thefts = [] }: RenewalDraft | RenewalRun) => JSON.stringify(thefts);
  return isDraftOf(draft, run) && of(draft) === of(run);
}

/** The store's content before a row is added: the row in that place, and the one before it. */
export interface BeforeRow {
  kept: readonly RenewalTile[] | undefined;
  before: readonly RenewalTile[] | undefined;
}

/** Whether the row must be written. Throws BrokenInvariant if it differs from an existing one, or would leave a gap. */
export function isNewRow(
  { number }: RenewalScope,
  row: number,
  tiles: readonly RenewalTile[],
  { kept, before }: BeforeRow,
): boolean {
  assert(row === 0 || before, `renewal ${number} has no row ${row - 1}`);
  if (kept === undefined) return true;
  assert(JSON.stringify(kept) === JSON.stringify(tiles), `renewal ${number} has another row ${row}`);
  return false;
}

/** The store's content before a run is committed. */
export interface BeforeRun {
  runs: readonly RenewalRun[];
  /** Number of rows of the draft. */
  rows: number;
  logSize: number;
}

/** Throws BrokenInvariant unless the run follows from the newest one and its own rows. */
export function assertFollows(run: RenewalRun, { runs, rows, logSize }: BeforeRun): void {
  const last = runs.at(-1);
  assert(run.number === runs.length + 1, `renewal ${run.number} follows renewal ${runs.length}`);
  assert(run.to >= (last?.to ?? 0) && run.to <= logSize, 'a renewal ends with the log');
  const paths = [run.path, ...(run.older ?? []).map(({ path }) => path)];
  assert(
    paths.every(({ length }) => length === runs.length),
    `renewal ${run.number} has no path`,
  );
  assert(run.from === renewedUntil(runs, run), `renewal ${run.number} leaves out batches`);
  assert(run.tokens.length > 0, `renewal ${run.number} has no time-stamp`);
  assert(rows === run.rows.length, `renewal ${run.number} has ${rows} rows, not ${run.rows.length}`);
}
