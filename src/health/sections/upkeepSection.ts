import { statfs } from 'node:fs/promises';
import * as z from 'zod';
import { describeStore, type StoreLocation, storeBytes } from '../../store/engines.ts';
import type { StorePages, StoreSpace } from '../../store/store.ts';
import { readUpkeep, type UpkeepNote, upkeepNote } from '../upkeepNotes.ts';
import { epochSeconds, plain, showAs, WIRE } from './section.ts';

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
    .optional()
    .describe('Of `bytes`, what holds nothing and will be used again; only of the embedded store.'),
  oldest_reader: z
    .object({ pid: z.int(), age_seconds: seconds })
    .optional()
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

const CHORE_NAMES = ['backup', 'check', 'restore_drill', 'renewal'] as const;
type ChoreName = (typeof CHORE_NAMES)[number];

export const upkeepSchema = z
  .object({
    backup: upkeepNote.optional(),
    check: upkeepNote.optional(),
    renewal: upkeepNote.optional(),
    restore_drill: upkeepNote.optional(),
    chores: z.array(z.enum(CHORE_NAMES)).readonly().describe('What must be done regularly here.'),
  })
  .describe('What was last noted of each; a backup only if it was good.');
type UpkeepSection = z.infer<typeof upkeepSchema>;

const HOUR_MS = 3_600_000;

/** After this age it is overdue. As in the alarms: a nightly backup may be half a day late. */
export const UPKEEP_AGE_MS_MAX: Readonly<Record<ChoreName, number>> = {
  backup: 36 * HOUR_MS,
  check: 72 * HOUR_MS,
  renewal: 72 * HOUR_MS,
  restore_drill: 2400 * HOUR_MS,
};

/** A note may be so far ahead of the clock that reads it: clocks are set, and differ a little. */
const AHEAD_MS_MAX = 300_000;

/** The state of a chore by its note: none if the time on the note is in the future. `now`: milliseconds since the epoch. */
export function noteState(
  chore: ChoreName,
  { finished_at, good }: UpkeepNote,
  now: number,
): 'good' | 'bad' | 'late' | 'ahead' {
  if (!good) return 'bad';
  const age = now - Date.parse(finished_at);
  if (age < -AHEAD_MS_MAX) return 'ahead';
  return age > UPKEEP_AGE_MS_MAX[chore] ? 'late' : 'good';
}

/** Where a store is, and what must be free on the disk of `diskDir`. */
interface StorePlace {
  location: StoreLocation;
  diskDir: string;
  storeFreeBytesMin: number;
  /** Present while the store is open. */
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
  const [bytes, disk] = await Promise.all([storeBytes(location), measureDisk(diskDir, freeBytesMin)]);
  const { freeBytes, oldestReader: oldest } = pages?.read() ?? {};
  return {
    engine: location.engine,
    path: describeStore(location),
    bytes,
    free_bytes: freeBytes,
    ...(oldest && { oldest_reader: { pid: oldest.pid, age_seconds: Math.round(oldest.ageMs / 1000) } }),
    ...disk,
    full: disk.disk_free_bytes < freeBytesMin || space?.isFull === true,
  };
}

/** Throws the system's error. */
export async function measureDisk(folder: string, freeBytesMin: number) {
  const { bavail, bsize, blocks } = await statfs(folder);
  return {
    disk_free_bytes: bavail * bsize,
    disk_free_bytes_min: freeBytesMin,
    disk_bytes: blocks * bsize,
  };
}

/** A database is backed up with tools of its own, and only time-stamps are renewed. */
export function presentUpkeep(
  stateDir: string,
  { engine }: Pick<StoreLocation, 'engine'>,
  isStamped: boolean,
): UpkeepSection {
  const renewal = readUpkeep(stateDir, 'renewal');
  return {
    backup: readUpkeep(stateDir, 'backup'),
    check: readUpkeep(stateDir, 'check'),
    renewal,
    restore_drill: readUpkeep(stateDir, 'restore-drill'),
    chores: CHORE_NAMES.filter((chore) =>
      chore === 'renewal' ? isStamped || renewal !== undefined : chore === 'check' || engine === 'lmdb',
    ),
  };
}

showAs(storeSchema, [
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
]);

showAs(upkeepSchema, [
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
]);
