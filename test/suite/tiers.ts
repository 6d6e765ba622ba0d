/** Which test files `npm test` runs, and which it leaves to `npm test -- --rest`. */
import { readdirSync, readFileSync } from 'node:fs';

/** `quick` and `rest` are parts of `all`; properties stand in both, with fewer random inputs in `quick`. */
export type Tier = 'quick' | 'rest' | 'all';

/** Globs of test files that the quick tier leaves out, by what they have in common. */
const LEFT_OUT: Record<string, readonly string[]> = {};

/** Test files that only root can run, and why. */
const ROOT: Record<string, string> = {};

export function needsRoot(file: string): string | undefined {
  return ROOT[file];
}

export function allFiles(): string[] {
  return readdirSync('test', { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.test.ts'))
    .map((path) => `test/${path}`)
    .sort();
}

export function tierFiles(tier: Tier): string[] {
  const files = allFiles();
  if (tier === 'all') return files;
  const later = new Set(Object.values(LEFT_OUT).flat());
  return files.filter((file) => (tier === 'quick' ? !later.has(file) : later.has(file) || isProperty(file)));
}

/** One line for the end of the quick tier. */
export function leftOut(): string {
  return Object.keys(LEFT_OUT).join(', ');
}

/** Its random inputs are fewer in the quick tier, so the rest runs it again. */
function isProperty(file: string): boolean {
  return /\btries\(/.test(readFileSync(file, 'utf8')) || isMutated(file);
}

/** Whether a long run can give it more changed inputs. */
export function isMutated(file: string): boolean {
  return /\bmutations\(/.test(readFileSync(file, 'utf8'));
}
