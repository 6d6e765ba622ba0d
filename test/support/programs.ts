/** The programs that tests start. */
import { execFileSync } from 'node:child_process';
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { basename, join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { prepared } from './prepared.ts';

/** `src` is the TypeScript of now, one file instead of hundreds; `dist` is what `npm run build` made of it, or a changed copy of that. */
export type Code = 'src' | 'dist' | { dist: string };

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

/** The file of a program. */
export async function programFile(
  name: 'main' | 'cli' | 'cli/run' | 'main/witnessProgram',
  code: Code,
): Promise<string> {
  if (typeof code === 'object') return join(code.dist, `${name}.js`);
  if (code === 'dist') return join(ROOT, `dist/${name}.js`);
  return join(await prepared('programs', makePrograms), `${basename(name)}.js`);
}

/** Their addresses also tell which tests depend on a source (`../suite/changed.ts`). */
const PROGRAMS = [
  new URL('../../src/cli.ts', import.meta.url),
  new URL('../../src/cli/run.ts', import.meta.url),
  new URL('../../src/main.ts', import.meta.url),
  new URL('../../src/main/witnessProgram.ts', import.meta.url),
  new URL('../../src/main/egress.ts', import.meta.url),
  new URL('../../src/kms/signer.ts', import.meta.url),
  new URL('../../src/base/lifelineThread.ts', import.meta.url),
].map((url) => fileURLToPath(url));

/** What starts another of the programs, and finds it beside itself. */
const STARTERS = ['src/main/egressProcess.ts', 'src/kms/signerProcess.ts', 'src/base/companionProgram.ts'];

/** Beside the programs while what V8 compiles of them is kept. */
const RECORDING = 'recording';

async function makePrograms(dir: string): Promise<void> {
  await bundlePrograms(dir);
  writeFileSync(join(dir, RECORDING), '');
  await useOnce(dir);
  rmSync(join(dir, RECORDING));
  for (const name of USED_PROGRAMS)
    if (!existsSync(join(dir, `${name}.code`))) throw new Error(`nothing was kept of ${name}`);
}

/**
 * A command ran for half of its time to find, read and link some 300 modules, and the tests run hundreds of commands. What a program
 * finds by its own address (add-ons, workers, package.json) it finds beside the sources. A script of Node's older kind is
 * not linked at all, but has no `await` outside of functions.
 */
async function bundlePrograms(dir: string): Promise<void> {
  const { build } = await import('esbuild');
  const { outputFiles } = await build({
    entryPoints: PROGRAMS.map((path) => ({ in: path, out: basename(path, '.ts') })),
    outdir: dir,
    write: false,
    bundle: true,
    platform: 'node',
    format: 'cjs',
    target: `node${process.versions.node}`,
    minifyWhitespace: true,
    // A stack trace shows the line.
    lineLimit: 200,
    legalComments: 'none',
    logLevel: 'error',
    // Add-ons, and what starts threads.
    external: ['lmdb', 'pino', 'piscina', 'pkcs11js'],
    plugins: [
      {
        name: 'own address',
        setup: ({ onLoad, onResolve }) => {
          // The commands are in a file of their own, which tests load as well.
          onResolve({ filter: /^\.\/cli\/run\.ts$/ }, () => ({ path: './run.js', external: true }));
          onLoad({ filter: /\.ts$/ }, async ({ path }) => ({
            contents: (await readFile(path, 'utf8'))
              .replaceAll('import.meta.url', addressOf(path))
              .replace(/^await main\(/m, 'void main('),
            loader: 'ts',
          }));
        },
      },
    ],
  });
  for (const { path, text } of outputFiles) {
    const body = text.replace(/^#!.*/, '').replaceAll(/[^\0-\x7f]/g, escaped);
    writeFileSync(path.replace(/\.js$/, '.body'), `(function (require, __filename, module) {${body}\n})`);
    writeFileSync(path, STARTER, { mode: 0o755 });
  }
}

function addressOf(path: string): string {
  return STARTERS.includes(relative(ROOT, path))
    ? "require('node:url').pathToFileURL(__filename).href"
    : `'${pathToFileURL(path).href}'`;
}

/** V8 keeps and reads a text of ASCII in half of the time. */
function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/**
 * Node keeps what V8 made of a script before its first function ran, so each process compiled the same thousands of functions: a
 * seventh of a command. Here V8 keeps what it has compiled when a process ends.
 */
const STARTER = `#!/usr/bin/env node
const { existsSync, readFileSync, renameSync, writeFileSync } = require('node:fs');
const { Script } = require('node:vm');
const body = __filename.replace(/js$/, 'body');
const code = __filename.replace(/js$/, 'code');
const cachedData = existsSync(code) ? readFileSync(code) : undefined;
const script = new Script(readFileSync(body, 'latin1'), { filename: __filename, cachedData });
if (existsSync(__dirname + '/${RECORDING}')) {
  const keep = () => {
    writeFileSync(code + process.pid, script.createCachedData());
    renameSync(code + process.pid, code);
  };
  process.on('exit', keep);
  // Most signers are killed.
  setInterval(keep, 100).unref();
}
script.runInThisContext()(require, __filename, module);
`;

const USED_PROGRAMS = ['cli', 'run', 'main', 'witnessProgram', 'egress', 'signer'];

/** With an egress process, and a signer for time-stamps. */
const USED = { stamped: true, tables: { webhooks: 'allow = ["127.0.0.1"]' } };

/** Runs what most tests run. */
async function useOnce(dir: string): Promise<void> {
  const { openSandbox } = await import('./sandbox.ts');
  const sandbox = await openSandbox({ fresh: true, code: { dist: dir }, ...USED });
  const config = ['--config', sandbox.configFile];
  try {
    const document = join(sandbox.dir, 'a.pdf');
    const key = join(sandbox.dir, 'key');
    const trust = join(sandbox.dir, 'trust.json');
    writeFileSync(document, '%PDF-1.4\n%%EOF\n');
    writeFileSync(key, await sandbox.issueKey(), { mode: 0o600 });
    const daemon = await sandbox.start();
    const submit = ['submit', document, '--url', sandbox.url, '--key-file', key, '--visibility', 'private'];
    for (const command of [submit, ['status', ...config], ['doctor', ...config]])
      await sandbox.pdfseal(command);
    await daemon.stop();
    const { stdout } = await sandbox.pdfseal(['trust', 'export', ...config]);
    writeFileSync(trust, stdout);
    const verify = ['verify', document, `${document}.receipt.json`, '--trust', trust];
    for (const command of [verify, ['check', ...config], ['hsm', 'list', ...config]])
      await sandbox.pdfseal(command);
    const keygen = ['keygen', '--name', 'a.example/witness', '--key', join(sandbox.dir, 'witness')];
    execFileSync(process.execPath, [join(dir, 'witnessProgram.js'), ...keygen]);
  } finally {
    await sandbox.close();
  }
}
