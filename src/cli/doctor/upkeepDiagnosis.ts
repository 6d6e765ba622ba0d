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
  /** From then on it is overdue. */
  ageMsMax: number;
  how: string;
}

/** What has to be done now and then, by whom does not matter: each leaves a note of when it was done. */
const DUTIES: readonly Duty[] = [
  {
    chore: 'backup',
    name: 'backup',
    // As the alarms have it: a night may be missed by half a day.
    ageMsMax: 36 * HOUR_MS,
    how: '`pdfseal backup --output FOLDER --dated`, every night, and to another machine with it',
  },
  { chore: 'check', name: 'check', ageMsMax: 72 * HOUR_MS, how: '`pdfseal check`, every night' },
  {
    chore: 'restore-drill',
    name: 'restore drill',
    ageMsMax: 100 * 24 * HOUR_MS,
    how: '`pdfseal restore --drill --input BACKUP`, every three months: a backup that nobody ever restored is a hope',
  },
];

/** Whether what keeps an installation alive is done, and will be done again. */
export function diagnoseUpkeep({ stateDir, file }: Config): Diagnosis[] {
  return [...DUTIES.map((duty) => judge(duty, stateDir)), ...diagnoseTimers(file)];
}

function judge({ chore, name, ageMsMax, how }: Duty, stateDir: string): Diagnosis {
  const last = readUpkeep(stateDir, chore);
  if (last === undefined) return warning(name, 'none was ever noted here', how);
  const now = systemClock();
  const detail = `the last one, of ${last.tree_size} leaves, was ${fromNow(last.finished_at, now)}`;
  if (!last.good)
    return bad(name, `${detail}, and found faults`, '`pdfseal check` says which, and what mends them');
  return now - Date.parse(last.finished_at) > ageMsMax ? warning(name, detail, how) : good(name, detail);
}

/** Those of the package; elsewhere nobody knows what does it. */
function diagnoseTimers(configFile: string): Diagnosis[] {
  const instance = instanceOf(configFile);
  if (instance === undefined) return [];
  return ['backup', 'check'].flatMap((chore) => {
    const unit = `pdfseald-${chore}@${instance}.timer`;
    const [enabled, active] = [unitState('is-enabled', unit), unitState('is-active', unit)];
    if (enabled === undefined || active === undefined) return [];
    if (enabled === 'enabled' && active === 'active') return [good(`timer ${unit}`, 'enabled, and waiting')];
    return [warning(`timer ${unit}`, `${enabled}, ${active}`, `systemctl enable --now ${unit}`)];
  });
}
