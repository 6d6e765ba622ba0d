/** The table of all findings. A finding that no test has made true and false does not belong here. */
import { CERTIFICATE_FINDINGS } from './certificateFindings.ts';
import type { Facts } from './facts.ts';
import type { Found, HealthFinding } from './healthFinding.ts';
import { JOB_FINDINGS } from './jobFindings.ts';
import { MEMBER_FINDINGS } from './memberFindings.ts';
import { PART_FINDINGS, partsOf } from './partFindings.ts';
import { UPKEEP_FINDINGS } from './upkeepFindings.ts';

export const FINDINGS: readonly HealthFinding[] = [
  ...PART_FINDINGS,
  ...MEMBER_FINDINGS,
  ...JOB_FINDINGS,
  ...CERTIFICATE_FINDINGS,
  ...UPKEEP_FINDINGS,
];

const RANKS = ['critical', 'warning', 'info'];

/** The findings that hold, the worst first. `now`: milliseconds since the epoch. */
export function findingsOf(facts: Partial<Facts>, now: number): Found[] {
  return FINDINGS.flatMap(({ judge }) => judge(facts, now)).sort(
    (a, b) => RANKS.indexOf(a.severity) - RANKS.indexOf(b.severity),
  );
}

/** The facts with what is wrong, and which parts are ready. */
export function judged<Known extends Facts>(facts: Known, now: number) {
  const findings = findingsOf(facts, now);
  const parts = partsOf(facts, findings, now);
  return { ...facts, ready: parts.every(({ ready }) => ready), parts, findings };
}
