import { ownProcess } from '../../base/env.ts';
import { OperatorError } from '../../base/errors.ts';
import type { Found } from '../../health/healthFinding.ts';
import { marked, print, printResult } from '../terminal.ts';

/** The result of one check of the doctor. */
export interface Diagnosis {
  /** The part that was checked: `config`, `partition eu-west/production-2026`. */
  check: string;
  /** `warning`: it works, but needs attention. */
  verdict: 'good' | 'warning' | 'bad';
  detail: string;
  /** The remedy. Present unless the verdict is good. */
  remedy?: string;
}

export function good(check: string, detail: string): Diagnosis {
  return { check, verdict: 'good', detail };
}

export function warning(check: string, detail: string, remedy: string): Diagnosis {
  return { check, verdict: 'warning', detail, remedy };
}

export function bad(check: string, detail: string, remedy: string): Diagnosis {
  return { check, verdict: 'bad', detail, remedy };
}

/** A finding of the table. */
export function diagnosisOf({ severity, subject, detail, remedy }: Found): Diagnosis {
  return (severity === 'critical' ? bad : warning)(subject, detail, remedy);
}

/** An error that an operator must solve is a finding; any other is thrown again. */
export function badFrom(check: string, error: unknown, remedy: string): Diagnosis {
  if (!(error instanceof OperatorError)) throw error;
  return bad(check, error.message, remedy);
}

/** Prints each diagnosis as soon as it is there. Returns the verdicts that there were. */
export async function printDiagnoses(
  diagnoses: AsyncIterable<Diagnosis>,
): Promise<ReadonlySet<Diagnosis['verdict']>> {
  const verdicts = new Set<Diagnosis['verdict']>();
  for await (const diagnosis of diagnoses) {
    verdicts.add(diagnosis.verdict);
    printResult(diagnosis, () => printDiagnosis(diagnosis));
  }
  return verdicts;
}

function printDiagnosis({ check, verdict, detail, remedy }: Diagnosis): void {
  const [first = '', ...others] = detail.split('\n');
  ownProcess().stdout.write(`${marked(verdict, `${check}: ${first}`)}\n`);
  for (const line of others) print(`    ${line}`);
  if (remedy !== undefined && remedy !== '') print(`    → ${remedy}`);
}
