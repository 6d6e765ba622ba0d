import { encodeRecord, readable } from '../records.ts';
import { RunningTime, type ServiceTimeOptions, type ServiceTimePoint } from '../runningTime.ts';
import type { ServiceTime } from '../serviceTime.ts';
import type { Batch } from '../store.ts';
import type { Commits } from './commits.ts';
import type { Databases } from './databases.ts';

const POINT_KEY = Buffer.from('service_time');

/** Service time in the embedded store: one record, and the time since it was read. */
export function lmdbServiceTime(
  databases: Databases,
  commits: Commits,
  options: ServiceTimeOptions,
): ServiceTime {
  const { identity: database, batches } = databases;
  const [newest] = batches.getRange({ reverse: true, limit: 1 });
  const kept = {
    point: readable<ServiceTimePoint>(database.getBinary(POINT_KEY)),
    newestSealedAt: readable<Batch>(newest?.value)?.sealedAt ?? 0,
    keep: async (point: ServiceTimePoint) => {
      await commits.write({ changes: [{ database, key: POINT_KEY, value: encodeRecord(point) }] });
    },
  };
  return new RunningTime(kept, options);
}
