import { assert } from '../base/assert.ts';
import type { DigestName } from '../base/crypto.ts';
import type { Act } from '../manifest/auditRecord.ts';

/**
 * Renewals of time-stamps (RFC 4998, section 5). Runs are appended, never replaced or removed. One process drafts a run at a time, beside the
 * daemon: where two do, the draft that is kept last goes on, and the other process is told. `test/store/renewalContract.ts` is the executable form of this contract.
 */
export interface RenewalStore {
  /** Every committed run by any process, oldest first. */
  runs(): Promise<RenewalRun[]>;

  /** A row of a run, or of the draft: at most {@link TREE_WIDTH} tiles. Undefined where there is none. */
  row(run: number, row: number): Promise<RenewalTile[] | undefined>;

  draft(): Promise<RenewalDraft | undefined>;

  /**
   * Keeps the draft of the next run in the place of `former`, the draft that the caller read; undefined: of none. Rows stay only if the run that
   * they are of is the same: see {@link isSameRun}. Returns false and writes nothing when a run of that number exists, and when another process
   * has changed the draft since.
   */
  keepDraft(draft: RenewalDraft, former: RenewalDraft | undefined): Promise<boolean>;

  /**
   * Adds a row to the draft of that run. Returns false and writes nothing when the draft is of another run, or of none. A row that is there
   * stays, since all who draft the run make the same. Throws BrokenInvariant where that is not so, and where the row before is not there.
   */
  addRow(run: RenewalScope, row: number, tiles: readonly RenewalTile[]): Promise<boolean>;

  /**
   * One transaction: the run, and the record of the act; draft and survey are removed. Returns false and writes nothing when a run of that
   * number exists, when the draft is of another run, or of none, and when it has other thefts. Throws BrokenInvariant for a run that does not
   * follow the newest one and its own draft.
   */
  commit(run: RenewalRun, act: Act | null): Promise<boolean>;

  survey(): Promise<RenewalSurvey | undefined>;

  keepSurvey(survey: RenewalSurvey): Promise<void>;
}

/** The hash functions that a run may use. */
export const RENEWAL_DIGESTS = ['sha512', 'sha384'] as const satisfies readonly DigestName[];

/** A tile covers so many batches, and a row so many tiles, except the last. */
export const TREE_WIDTH = 256;

/** In the place of a token: evidence records go on without the run. */
export const SKIPPED = -1;

/** The ways of evidence records through runs. */
export interface RenewalWays {
  /** For each run the index of the token with which records go on, or {@link SKIPPED}. */
  path: number[];
  /** The paths of older batches that take another one: each of those up to tree size `to`. Ascending; absent where there are none. */
  older?: { to: number; path: number[] }[];
}

/** What decides every hash of a run; its ways are those through earlier runs. */
export interface RenewalScope extends RenewalWays {
  /** From 1, without gaps. */
  number: number;
  digest: DigestName;
  /** Batches from leaf index `from` to tree size `to` have a leaf of their own in the tree of the run. */
  from: number;
  to: number;
}

/** The key of an authority was stolen: nothing that it signed from then on proves anything, whatever time is in it. */
export interface KeptTheft {
  /** Its root: Base64 DER. */
  root: string;
  /** Milliseconds since the epoch. */
  since: number;
}

/** A run that is being drafted. */
export interface RenewalDraft extends RenewalScope {
  /** When it was begun, milliseconds since the epoch. */
  at: number;
  /** The nonce (hex) of a query that somebody carries to an authority. */
  nonce?: string;
  /** What authorities answered so far, where several are needed. */
  tokens?: RenewalToken[];
  /** What became known of thefts since the run before: of these authorities, no time-stamp is taken. */
  thefts?: KeptTheft[];
}

/** A committed run: a hash tree, and time-stamps over its root. */
export interface RenewalRun extends RenewalScope {
  rows: RenewalTile[];
  /** Each over the root of the run's tree; one for each authority. */
  tokens: RenewalToken[];
  /** As in the draft. A theft stays known, so that no later record goes on with what it made worthless. */
  thefts?: KeptTheft[];
}

/** Token and certificates as of a batch. */
export interface RenewalToken {
  /** Name of the authority in the configuration. */
  authority: string;
  token: string;
  certificates: string[];
}

/** A part of a run's tree. */
export interface RenewalTile {
  /** The first leaf, in the log, of its first batch. */
  first: number;
  /** Its root hash, Base64. */
  root: string;
}

/**
 * How long the time-stamps hold that no run has renewed. It is a hint: it is always made again from the log. It was made under the
 * configuration of its time.
 */
export interface RenewalSurvey {
  /** The batches that were looked at. */
  from: number;
  to: number;
  groups: SurveyGroup[];
}

/** Batches whose time-stamps are made alike, and end together. */
export interface SurveyGroup {
  /** The digest of the imprint, and the signature algorithms from the token to the root; empty where batches have no time-stamp. */
  digest: DigestName;
  signatures: string[];
  /** When the first of their certificates ends, milliseconds since the epoch; null where there is none, or none that is trusted. */
  notAfter: number | null;
  /** Leaf index where the first of them begins. */
  leaf: number;
  batches: number;
}

/** Whether rows that were drafted for one serve the other. */
export function isSameRun(a: RenewalScope, b: RenewalScope): boolean {
  const of = ({ number, digest, from, to, path, older = [] }: RenewalScope) =>
    JSON.stringify([number, digest, from, to, path, older.map((one) => [one.to, one.path])]);
  return of(a) === of(b);
}

/** Batches side by side: leaf index of the first leaf, and tree size after the last one. */
export interface LeafRange {
  firstLeaf: number;
  treeSize: number;
}

/** The path of the records of these batches. */
export function pathOf({ path, older }: RenewalWays, { treeSize }: LeafRange): number[] {
  return older?.find(({ to }) => treeSize <= to)?.path ?? path;
}

/**
 * The runs in the records of these batches, oldest first. A run carries the time-stamps of the run before, or it has a leaf for each checkpoint:
 * then records come to it as its own path says.
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

/** Batches that the same runs cover, oldest first: each range is of those that were sealed between two runs. */
export function rangesOf(runs: readonly RenewalScope[]): LeafRange[] {
  return runs
    .map(({ to }, n) => ({ firstLeaf: runs[n - 1]?.to ?? 0, treeSize: to }))
    .filter(({ firstLeaf, treeSize }) => firstLeaf < treeSize);
}

/**
 * Where the leaves of the next run begin: after those that earlier runs cover. At 0 if the digest changes, or if records of anything do not go
 * on with the last run: then each checkpoint has a leaf of its own again.
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

/** Whether the run is all that the draft says: another process may have added a theft, after which a time-stamp of the run may be worthless. */
export function isRunOfDraft(draft: RenewalDraft | undefined, run: RenewalRun): boolean {
  const of = ({ thefts = [] }: RenewalDraft | RenewalRun) => JSON.stringify(thefts);
  return isDraftOf(draft, run) && of(draft) === of(run);
}

/** What a store has when a row is to be added: the row that is in that place, and the one before it. */
export interface BeforeRow {
  kept: readonly RenewalTile[] | undefined;
  before: readonly RenewalTile[] | undefined;
}

/** Whether the row is to be written. Throws BrokenInvariant for another one than is there, and for one that leaves a gap. */
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

/** What a store has when a run is to be committed. */
export interface BeforeRun {
  runs: readonly RenewalRun[];
  /** How many rows of the draft. */
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
