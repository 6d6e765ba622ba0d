import { systemClock } from '../../base/clock.ts';
import type { Config } from '../../config/config.ts';
import { type Chore, readUpkeep } from '../../watch/upkeepNotes.ts';
import { instanceOf, unitState } from '../systemd.ts';
import { fromNow } from '../times.ts';
import { bad, type Diagnosis, good, warning } from './diagnosis.ts';

const HOUR_MS = 3_600_000;

interface Duty {
  chore: Chore;
  name: string;
  /** After this age it is overdue. */
  ageMsMax: number;
  how: string;
}

/** What must be done regularly. Each command leaves a note with the time. */
const DUTIES: readonly Duty[] = [
  {
    chore: 'backup',
    name: 'backup',
    // As in the alarms: a nightly backup may be half a day late.
    ageMsMax: 36 * HOUR_MS,
    how: 'run `pdfseal backup --output FOLDER --dated` every night, and copy the backup to another machine',
  },
  { chore: 'check', name: 'check', ageMsMax: 72 * HOUR_MS, how: 'run `pdfseal check` every night' },
  {
    chore: 'restore-drill',
    name: 'restore drill',
    ageMsMax: 100 * 24 * HOUR_MS,
    how: 'run `pdfseal restore --drill --input BACKUP` every three months, to know that a backup can be restored',
  },
];

/** Whether backups, checks and restore drills are done, and their timers enabled. */
export function diagnoseUpkeep({ stateDir, file }: Config): Diagnosis[] {
  return [...DUTIES.map((duty) => judge(duty, stateDir)), ...diagnoseTimers(file)];
}

function judge({ chore, name, ageMsMax, how }: Duty, stateDir: string): Diagnosis {
  const last = readUpkeep(stateDir, chore);
  if (last === undefined) return warning(name, 'none is on record here', how);
  const now = systemClock();
  const detail = `the last one, of ${last.tree_size} leaves, was ${fromNow(last.finished_at, now)}`;
  if (!last.good)
    return bad(
      name,
      `${detail}, and found problems`,
      'run `pdfseal check`: it lists the problems and says what to do',
    );
  return now - Date.parse(last.finished_at) > ageMsMax ? warning(name, detail, how) : good(name, detail);
}

/** The timers of the package. Without the package it is not known what runs the commands. */
function diagnoseTimers(configFile: string): Diagnosis[] {
  const instance = instanceOf(configFile);
  if (instance === undefined) return [];
  return ['backup', 'check'].flatMap((chore) => {
    const unit = `pdfseald-${chore}@${instance}.timer`;
    const [enabled, active] = [unitState('is-enabled', unit), unitState('is-active', unit)];
    if (enabled === undefined || active === undefined) return [];
    if (enabled === 'enabled' && active === 'active') return [good(`timer ${unit}`, 'enabled and active')];
    return [warning(`timer ${unit}`, `${enabled}, ${active}`, `systemctl enable --now ${unit}`)];
  });
}
