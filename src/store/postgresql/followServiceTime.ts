import { readable } from '../records.ts';
import type { RunningTime, ServiceTimePoint } from '../runningTime.ts';
import type { Database } from './database.ts';
import { readNote } from './notes.ts';

const FOLLOW_MS = 30_000;

/** Keeps the service time of a front equal to that of the sealing daemon. Returns a function that ends this. */
export function followServiceTime(database: Database, time: RunningTime): () => void {
  const look = async () => {
    const point = readable<ServiceTimePoint>(await readNote(database, 'service_time'));
    if (point !== undefined) time.follow(point);
  };
  // The next read reports the error.
  const timer = setInterval(() => {
    look().catch(() => {});
  }, FOLLOW_MS).unref();
  return () => clearInterval(timer);
}
