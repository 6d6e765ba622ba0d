/** Findings on the store's disk, and on chores that must be done regularly. */
import { describeSeconds, fromNow } from '../base/phrases.ts';
import { formatBytes } from '../base/units.ts';
import type { Facts } from './facts.ts';
import { finding, type HealthFinding } from './healthFinding.ts';
import { noteState } from './sections/upkeepSection.ts';
import type { UpkeepNote } from './upkeepNotes.ts';

const DAY_MS = 86_400_000;

/** With less than so many times what must be free, the disk is nearly full. */
const NEARLY_FULL = 4;

/** A process that reads an old state of the store for so long hangs, or its disk is too slow for it. */
const READER_SECONDS_MAX = 3600;

const STORE_FINDINGS: readonly HealthFinding[] = [
  finding('store', {
    ...{ id: 'disk_low', severity: 'warning', subject: 'disk', metric: 'pdfseal_store_disk_free_bytes' },
    when: ({ disk_free_bytes: free, disk_free_bytes_min: least }) =>
      free >= least && free < NEARLY_FULL * least,
    says: ({ disk_free_bytes: free, disk_free_bytes_min: least }) =>
      `nearly full: ${formatBytes(free)} are free; below ${formatBytes(least)}, no job is accepted`,
    remedy: 'make room, or move state_dir to a larger disk: see "Full disk" in the manual',
  }),
  finding('store', {
    ...{ id: 'store_held', severity: 'warning', subject: 'readers of the store' },
    metric: 'pdfseal_store_oldest_reader_age_seconds',
    when: ({ oldest_reader: oldest }) => oldest !== undefined && oldest.age_seconds >= READER_SECONDS_MAX,
    says: ({ oldest_reader: { pid, age_seconds: age } = { pid: 0, age_seconds: 0 } }) =>
      `process ${pid} has read an old state of the store for ${describeSeconds(age)}, so the file grows with every change`,
    remedy: ({ oldest_reader: { pid } = { pid: 0 } }) =>
      `end process ${pid} if it hangs: \`ps -o stat,etime,args -p ${pid}\` shows what it is, and T if it was stopped`,
  }),
];

/** Each command leaves a note with the time. */
export const CHORES = {
  backup: {
    name: 'backup',
    how: 'run `pdfseal backup --output FOLDER --dated` every night (pdfseald-backup@.timer), and copy the backup to another machine',
    badly: 'and found problems',
    isMissed: 'warning',
    isBad: 'warning',
  },
  check: {
    name: 'check',
    how: 'run `pdfseal check` every night (pdfseald-check@.timer)',
    badly: 'and found problems',
    isMissed: 'info',
    isBad: 'critical',
  },
  restore_drill: {
    name: 'restore drill',
    how: 'run `pdfseal restore --drill --input BACKUP` every three months, to know that a backup can be restored',
    badly: 'and found problems',
    isMissed: 'info',
    isBad: 'warning',
  },
  renewal: {
    name: 'renewal',
    how: 'run `pdfseal renew` every day (pdfseald-renew@.timer): it renews the time-stamps of receipts before they end',
    badly: 'and did not renew what is due',
    isMissed: 'info',
    isBad: 'warning',
  },
} as const;
type ChoreKey = keyof typeof CHORES;

function findingsOfChore(chore: ChoreKey): HealthFinding[] {
  const { name, how, badly, isMissed, isBad } = CHORES[chore];
  const command = chore === 'renewal' ? 'renew' : 'check';
  const rule = { subject: name, metric: `pdfseal_${chore}_timestamp_seconds` };
  const is = (wanted: ReturnType<typeof noteState>) => (upkeep: Facts['upkeep'], _: unknown, now: number) => {
    const note = upkeep.chores.includes(chore) ? upkeep[chore] : undefined;
    return note !== undefined && noteState(chore, note, now) === wanted;
  };
  const lastOne = ({ [chore]: note }: Facts['upkeep'], now: number) => describeNote(note, now);
  return [
    finding('upkeep', {
      ...{ ...rule, id: `${chore}_missing`, severity: isMissed },
      when: ({ chores, [chore]: note }) => note === undefined && chores.includes(chore),
      says: 'none is on record here',
      remedy: how,
    }),
    finding('upkeep', {
      ...{ ...rule, id: `${chore}_failed`, severity: isBad },
      when: is('bad'),
      says: (upkeep, now) => {
        const why = upkeep[chore]?.undecided;
        const undecided = `and could not tell whether the store is good: ${why}`;
        return `${lastOne(upkeep, now)}, ${why === undefined ? badly : undecided}`;
      },
      remedy: `run \`pdfseal ${command}\`: it names each problem and says what to do`,
    }),
    finding('upkeep', {
      ...{ ...rule, id: `${chore}_old`, severity: chore === 'restore_drill' ? 'info' : 'warning' },
      when: is('late'),
      says: lastOne,
      remedy: how,
    }),
    finding('upkeep', {
      ...{ ...rule, id: `${chore}_undated`, severity: chore === 'restore_drill' ? 'info' : 'warning' },
      when: is('ahead'),
      says: ({ [chore]: note }) => `its note is dated in the future: ${note?.finished_at}`,
      remedy: `look at the clock, then ${how}`,
    }),
  ];
}

/** When a chore was done, and of how large a log. */
export function describeNote(note: UpkeepNote | undefined, now: number): string {
  const { finished_at: at = '', tree_size: size } = note ?? {};
  return `the last one${size === undefined ? '' : `, of ${size} leaves,`} was ${fromNow(at, now)}`;
}

const END = {
  ...{ subject: 'time-stamps', metric: 'pdfseal_timestamps_end_timestamp_seconds' },
  remedy: 'run `pdfseal renew`: it renews all time-stamps, or says what keeps it from doing so',
} as const;

const END_FINDINGS: readonly HealthFinding[] = [
  finding('upkeep', {
    ...{ ...END, id: 'timestamps_end_soon', severity: 'warning', says: describeEnd },
    when: (upkeep, _, now) => daysUntilEnd(upkeep, now) >= 30 && daysUntilEnd(upkeep, now) < 90,
  }),
  finding('upkeep', {
    ...{ ...END, id: 'timestamps_end_now', severity: 'critical', says: describeEnd },
    when: (upkeep, _, now) => daysUntilEnd(upkeep, now) < 30,
  }),
];

/** Infinite where no time-stamp is known to end. */
export function daysUntilEnd({ renewal }: Facts['upkeep'], now: number): number {
  const until = renewal?.holds_until;
  return until === undefined ? Infinity : Math.floor((Date.parse(until) - now) / DAY_MS);
}

export function describeEnd(upkeep: Facts['upkeep'], now: number): string {
  const until = upkeep.renewal?.holds_until ?? '';
  const ends = daysUntilEnd(upkeep, now) < 0 ? 'ended' : 'ends';
  return `the first one ${ends} ${fromNow(until, now)}, on ${until.slice(0, 10)}`;
}

export const UPKEEP_FINDINGS: readonly HealthFinding[] = [
  ...STORE_FINDINGS,
  ...(['backup', 'check', 'restore_drill', 'renewal'] as const).flatMap(findingsOfChore),
  ...END_FINDINGS,
];
