/**
 * `npm run mutants -- [--only NAME]`: makes mistakes on purpose, one patch beside this file after the other, and lets the quick tests look
 * for each, the nearest first. Prints a table of what caught them. Ends with 1 if none did, or if a patch no longer applies.
 */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { parseArgs } from 'node:util';
import { stopwatch } from '../../src/base/clock.ts';
import { testsOf } from '../suite/changed.ts';
import { QUICK_SHARE, tierFiles } from '../suite/tiers.ts';
import { applies, fileOf, mutantNames, patchOf, ROOT } from './patches.ts';

/** A mutant may make a test wait for ever. */
const TEST_SECONDS_MAX = 600;
/** What copies have of their own: it has their paths in it. */
const OWN_CACHES = ['prepared', 'suite'];

const { only } = parseArgs({ options: { only: { type: 'string', multiple: true } } }).values;
const names = mutantNames().filter((name) => only?.includes(name) ?? true);
if (names.length === 0) throw new Error(`--only takes one of: ${mutantNames().join(', ')}`);
const folder = mkdtempSync(join(tmpdir(), 'pdfseald-mutants-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1));
const unchanged = join(folder, 'unchanged');
copyCheckout(unchanged);

interface Verdict {
  isCaught: boolean;
  /** The file and the title of the test that caught it, or why there is none. */
  detail: string;
}

let caught = 0;
console.log('| Mutant | Room | Caught by | Seconds |\n| --- | --- | --- | ---: |');
for (const name of names) {
  const lap = stopwatch();
  const { isCaught, detail } = await judge(name);
  caught += isCaught ? 1 : 0;
  console.log(`| ${name} | ${fileOf(name).split('/')[1]} | ${detail} | ${Math.round(lap() / 1000)} |`);
}
console.log(`\n${caught} of ${names.length} mutants caught`);
if (caught < names.length) process.exitCode = 1;

async function judge(name: string): Promise<Verdict> {
  if (!applies(name))
    return { isCaught: false, detail: 'the patch no longer applies; test/README.md says how to renew it' };
  const mutant = join(folder, 'mutant');
  // As links, of which the patch replaces one.
  execFileSync('cp', ['-al', unchanged, mutant]);
  execFileSync('git', ['apply', patchOf(name)], { cwd: mutant });
  const quick = new Set(tierFiles('quick'));
  const files = testsOf([fileOf(name)]).filter((file) => quick.has(file));
  try {
    for (const isCompiled of [false, true]) {
      // Few tests run what is compiled, and compiling takes longer than most: at first it has no mutant in it.
      if (isCompiled) execFileSync('sh', ['test/setup.sh'], { cwd: mutant, stdio: ['ignore', 2, 2] });
      for (const file of files) {
        const title = await caughtBy(mutant, file);
        if (title !== undefined) return { isCaught: true, detail: `${file} › ${title}` };
      }
    }
    return { isCaught: false, detail: `SURVIVED ${files.length} test files` };
  } finally {
    rmSync(mutant, { recursive: true, force: true });
  }
}

/** The title of what fails in the copy with the mutant, and passes in the one without. */
async function caughtBy(mutant: string, file: string): Promise<string | undefined> {
  const { failure, seed } = await runTest(mutant, file);
  if (failure === undefined) return undefined;
  const anyway = await runTest(unchanged, file, seed);
  if (anyway.failure === undefined) return failure;
  console.error(`not counted, because it fails without the mutant as well: ${file} › ${anyway.failure}`);
  return undefined;
}

interface Result {
  /** The title of what failed, if anything did. */
  failure?: string;
  /** Of random inputs. */
  seed?: string;
}

async function runTest(cwd: string, file: string, drawn?: string): Promise<Result> {
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', file], {
    cwd,
    // A group of its own: what it started ends with it, also if a failure left it behind.
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      ...process.env,
      NODE_OPTIONS: '--import=./test/support/leanTap.ts',
      NODE_COMPILE_CACHE: join(folder, 'compiled'),
      PDFSEALD_SHARE: String(QUICK_SHARE),
      TMPDIR: folder,
      TAP_BAIL: '1',
      TAP_TIMEOUT: String(TEST_SECONDS_MAX),
      ...(drawn !== undefined && { PDFSEALD_SEED: drawn }),
    },
  });
  const end = () => {
    try {
      process.kill(-(child.pid ?? NaN), 'SIGKILL');
    } catch {
      // Nothing of it is left.
    }
  };
  process.prependOnceListener('exit', end);
  const patience = setTimeout(end, 2_000 * TEST_SECONDS_MAX);
  const output = Promise.all([text(child.stdout), text(child.stderr)]);
  const [status] = await once(child, 'exit');
  end();
  clearTimeout(patience);
  process.off('exit', end);
  const [stdout, stderr] = await output;
  const [, seed] = /^# PDFSEALD_SEED=(\d+) /m.exec(stderr) ?? [];
  return { ...(status !== 0 && { failure: titleIn(stdout) }), ...(seed !== undefined && { seed }) };
}

/** The title of the outermost test that the first failed assertion is in. */
function titleIn(tap: string): string {
  const before = tap.slice(0, tap.search(/^ *not ok /m));
  return [...before.matchAll(/^# Subtest: (.*)$/gm)].at(-1)?.[1] ?? 'it ended before its first test';
}

/** The sources as they are now, and what is compiled of them. */
function copyCheckout(to: string): void {
  const list = ['ls-files', '-z', '--cached', '--others', '--exclude-standard'];
  const listed = execFileSync('git', list, { cwd: ROOT, encoding: 'utf8' }).split('\0');
  const files = listed.filter((path) => path !== '' && existsSync(join(ROOT, path)));
  mkdirSync(join(to, 'node_modules/.cache'), { recursive: true });
  execFileSync('cp', ['-a', '--parents', '-t', to, 'dist', ...files], { cwd: ROOT });
  const link = (path: string) => symlinkSync(join(ROOT, path), join(to, path));
  link('native/build');
  for (const entry of readdirSync(join(ROOT, 'node_modules')))
    if (entry !== '.cache') link(`node_modules/${entry}`);
  for (const entry of readdirSync(join(ROOT, 'node_modules/.cache')))
    if (!OWN_CACHES.includes(entry)) link(`node_modules/.cache/${entry}`);
}
