import { encodeRecord, readable } from '../records.ts';
import { RunningTime, type ServiceTimeOptions, type ServiceTimePoint } from '../runningTime.ts';
import type { ServiceTime } from '../serviceTime.ts';
import type { Batch } from '../store.ts';
import type { Database } from './database.ts';
import { NEWEST_BATCH } from './logTable.ts';
import { putNote, readNote } from './notes.ts';
import type { Writes } from './writes.ts';

/** Service time in PostgreSQL: as it was last kept, and the time since it was read. Without `writes`, another process keeps it. */
export async function postgresqlServiceTime(
  database: Database,
  writes: Writes | undefined,
  options: ServiceTimeOptions,
): Promise<ServiceTime> {
  const [newest] = await database.rows<{ record: Buffer }>(NEWEST_BATCH);
  const kept = {
    point: readable<ServiceTimePoint>(await readNote(database, 'service_time')),
    newestSealedAt: readable<Batch>(newest?.record)?.sealedAt ?? 0,
    keep: async (point: ServiceTimePoint) =>
      writes?.run((queries) => putNote(queries, 'service_time', encodeRecord(point))),
  };
  return new RunningTime(kept, options);
}
