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
import { type Database, type Queries, statements } from './database.ts';
import { putNote, readNote, removeNotes } from './notes.ts';
import { lockRevision } from './revisions.ts';
import type { TrailTable } from './trailTable.ts';
import type { Writes } from './writes.ts';

const SQL = statements({
  renewals: 'SELECT record FROM renewals ORDER BY run',
  renewal_row: 'SELECT record FROM renewal_rows WHERE run = $1 AND row = $2',
  renewal_counts:
    'SELECT tree_size, (SELECT count(*) FROM renewal_rows WHERE run = $1) AS rows FROM log_head',
  add_renewal: 'INSERT INTO renewals VALUES ($1, $2)',
  add_renewal_row: 'INSERT INTO renewal_rows VALUES ($1, $2, $3)',
  forget_renewal_rows: 'DELETE FROM renewal_rows WHERE run = $1',
});

export function renewalTable(database: Database, writes: Writes, trail: TrailTable): RenewalStore {
  return {
    runs: async () => allRuns(database),
    row: async (run, row) => readRow(database, run, row),
    draft: async () => readDraft(database),

    async keepDraft(draft, former) {
      return trail.acting(null, async (queries) => {
        await lockRevision(queries, 'renewals');
        if (draft.number <= (await allRuns(queries)).length) return false;
        if (!isSameDraft(await readDraft(queries), former)) return false;
        if (!isDraftOf(former, draft)) await queries.rows(SQL.forget_renewal_rows, [draft.number]);
        await putNote(queries, 'renewal_draft', encodeRecord(draft));
        return true;
      });
    },

    async addRow(run, row, tiles) {
      return trail.acting(null, async (queries) => {
        await lockRevision(queries, 'renewals');
        if (!isDraftOf(await readDraft(queries), run)) return false;
        const { number } = run;
        const [kept, before] = [await readRow(queries, number, row), await readRow(queries, number, row - 1)];
        if (isNewRow(run, row, tiles, { kept, before }))
          await queries.rows(SQL.add_renewal_row, [number, row, encodeRecord(tiles)]);
        return true;
      });
    },

    async commit(run, act) {
      return trail.acting(act, async (queries) => {
        await lockRevision(queries, 'renewals');
        const runs = await allRuns(queries);
        if (run.number <= runs.length || !isRunOfDraft(await readDraft(queries), run)) return false;
        const [counts] = await queries.rows<{ tree_size: number; rows: number }>(SQL.renewal_counts, [
          run.number,
        ]);
        const { rows = 0, tree_size: logSize = 0 } = counts ?? {};
        assertFollows(run, { runs, rows, logSize });
        await queries.rows(SQL.add_renewal, [run.number, encodeRecord(run)]);
        await removeNotes(queries, ['renewal_draft', 'renewal_survey']);
        await trail.record(queries, act);
        return true;
      });
    },

    async survey() {
      const bytes = await readNote(database, 'renewal_survey');
      return bytes && parseRecord<RenewalSurvey>(bytes, 'the survey of time-stamps');
    },

    async keepSurvey(survey) {
      await writes.run((queries) => putNote(queries, 'renewal_survey', encodeRecord(survey)));
    },
  };
}

async function allRuns(queries: Queries): Promise<RenewalRun[]> {
  const rows = await queries.rows<{ record: Buffer }>(SQL.renewals);
  return rows.map(({ record }, n) => parseRecord<RenewalRun>(record, `renewal ${n + 1}`));
}

async function readRow(queries: Queries, run: number, row: number): Promise<RenewalTile[] | undefined> {
  const [found] = await queries.rows<{ record: Buffer }>(SQL.renewal_row, [run, row]);
  return found && parseRecord<RenewalTile[]>(found.record, `row ${row} of renewal ${run}`);
}

async function readDraft(queries: Queries): Promise<RenewalDraft | undefined> {
  const bytes = await readNote(queries, 'renewal_draft');
  return bytes && parseRecord<RenewalDraft>(bytes, 'the draft of a renewal');
}
