import { readable } from '../records.ts';
import type { RunningTime, ServiceTimePoint } from '../runningTime.ts';
import type { Database } from './database.ts';
import { readNote } from './notes.ts';

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
