import { encodeRecord, parseRecord } from '../records.ts';
import {
  assertFollows,
  isDraftOf,
  isNewRow,
  isRunOfDraft,
  isSameDraft,
  type RenewalDraft,
  type RenewalRun,
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

export function renewalRecords(databases: Databases, commits: Commits, trail: TrailRecords): RenewalStore {
  async function readRuns(): Promise<RenewalRun[]> {
    databases.root.resetReadTxn(); // another process commits them
    const range = { start: RUNS, end: runKey(Number.MAX_SAFE_INTEGER) };
    return Array.from(databases.renewals.getRange(range), ({ value }, n) =>
      parseRecord<RenewalRun>(value, `renewal ${n + 1}`),
    );
  }

  async function readRow(run: number, row: number): Promise<RenewalTile[] | undefined> {
    return read<RenewalTile[]>(rowKey(run, row), `row ${row} of renewal ${run}`);
  }

  async function readDraft(): Promise<RenewalDraft | undefined> {
    databases.root.resetReadTxn(); // as of the runs
    return read<RenewalDraft>(DRAFT_KEY, 'the draft of a renewal');
  }

  function read<T>(key: Uint8Array, what: string): T | undefined {
    const bytes = databases.renewals.getBinary(key);
    return bytes && parseRecord<T>(bytes, what);
  }

  async function write(changes: Change[]): Promise<void> {
    await commits.write({ changes });
  }

  return {
    runs: readRuns,
    row: readRow,
    draft: readDraft,

    async keepDraft(draft, former) {
      const { renewals: database } = databases;
      if (!isSameDraft(await readDraft(), former)) return false;
      const rows = Array.from(
        database.getKeys({ start: rowKey(draft.number, 0), end: rowKey(draft.number + 1, 0) }),
      );
      const removed: Change[] = isDraftOf(former, draft)
        ? []
        : rows.map((key) => ({ database, key: Buffer.from(key) }));
      const changes = [...removed, { database, key: DRAFT_KEY, value: encodeRecord(draft) }];
      return commits.write({ changes, unless: [{ database, key: runKey(draft.number) }] });
    },

    async addRow(run, row, tiles) {
      if (!isDraftOf(await readDraft(), run)) return false;
      const kept = await readRow(run.number, row);
      const before = row > 0 ? await readRow(run.number, row - 1) : undefined;
      if (!isNewRow(run, row, tiles, { kept, before })) return true;
      const { renewals: database } = databases;
      await write([{ database, key: rowKey(run.number, row), value: encodeRecord(tiles) }]);
      return true;
    },

    async commit(run, act) {
      const { renewals: database } = databases;
      const runs = await readRuns();
      if (run.number <= runs.length || !isRunOfDraft(await readDraft(), run)) return false;
      const range = { start: rowKey(run.number, 0), end: rowKey(run.number + 1, 0) };
      const rows = database.getKeysCount(range);
      assertFollows(run, { runs, rows, logSize: logSize(databases) });
      const key = runKey(run.number);
      return trail.write(act, {
        unless: [{ database, key }],
        changes: [
          { database, key, value: encodeRecord(run) },
          { database, key: DRAFT_KEY },
          { database, key: SURVEY_KEY },
        ],
      });
    },

    survey: async () => read<RenewalSurvey>(SURVEY_KEY, 'the survey of time-stamps'),

    async keepSurvey(survey) {
      const { renewals: database } = databases;
      await write([{ database, key: SURVEY_KEY, value: encodeRecord(survey) }]);
    },
  };
}

function runKey(run: number): Buffer {
  return Buffer.concat([RUNS, counterKey(run)]);
}

function rowKey(run: number, row: number): Buffer {
  return Buffer.concat([ROWS, counterKey(run), counterKey(row)]);
}
