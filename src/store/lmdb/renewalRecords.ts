import type { Act } from '../../manifest/auditRecord.ts';
import { encodeRecord, parseRecord } from '../records.ts';
import {
  assertFollows,
  isDraftOf,
  isNewRow,
  isRunOfDraft,
  isSameDraft,
  type RenewalDraft,
  type RenewalRun,
  type RenewalScope,
  type RenewalStore,
  type RenewalSurvey,
  type RenewalTile,
} from '../renewalStore.ts';
import type { Change, Commits } from './commits.ts';
import type { Databases } from './databases.ts';
import { counterKey } from './keyLayout.ts';
import { logSize } from './logRecords.ts';
import type { TrailRecords } from './trailRecords.ts';

const RUNS = Buffer.from('run');
const ROWS = Buffer.from('row');
const DRAFT_KEY = Buffer.from('draft');
const SURVEY_KEY = Buffer.from('survey');

/** Renewals in the embedded store. */
export class RenewalRecords implements RenewalStore {
  readonly #databases: Databases;
  readonly #commits: Commits;
  readonly #trail: TrailRecords;

  constructor(databases: Databases, commits: Commits, trail: TrailRecords) {
    this.#databases = databases;
    this.#commits = commits;
    this.#trail = trail;
  }

  async runs(): Promise<RenewalRun[]> {
    this.#databases.root.resetReadTxn(); // another process commits them
    const range = { start: RUNS, end: runKey(Number.MAX_SAFE_INTEGER) };
    return Array.from(this.#databases.renewals.getRange(range), ({ value }, n) =>
      parseRecord<RenewalRun>(value, `renewal ${n + 1}`),
    );
  }

  async row(run: number, row: number): Promise<RenewalTile[] | undefined> {
    return this.#read<RenewalTile[]>(rowKey(run, row), `row ${row} of renewal ${run}`);
  }

  async draft(): Promise<RenewalDraft | undefined> {
    this.#databases.root.resetReadTxn(); // as of the runs
    return this.#read<RenewalDraft>(DRAFT_KEY, 'the draft of a renewal');
  }

  async keepDraft(draft: RenewalDraft, former: RenewalDraft | undefined): Promise<boolean> {
    const { renewals: database } = this.#databases;
    if (!isSameDraft(await this.draft(), former)) return false;
    const rows = Array.from(
      database.getKeys({ start: rowKey(draft.number, 0), end: rowKey(draft.number + 1, 0) }),
    );
    const removed: Change[] = isDraftOf(former, draft)
      ? []
      : rows.map((key) => ({ database, key: Buffer.from(key) }));
    const changes = [...removed, { database, key: DRAFT_KEY, value: encodeRecord(draft) }];
    return this.#commits.write({ changes, unless: [{ database, key: runKey(draft.number) }] });
  }

  async addRow(run: RenewalScope, row: number, tiles: readonly RenewalTile[]): Promise<boolean> {
    if (!isDraftOf(await this.draft(), run)) return false;
    const kept = await this.row(run.number, row);
    const before = row > 0 ? await this.row(run.number, row - 1) : undefined;
    if (!isNewRow(run, row, tiles, { kept, before })) return true;
    const { renewals: database } = this.#databases;
    await this.#write([{ database, key: rowKey(run.number, row), value: encodeRecord(tiles) }]);
    return true;
  }

  async commit(run: RenewalRun, act: Act | null): Promise<boolean> {
    const { renewals: database } = this.#databases;
    const runs = await this.runs();
    if (run.number <= runs.length || !isRunOfDraft(await this.draft(), run)) return false;
    const range = { start: rowKey(run.number, 0), end: rowKey(run.number + 1, 0) };
    const rows = database.getKeysCount(range);
    assertFollows(run, { runs, rows, logSize: logSize(this.#databases) });
    const key = runKey(run.number);
    return this.#trail.write(act, {
      unless: [{ database, key }],
      changes: [
        { database, key, value: encodeRecord(run) },
        { database, key: DRAFT_KEY },
        { database, key: SURVEY_KEY },
      ],
    });
  }

  async survey(): Promise<RenewalSurvey | undefined> {
    return this.#read<RenewalSurvey>(SURVEY_KEY, 'the survey of time-stamps');
  }

  async keepSurvey(survey: RenewalSurvey): Promise<void> {
    const { renewals: database } = this.#databases;
    await this.#write([{ database, key: SURVEY_KEY, value: encodeRecord(survey) }]);
  }

  #read<T>(key: Uint8Array, what: string): T | undefined {
    const bytes = this.#databases.renewals.getBinary(key);
    return bytes && parseRecord<T>(bytes, what);
  }

  async #write(changes: Change[]): Promise<void> {
    await this.#commits.write({ changes });
  }
}

function runKey(run: number): Buffer {
  return Buffer.concat([RUNS, counterKey(run)]);
}

function rowKey(run: number, row: number): Buffer {
  return Buffer.concat([ROWS, counterKey(run), counterKey(row)]);
}
