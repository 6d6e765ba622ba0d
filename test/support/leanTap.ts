/**
 * Loaded before every test file (see `.taprc`), and before anything of tap. tap records each process for its coverage report: it loads
 * itself, and the source maps of all modules, into every process that a test starts, and in the process of the test it reads the text
 * of every module once more. Without a report that is a fifth of the time of the suite, and a process under test gets an environment
 * that its test did not give it. Source maps are left out as well: Node strips types in place, so lines and columns are those of the
 * sources without any map. And tap comes in one file, from `bundleTap.ts`: its 300 modules took half of the time of an empty test file.
 */
import childProcess from 'node:child_process';
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { registerHooks, syncBuiltinESMExports } from 'node:module';
import { basename, join, relative } from 'node:path';
import { isMainThread } from 'node:worker_threads';

const BUNDLE = new URL('../../node_modules/@tapjs/test/test-built/dist/tap.mjs', import.meta.url).href;
/** Not after tap put itself together anew, until `test/setup.sh` runs. */
const bundled = existsSync(new URL(BUNDLE));
const RECORDER = /\/@tapjs\/processinfo\/dist\/esm\/import\.mjs$/;
const COMPANION = /\/src\/(?:kms\/signer|main\/egress)\.ts$/;

registerHooks({
  resolve(specifier, context, nextResolve) {
    if (specifier === 'tap' && bundled) return { url: BUNDLE, format: 'module', shortCircuit: true };
    if (RECORDER.test(specifier))
      return { url: 'data:text/javascript,', format: 'module', shortCircuit: true };
    return nextResolve(specifier, context);
  },
});
process.setSourceMapsEnabled = () => {};
reportTo(process.env.PDFSEALD_EVENTS);
startBundled(process.env.PDFSEALD_PROGRAMS);
// These were for this process.
delete process.env.NODE_OPTIONS;
delete process.env.PDFSEALD_EVENTS;
delete process.env.PDFSEALD_PROGRAMS;

/**
 * A signer or an egress process that the code under test starts from its sources takes half a second of processor time; from the
 * programs that `programs.ts` keeps in one file each, in this folder, a fifth of that.
 */
function startBundled(programs: string | undefined): void {
  if (programs === undefined) return;
  const bundled = (argument: string) =>
    COMPANION.test(argument) ? join(programs, basename(argument).replace(/ts$/, 'js')) : argument;
  const { spawn } = childProcess;
  childProcess.spawn = ((command: string, args: unknown, ...more: unknown[]) =>
    Reflect.apply(spawn, childProcess, [
      command,
      Array.isArray(args) ? args.map(bundled) : args,
      ...more,
    ])) as typeof spawn;
  syncBuiltinESMExports();
}

/** Appends a line when the test file begins, and one with its processor time when it ends: see `suite/runFiles.ts`. */
function reportTo(events: string | undefined): void {
  if (events === undefined || !isMainThread) return;
  const file = relative(process.cwd(), process.argv[1] ?? '');
  const report = (more: object) => appendFileSync(events, `${JSON.stringify({ file, ...more })}\n`);
  report({});
  process.on('exit', () => report({ cpuMs: cpuMs() }));
}

/** The processor time of this process, and of those that it started and saw end. */
function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  // proc_pid_stat(5): cutime and cstime, in hundredths of a second. The name of the program, in parentheses, may have blanks.
  const [, fields = ''] = readFileSync('/proc/self/stat', 'utf8').split(/\) (?=[^)]*$)/);
  const [cutime = 0, cstime = 0] = fields.split(' ').slice(13, 15).map(Number);
  return (user + system) / 1000 + (cutime + cstime) * 10;
}
