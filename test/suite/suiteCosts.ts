/** The processor time of each test file, as `npm test -- --all --record` last measured it, in `test/bench/suite.json`. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describeProcessor } from '../bench/machine.ts';

const PATH = fileURLToPath(new URL('../bench/suite.json', import.meta.url));
/** A file that was never measured. */
const UNKNOWN_SECONDS = 2;

interface SuiteCosts {
  /** RFC 3339. */
  measuredAt: string;
  processor: string;
  /** Processor seconds by file, the dearest first. */
  files: Record<string, number>;
}

export const suiteCosts: SuiteCosts = existsSync(PATH)
  ? (JSON.parse(readFileSync(PATH, 'utf8')) as SuiteCosts)
  : { measuredAt: '', processor: '', files: {} };

export function expectedSeconds(file: string): number {
  return suiteCosts.files[file] ?? UNKNOWN_SECONDS;
}

/** Replaces what is known of these files, and forgets files that are gone. */
export function recordCosts(measured: ReadonlyMap<string, number>): void {
  const files = { ...suiteCosts.files };
  for (const [file, seconds] of measured) files[file] = Math.round(seconds * 10) / 10;
  const sorted = Object.entries(files)
    .filter(([file]) => existsSync(file))
    .sort(([, a], [, b]) => b - a);
  const costs: SuiteCosts = {
    measuredAt: new Date().toISOString(),
    processor: describeProcessor().name,
    files: Object.fromEntries(sorted),
  };
  writeFileSync(PATH, `${JSON.stringify(costs, undefined, 2)}\n`);
}
