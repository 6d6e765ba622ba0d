import { encodeRecord, readable } from '../records.ts';
import { RunningTime, type ServiceTimeOptions, type ServiceTimePoint } from '../runningTime.ts';
import type { Batch } from '../store.ts';
import type { Database } from './database.ts';
import { NEWEST_BATCH } from './logTable.ts';
import { putNote, readNote } from './notes.ts';
import type { Writes } from './writes.ts';

/** Service time in PostgreSQL: as it was last kept, and the time since it was read. Without `writes`, another process keeps it: see {@link followServiceTime}. */
export async function postgresqlServiceTime(
  database: Database,
  writes: Writes | undefined,
  options: ServiceTimeOptions,
): Promise<RunningTime> {
  const [newest] = await database.rows<{ record: Buffer }>(NEWEST_BATCH);
  const kept = {
    point: readable<ServiceTimePoint>(await readNote(database, 'service_time')),
    newestSealedAt: readable<Batch>(newest?.record)?.sealedAt ?? 0,
    keep: async (point: ServiceTimePoint) =>
      writes?.run((queries) => putNote(queries, 'service_time', encodeRecord(point))),
  };
  return new RunningTime(kept, options);
}

const FOLLOW_MS = 30_000;

/** Holds the service time of a front to that which the daemon that seals keeps. Returns what ends it. */
export function followServiceTime(database: Database, time: RunningTime): () => void {
  const look = async () => {
    const point = readable<ServiceTimePoint>(await readNote(database, 'service_time'));
    if (point !== undefined) time.follow(point);
  };
  // Whoever reads next is told why it failed.
  const timer = setInterval(() => {
    look().catch(() => {});
  }, FOLLOW_MS).unref();
  return () => clearInterval(timer);
}
