import { marked, print } from '../terminal.ts';
import type { Diagnosis } from './diagnosis.ts';

export function showDiagnosis({ check, verdict, detail, remedy }: Diagnosis): void {
  const [first = '', ...others] = detail.split('\n');
  process.stdout.write(`${marked(verdict, `${check}: ${first}`)}\n`);
  for (const line of others) print(`    ${line}`);
  if (remedy !== undefined && remedy !== '') print(`    → ${remedy}`);
}
