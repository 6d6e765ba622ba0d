import { systemClock } from '../../base/clock.ts';
import { fromNow } from '../../base/phrases.ts';
import type { Config } from '../../config/config.ts';
import { noteState } from '../../health/sections/upkeepSection.ts';
import { type Chore, readUpkeep } from '../../health/upkeepNotes.ts';
import { instanceOf, unitState } from '../systemd.ts';
import { bad, type Diagnosis, good, warning } from './diagnosis.ts';

const DAY_MS = 86_400_000;

interface Duty {
  chore: Chore;
  name: string;
  how: string;
  /** How the last one ended, where that was badly, and what to do then. */
  badly: { words: string; remedy: string };
}

const FOUND_PROBLEMS = {
  words: 'and found problems',
  remedy: 'run `pdfseal check`: it names each problem and says what to do',
};

/** What must be done regularly. Each command leaves a note with the time. */
const DUTIES: readonly Duty[] = [
  {
    chore: 'backup',
    name: 'backup',
    how: 'run `pdfseal backup --output FOLDER --dated` every night, and copy the backup to another machine',
    badly: FOUND_PROBLEMS,
  },
  {
    chore: 'check',
    name: 'check',
    how: 'run `pdfseal check` every night',
    badly: FOUND_PROBLEMS,
  },
  {
    chore: 'restore-drill',
    name: 'restore drill',
    how: 'run `pdfseal restore --drill --input BACKUP` every three months, to know that a backup can be restored',
    badly: FOUND_PROBLEMS,
  },
];

/** Where there are time-stamps. */
const RENEWAL: Duty = {
  chore: 'renewal',
  name: 'renewal',
  how: 'run `pdfseal renew` every day: it renews the time-stamps of receipts before they end',
  badly: {
    words: 'and did not renew what is due',
    remedy: 'run `pdfseal renew`: it says why',
  },
};

/** Whether backups, checks and restore drills are done, and their timers enabled. */
export function* diagnoseUpkeep({ stateDir, file, timestamp, store }: Config): Iterable<Diagnosis> {
  const isStamped = timestamp.authorities.length > 0 || readUpkeep(stateDir, 'renewal') !== undefined;
  // A database is backed up with tools of its own, of which nothing is known here.
  const ofFiles = store.engine === 'lmdb';
  const chores: Chore[] = [
    ...(ofFiles ? (['backup'] as const) : []),
    'check',
    ...(isStamped ? (['renewal'] as const) : []),
  ];
  for (const duty of DUTIES) if (ofFiles || chores.includes(duty.chore)) yield judge(duty, stateDir);
  if (isStamped) yield judge(RENEWAL, stateDir);
  yield* diagnoseEnd(stateDir);
  yield* diagnoseTimers(file, chores);
}

/** `pdfseal renew` renews half a year before the end, and is given ten days to. */
const RENEWED_DAYS_MIN = 170;

/** A year, half a year and 30 days before the first time-stamp ends. */
function diagnoseEnd(stateDir: string): Diagnosis[] {
  const until = readUpkeep(stateDir, 'renewal')?.holds_until;
  if (until === undefined) return [];
  const name = 'time-stamps';
  const now = systemClock();
  const days = Math.floor((Date.parse(until) - now) / DAY_MS);
  const ends = days < 0 ? 'ended' : 'ends';
  const detail = `the first one ${ends} ${fromNow(until, now)}, on ${until.slice(0, 10)}`;
  if (days >= 365) return [good(name, detail)];
  const how = 'run `pdfseal renew`: it renews all time-stamps, or says what keeps it from doing so';
  if (days < 30) return [bad(name, detail, how)];
  return days < RENEWED_DAYS_MIN
    ? [warning(name, detail, how)]
    : [good(name, `${detail}: pdfseal renew renews it in time`)];
}

function judge({ chore, name, how, badly }: Duty, stateDir: string): Diagnosis {
  const last = readUpkeep(stateDir, chore);
  if (last === undefined) return warning(name, 'none is on record here', how);
  const now = systemClock();
  const size = last.tree_size === undefined ? '' : `, of ${last.tree_size} leaves,`;
  const detail = `the last one${size} was ${fromNow(last.finished_at, now)}`;
  if (last.undecided !== undefined)
    return bad(
      name,
      `${detail}, and could not tell whether the store is good: ${last.undecided}`,
      badly.remedy,
    );
  const is = noteState(chore === 'restore-drill' ? 'restore_drill' : chore, last, now);
  if (is === 'bad') return bad(name, `${detail}, ${badly.words}`, badly.remedy);
  if (is === 'ahead')
    return warning(
      name,
      `its note is dated in the future: ${last.finished_at}`,
      `look at the clock, then ${how}`,
    );
  return is === 'late' ? warning(name, detail, how) : good(name, detail);
}

/** The unit of the package whose command leaves the note. */
export function timerOf(chore: Chore, instance: string): string {
  return `pdfseald-${chore === 'renewal' ? 'renew' : chore}@${instance}.timer`;
}

/** The timers of the package. Without the package it is not known what runs the commands. */
function diagnoseTimers(configFile: string, chores: readonly Chore[]): Diagnosis[] {
  const instance = instanceOf(configFile);
  if (instance === undefined) return [];
  return chores.flatMap((chore) => {
    const unit = timerOf(chore, instance);
    const [enabled, active] = [unitState('is-enabled', unit), unitState('is-active', unit)];
    if (enabled === undefined || active === undefined) return [];
    if (enabled === 'enabled' && active === 'active') return [good(`timer ${unit}`, 'enabled and active')];
    return [warning(`timer ${unit}`, `${enabled}, ${active}`, `systemctl enable --now ${unit}`)];
  });
}
