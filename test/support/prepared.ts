/**
 * Folders that take a second to make and no time to copy: tokens with a key, installations as `pdfseal init` leaves them, the
 * programs in one file each. The first test that wants one makes it. They are kept between runs, for as long as what they were made
 * of is the same, and for the rest of the day, because what is in them carries a date.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { lockInTime } from '../../src/base/flock.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const SHELF = join(ROOT, 'node_modules/.cache/prepared');
const AGE_MS_MAX = 86_400_000;
const MAKING_S_MAX = 600;

/** Of each kind there are so many, with other keys, and a test that makes two gets two that know nothing of each other. */
const VARIANTS = 4;

/** Files and folders, most of which have a say in what `pdfseal init` makes. */
const EVERYTHING = [
  'src',
  'package-lock.json',
  'tsconfig.build.json',
  'dist/.compiled',
  ...['prepared', 'programs', 'sandbox', 'partitions'].map((name) => `test/support/${name}.ts`),
];

const taken = new Map<string, number>();
const digests = new Map<string, string>();

/** Copies a folder of this kind to `into`, which is there already. `make` fills an empty folder with one; `sources` have a say in it. */
export async function copyPrepared(
  kind: string,
  into: string,
  make: (dir: string) => Promise<void>,
  sources = EVERYTHING,
): Promise<void> {
  const variant = (taken.get(kind) ?? 0) % VARIANTS;
  taken.set(kind, variant + 1);
  execFileSync('cp', ['-a', `${await prepared(`${kind} ${variant}`, make, sources)}/.`, into]);
}

/** A folder of this kind for all tests, which they only read. */
export async function prepared(
  kind: string,
  make: (dir: string) => Promise<void>,
  sources = EVERYTHING,
): Promise<string> {
  const path = join(SHELF, digest(`${sourcesDigest(sources)}\n${kind}`));
  if (!existsSync(path)) await prepare(path, make);
  return path;
}

async function prepare(path: string, make: (dir: string) => Promise<void>): Promise<void> {
  mkdirSync(SHELF, { recursive: true });
  for (const name of readdirSync(SHELF)) removeOld(join(SHELF, name));
  const lock = openSync(`${path}.lock`, 'a');
  try {
    // The first process that wants it makes it; the others wait.
    if (!(await lockInTime(lock, 'exclusive', MAKING_S_MAX))) throw new Error(`nobody finished ${path}`);
    if (!existsSync(path)) await makeAtOnce(path, make);
  } finally {
    closeSync(lock);
  }
}

async function makeAtOnce(path: string, make: (dir: string) => Promise<void>): Promise<void> {
  const dir = mkdtempSync(join(SHELF, 'making-'));
  try {
    await make(dir);
    renameSync(dir, path);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

function removeOld(path: string): void {
  const { mtimeMs = Date.now() } = statSync(path, { throwIfNoEntry: false }) ?? {};
  if (Date.now() - mtimeMs > AGE_MS_MAX) rmSync(path, { recursive: true, force: true });
}

/** Changes with every file of these. */
function sourcesDigest(sources: readonly string[]): string {
  const key = sources.join();
  const known = digests.get(key);
  if (known !== undefined) return known;
  const today = new Date().toISOString().slice(0, 10);
  const found = digest([today, ...sources.flatMap(filesOf).map(stamp)].join());
  digests.set(key, found);
  return found;
}

function filesOf(path: string): string[] {
  if (!statSync(join(ROOT, path), { throwIfNoEntry: false })?.isDirectory()) return [path];
  const names = readdirSync(join(ROOT, path), { recursive: true, encoding: 'utf8' });
  return names.sort().map((name) => `${path}/${name}`);
}

function stamp(path: string): string {
  const { mtimeMs, size } = statSync(join(ROOT, path), { throwIfNoEntry: false }) ?? {};
  return `${path} ${mtimeMs} ${size}`;
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 32);
}
