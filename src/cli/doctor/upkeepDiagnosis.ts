import { systemClock } from '../../base/clock.ts';
import type { Config } from '../../config/config.ts';
import type { Facts } from '../../health/facts.ts';
import { findingsOf } from '../../health/healthFindings.ts';
import { presentUpkeep } from '../../health/sections/upkeepSection.ts';
import { CHORES, daysUntilEnd, describeEnd, describeNote } from '../../health/upkeepFindings.ts';
import { instanceOf, unitState } from '../systemd.ts';
import { type Diagnosis, diagnosisOf, good, warning } from './diagnosis.ts';

/** Whether backups, checks and restore drills are done, and their timers enabled. */
export function* diagnoseUpkeep({ stateDir, file, timestamp, store }: Config): Iterable<Diagnosis> {
  const upkeep = presentUpkeep(stateDir, store, timestamp.authorities.length > 0);
  yield* judgeUpkeep(upkeep, systemClock());
  yield* diagnoseTimers(file, upkeep.chores);
}

export function judgeUpkeep(upkeep: Facts['upkeep'], now: number): Diagnosis[] {
  const well = [
    ...upkeep.chores.map((chore) => good(CHORES[chore].name, describeNote(upkeep[chore], now))),
    ...(daysUntilEnd(upkeep, now) < Infinity ? [good('time-stamps', describeEnd(upkeep, now))] : []),
  ];
  const found = findingsOf({ upkeep }, now).map(diagnosisOf);
  return [...found, ...well.filter(({ check }) => found.every((one) => one.check !== check))];
}

type ChoreName = Facts['upkeep']['chores'][number];

/** The unit of the package whose command leaves the note. */
export function timerOf(chore: ChoreName, instance: string): string {
  return `pdfseald-${chore === 'renewal' ? 'renew' : chore}@${instance}.timer`;
}

/** The timers of the package. Without the package it is not known what runs the commands. */
function diagnoseTimers(configFile: string, chores: readonly ChoreName[]): Diagnosis[] {
  const instance = instanceOf(configFile);
  if (instance === undefined) return [];
  // A restore drill needs a backup, which no timer knows.
  return chores.flatMap((chore) => {
    if (chore === 'restore_drill') return [];
    const unit = timerOf(chore, instance);
    const [enabled, active] = [unitState('is-enabled', unit), unitState('is-active', unit)];
    if (enabled === undefined || active === undefined) return [];
    if (enabled === 'enabled' && active === 'active') return [good(`timer ${unit}`, 'enabled and active')];
    return [warning(`timer ${unit}`, `${enabled}, ${active}`, `systemctl enable --now ${unit}`)];
  });
}
