import { idOf, LEAST_UUID, ownUuid, uuidOf } from '../ids.ts';
import { parseRecord } from '../records.ts';
import type { CopyStore, JobCopy, StoredCopy } from '../store.ts';
import { type Database, statements } from './database.ts';
import type { Writes } from './writes.ts';

interface CopyRow {
  job_id: string;
  record: Buffer;
}

const SQL = statements({
  get_copy: 'SELECT job_id, record FROM copies WHERE job_id = $1',
  all_copies: 'SELECT job_id, record FROM copies WHERE job_id > $1 ORDER BY job_id LIMIT $2',
  forget_copies: 'DELETE FROM copies WHERE job_id = ANY ($1::uuid[])',
});

/** Locations of the copies of documents, by job. */
export function copyTable(database: Database, writes: Writes): CopyStore {
  return {
    async get(jobId) {
      const id = uuidOf('job', jobId);
      if (id === undefined) return undefined;
      const [row] = await database.rows<CopyRow>(SQL.get_copy, [id]);
      return row && parse(row).copy;
    },

    async *all() {
      for await (const row of database.pages<CopyRow>(SQL.all_copies, ({ job_id }) => job_id, LEAST_UUID))
        yield parse(row);
    },

    async forget(jobIds) {
      await writes.run((queries) =>
        queries.rows(SQL.forget_copies, [jobIds.map((id) => ownUuid('job', id))]),
      );
    },
  };
}

function parse({ job_id, record }: CopyRow): JobCopy {
  const jobId = idOf('job', job_id);
  return { jobId, copy: parseRecord<StoredCopy>(record, `the copy of ${jobId}`) };
}
