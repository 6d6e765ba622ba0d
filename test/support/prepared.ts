/**
 * Folders that take a second to make and no time to copy: tokens with a key, installations as `pdfseal init` leaves them, the
 * programs in one file each. The first test that wants one makes it. They are kept between runs, for as long as the sources are
 * the same and for the rest of the day, because what is in them carries a date.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const SHELF = join(ROOT, 'node_modules/.cache/prepared');
const AGE_MS_MAX = 86_400_000;

/** Of each kind there are so many, with other keys, and a test that makes two gets two that know nothing of each other. */
const VARIANTS = 4;

/** Beside `src`: what the compiled program was made of, and what lays out a folder. */
const OTHER_SOURCES = [
  'package-lock.json',
  'tsconfig.build.json',
  'dist/.compiled',
  ...['prepared', 'programs', 'sandbox', 'partitions', 'postgres'].map((name) => `test/support/${name}.ts`),
];

const taken = new Map<string, number>();
let sources: string | undefined;

/** Copies a folder of this kind to `into`, which is there already. `make` fills an empty folder with one. */
export async function copyPrepared(
  kind: string,
  into: string,
  make: (dir: string) => Promise<void>,
): Promise<void> {
  const variant = (taken.get(kind) ?? 0) % VARIANTS;
  taken.set(kind, variant + 1);
  execFileSync('cp', ['-a', `${await prepared(`${kind} ${variant}`, make)}/.`, into]);
}

/** A folder of this kind for all tests, which they only read. */
export async function prepared(kind: string, make: (dir: string) => Promise<void>): Promise<string> {
  sources ??= sourcesDigest();
  const path = join(SHELF, digest(`${sources}\n${kind}`));
  if (!existsSync(path)) await prepare(path, make);
  return path;
}

async function prepare(path: string, make: (dir: string) => Promise<void>): Promise<void> {
  mkdirSync(SHELF, { recursive: true });
  for (const name of readdirSync(SHELF)) removeOld(join(SHELF, name));
  const dir = mkdtempSync(join(SHELF, 'making-'));
  try {
    await make(dir);
    renameSync(dir, path);
  } catch (error) {
    rmSync(dir, { recursive: true, force: true });
    // Another process was quicker.
    if (!existsSync(path)) throw error;
  }
}

function removeOld(path: string): void {
  const { mtimeMs = Date.now() } = statSync(path, { throwIfNoEntry: false }) ?? {};
  if (Date.now() - mtimeMs > AGE_MS_MAX) rmSync(path, { recursive: true, force: true });
}

/** Changes with every file that has a say in what is made. */
function sourcesDigest(): string {
  const names = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' });
  const paths = [...names.sort().map((name) => `src/${name}`), ...OTHER_SOURCES];
  const statOf = (path: string) => statSync(join(ROOT, path), { throwIfNoEntry: false });
  const today = new Date().toISOString().slice(0, 10);
  return digest([today, ...paths.map((path) => [path, statOf(path)?.mtimeMs, statOf(path)?.size])].join());
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 32);
}
