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
   * Keeps the draft of the next run. Rows stay only if the run that they are of is the same: see {@link isSameRun}. Returns false and writes
   * nothing when a run of that number exists.
   */
  keepDraft(draft: RenewalDraft): Promise<boolean>;

  /**
   * Adds a row to the draft of that run. Returns false and writes nothing when the draft is of another run, or of none. A row that is there
   * stays, since all who draft the run make the same. Throws BrokenInvariant where that is not so, and where the row before is not there.
   */
  addRow(run: RenewalScope, row: number, tiles: readonly RenewalTile[]): Promise<boolean>;

  /**
   * One transaction: the run, and the record of the act; draft and survey are removed. Returns false and writes nothing when a run of that
   * number exists, or the draft is of another run, or of none. Throws BrokenInvariant for a run that does not follow the newest one and its own
   * draft.
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

/** What decides every hash of a run. */
export interface RenewalScope {
  /** From 1, without gaps. */
  number: number;
  digest: DigestName;
  /** Batches from leaf index `from` to tree size `to` have a leaf of their own in the tree of the run. */
  from: number;
  to: number;
  /** For each earlier run the index of the token with which evidence records go on, or {@link SKIPPED}. */
  path: number[];
}

/** A run that is being drafted. */
export interface RenewalDraft extends RenewalScope {
  /** When it was begun, milliseconds since the epoch. */
  at: number;
  /** The nonce (hex) of a query that somebody carries to an authority. */
  nonce?: string;
  /** What authorities answered so far, where several are needed. */
  tokens?: RenewalToken[];
  /** Base64 DER of the root whose time-stamps are not taken, since its key was stolen. */
  distrusted?: string;
}

/** A committed run: a hash tree, and time-stamps over its root. */
export interface RenewalRun extends RenewalScope {
  rows: RenewalTile[];
  /** Each over the root of the run's tree; one for each authority. */
  tokens: RenewalToken[];
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
  const of = ({ number, digest, from, to, path }: RenewalScope) => [number, digest, from, to, ...path].join();
  return of(a) === of(b);
}

/**
 * Where the leaves of the next run begin: after those that earlier runs cover. At 0 if the digest changes, or if records leave out a run with
 * which they went on so far: then each checkpoint has a leaf of its own again.
 */
export function renewedUntil(
  runs: readonly RenewalScope[],
  { digest, path }: Pick<RenewalScope, 'digest' | 'path'>,
): number {
  const last = runs.at(-1);
  const isLeftOut = path.some((chosen, index) => chosen === SKIPPED && last?.path[index] !== SKIPPED);
  return last?.digest === digest && !isLeftOut ? last.to : 0;
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
