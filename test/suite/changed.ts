/** Finds the tests that are nearest to a change: by the number of imports between, and within a minute. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { basename, dirname, join, normalize } from 'node:path';
import { expectedSeconds } from './suiteCosts.ts';
import { allFiles } from './tiers.ts';

/** Processor seconds that two cores have within a minute, less what compiling takes. */
const BUDGET_SECONDS = 55;
/** Holds the shape of the whole tree. */
const ALWAYS = 'test/tidy.test.ts';

export interface Nearest {
  files: string[];
  /** Test files that depend on the change, too, but are too many for a minute. */
  omitted: number;
}

/** The tests that depend on what differs between the working tree and `revision`. */
export function nearestTo(revision: string): Nearest {
  const changed = [
    ...lines('git', 'diff', '--name-only', revision),
    ...lines('git', 'ls-files', '--others', '--exclude-standard'),
  ];
  const tests = testsOf(changed).filter((file) => file !== ALWAYS);
  const files = [ALWAYS];
  let left = BUDGET_SECONDS;
  for (const file of tests) {
    left -= expectedSeconds(file);
    if (left > 0) files.push(file);
  }
  return { files, omitted: tests.length + 1 - files.length };
}

/** All tests that depend on these files: those of the same name, of the same rooms, and the others, each from the nearest on. */
export function testsOf(changed: readonly string[]): string[] {
  const distances = distancesFrom(changed);
  const far = (file: string) =>
    1_000 * Math.min(...changed.map((path) => strangeness(path, file))) + (distances.get(file) ?? 0);
  return allFiles()
    .filter((file) => distances.has(file))
    .sort((a, b) => far(a) - far(b) || expectedSeconds(a) - expectedSeconds(b));
}

/** `test` mirrors `src`: `keys.test.ts` is first of all about `keys.ts` and `keysCommand.ts` in the same room. */
function strangeness(path: string, file: string): number {
  const [[, room], [, roomOfTest]] = [path.split('/'), file.split('/')];
  if (room !== roomOfTest) return 2;
  return basename(path).startsWith(basename(file, '.test.ts')) ? 0 : 1;
}

function lines(command: string, ...args: string[]): string[] {
  return execFileSync(command, args, { encoding: 'utf8' }).split('\n').filter(Boolean);
}

/** For each file that reaches a changed one by imports, how many are between. A file that names another, say a page of the manual, counts as its importer. */
function distancesFrom(changed: readonly string[]): Map<string, number> {
  const importers = new Map<string, string[]>();
  const texts = lines('git', 'ls-files', '--cached', '--others', '--exclude-standard', 'src', 'test', 'page')
    .filter((path) => path.endsWith('.ts'))
    .map((path) => ({ path, text: readOrNothing(path) }));
  for (const { path, text } of texts)
    for (const to of importsOf(path, text)) importers.set(to, [...(importers.get(to) ?? []), path]);
  const distances = new Map(changed.map((path) => [path, 0]));
  for (const path of changed.filter((path) => !path.endsWith('.ts')))
    for (const { path: by, text } of texts)
      if (by.startsWith('test/') && text.includes(basename(path))) distances.set(by, 1);
  // A map iterates over what is added meanwhile, so this walks outwards.
  for (const [path, distance] of distances)
    for (const importer of importers.get(path) ?? [])
      if (!distances.has(importer)) distances.set(importer, distance + 1);
  return distances;
}

/** A deleted file counts as changed, but has no text. */
function readOrNothing(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

function importsOf(path: string, text: string): string[] {
  const specifiers = text.matchAll(/(?:\bfrom|\bimport\(?|new URL\()\s*['"](\.[^'"]+)['"]/g);
  return Array.from(specifiers, ([, specifier = '']) => normalize(join(dirname(path), specifier)));
}
