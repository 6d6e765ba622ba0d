import { statfs } from 'node:fs/promises';
import * as z from 'zod';
import { describeSeconds } from '../../base/phrases.ts';
import { describeStore, type StoreLocation, storeBytes } from '../../store/engines.ts';
import type { StorePages, StoreSpace } from '../../store/store.ts';
import { readUpkeep, type UpkeepNote, upkeepNote } from '../upkeepNotes.ts';
import { epochSeconds, plain, type StatusMetric, WIRE } from './section.ts';

const { bytes, seconds } = WIRE;

export const storeSchema = z.object({
  engine: z.enum(['lmdb', 'postgresql']),
  path: z.string(),
  answers: z
    .boolean()
    .describe(
      'Whether its database answers. If it does not, what the status says of the log and the store is what was known last. Always true of the embedded store.',
    ),
  bytes,
  free_bytes: bytes
    .exactOptional()
    .describe('Of `bytes`, what holds nothing and will be used again; only of the embedded store.'),
  oldest_reader: z
    .object({ pid: z.int(), age_seconds: seconds })
    .exactOptional()
    .describe(
      'The process that has read an old state of the embedded store the longest: until it ends, no page that was freed since is used again. Its age counts from the first request for the status that found a newer state.',
    ),
  disk_free_bytes: bytes,
  disk_free_bytes_min: bytes,
  disk_bytes: bytes,
  full: z
    .boolean()
    .describe(
      'Whether there is no space for more jobs: less than `disk_free_bytes_min` is free, or the database says that its own disk is full.',
    ),
});
type StoreSection = z.infer<typeof storeSchema>;

export const upkeepSchema = z
  .object({
    backup: upkeepNote.exactOptional(),
    check: upkeepNote.exactOptional(),
    renewal: upkeepNote.exactOptional(),
    restore_drill: upkeepNote.exactOptional(),
  })
  .describe('What was last noted of each; a backup only if it was good.');
type UpkeepSection = z.infer<typeof upkeepSchema>;

const HOUR_MS = 3_600_000;

/** After this age it is overdue. As in the alarms: a nightly backup may be half a day late. */
export const UPKEEP_AGE_MS_MAX: Readonly<Record<keyof UpkeepSection, number>> = {
  backup: 36 * HOUR_MS,
  check: 72 * HOUR_MS,
  renewal: 72 * HOUR_MS,
  restore_drill: 2400 * HOUR_MS,
};

/** A note may be so far ahead of the clock that reads it: clocks are set, and differ a little. */
const AHEAD_MS_MAX = 300_000;

/** What a note says of a chore: nothing, where the time on it is yet to come. `now`: milliseconds since the epoch. */
export function noteState(
  chore: keyof UpkeepSection,
  { finished_at, good }: UpkeepNote,
  now: number,
): 'good' | 'bad' | 'late' | 'ahead' {
  if (!good) return 'bad';
  const age = now - Date.parse(finished_at);
  if (age < -AHEAD_MS_MAX) return 'ahead';
  return age > UPKEEP_AGE_MS_MAX[chore] ? 'late' : 'good';
}

/** A process that reads an old state of the store for so long hangs, or its disk is too slow for it. */
const READER_SECONDS_MAX = 3600;

/** What is wrong with the oldest reader of the embedded store, and what to do; undefined if nothing is. */
export function readerTrouble({
  oldest_reader: oldest,
}: Pick<StoreSection, 'oldest_reader'>): { detail: string; remedy: string } | undefined {
  if (oldest === undefined || oldest.age_seconds < READER_SECONDS_MAX) return undefined;
  return {
    detail: `process ${oldest.pid} has read an old state of the store for ${describeSeconds(oldest.age_seconds)}, so the file grows with every change`,
    remedy: `end process ${oldest.pid} if it hangs: \`ps -o stat,etime,args -p ${oldest.pid}\` shows what it is, and T if it was stopped`,
  };
}

/** Where a store is, and what must be free on the disk of `diskDir`. */
interface StorePlace {
  location: StoreLocation;
  diskDir: string;
  storeFreeBytesMin: number;
  /** Of an open store. */
  pages?: StorePages | undefined;
  space?: StoreSpace | undefined;
}

/** Bytes the store takes on disk, and what is left of the disk that must have room. */
export async function measureStore({
  location,
  diskDir,
  storeFreeBytesMin: freeBytesMin,
  pages,
  space,
}: StorePlace): Promise<Omit<StoreSection, 'answers'>> {
  const [bytes, disk] = await Promise.all([storeBytes(location), statfs(diskDir)]);
  const { freeBytes, oldestReader: oldest } = pages?.read() ?? {};
  const left = disk.bavail * disk.bsize;
  return {
    engine: location.engine,
    path: describeStore(location),
    bytes,
    ...(freeBytes !== undefined && { free_bytes: freeBytes }),
    ...(oldest && { oldest_reader: { pid: oldest.pid, age_seconds: Math.round(oldest.ageMs / 1000) } }),
    disk_free_bytes: left,
    disk_free_bytes_min: freeBytesMin,
    disk_bytes: disk.blocks * disk.bsize,
    full: left < freeBytesMin || space?.isFull === true,
  };
}

export function presentUpkeep(stateDir: string): UpkeepSection {
  const backup = readUpkeep(stateDir, 'backup');
  const check = readUpkeep(stateDir, 'check');
  const renewal = readUpkeep(stateDir, 'renewal');
  const drill = readUpkeep(stateDir, 'restore-drill');
  return {
    ...(backup && { backup }),
    ...(check && { check }),
    ...(renewal && { renewal }),
    ...(drill && { restore_drill: drill }),
  };
}

export const STORE_METRICS: StatusMetric<StoreSection>[] = [
  plain('pdfseal_store_bytes', 'What the store takes on disk', 'bytes'),
  plain(
    'pdfseal_store_free_bytes',
    'Of that, what holds nothing and will be used again; of the embedded store',
    'free_bytes',
  ),
  plain(
    'pdfseal_store_oldest_reader_age_seconds',
    'For so long a process has read an old state of the embedded store, whose pages are not used again until it ends; 0 when none does',
    (store) => (store.free_bytes === undefined ? undefined : (store.oldest_reader?.age_seconds ?? 0)),
  ),
  plain('pdfseal_store_disk_free_bytes', 'What is left of the disk the store is on', 'disk_free_bytes'),
  plain('pdfseal_store_disk_bytes', 'Size of the disk the store is on', 'disk_bytes'),
  plain(
    'pdfseal_store_disk_free_min_bytes',
    'Below so much left no job is accepted (storage.free_bytes_min)',
    'disk_free_bytes_min',
  ),
  plain(
    'pdfseal_store_full',
    '1 while no job is accepted because less than that is left, or because the disk of the database is full',
    'full',
  ),
];

export const UPKEEP_METRICS: StatusMetric<UpkeepSection>[] = [
  plain(
    'pdfseal_backup_timestamp_seconds',
    'When the newest backup that was checked and found good was finished; absent before the first',
    (upkeep) => epochSeconds(upkeep.backup?.finished_at),
  ),
  plain('pdfseal_backup_leaves', 'Size of the log in that backup', (upkeep) => upkeep.backup?.tree_size),
  plain(
    'pdfseal_restore_drill_timestamp_seconds',
    'When a backup was last restored on trial (pdfseal restore --drill); absent before the first time',
    (upkeep) => epochSeconds(upkeep.restore_drill?.finished_at),
  ),
  plain(
    'pdfseal_check_timestamp_seconds',
    'When a check of the store last ended; absent before the first check',
    (upkeep) => epochSeconds(upkeep.check?.finished_at),
  ),
  plain(
    'pdfseal_check_good',
    '1 if that check found the store good, 0 if it found damage or could not tell',
    (upkeep) => upkeep.check?.good,
  ),
  plain(
    'pdfseal_renewal_timestamp_seconds',
    'When pdfseal renew last examined the time-stamps; absent before the first time',
    (upkeep) => epochSeconds(upkeep.renewal?.finished_at),
  ),
  plain(
    'pdfseal_renewal_good',
    '1 if it renewed what was due, or nothing was due',
    (upkeep) => upkeep.renewal?.good,
  ),
  plain(
    'pdfseal_timestamps_end_timestamp_seconds',
    'When the first time-stamp of the log ends, if nothing renews it',
    (upkeep) => epochSeconds(upkeep.renewal?.holds_until),
  ),
];
