/**
 * Makes the manual's table of modules: tries each module of `support/modules.ts`, or those that are named, with `pdfseal hsm acceptance`, and
 * keeps the reports in docs/hsm/modules. Run `node test/hsmModules.ts [NAME…]` when a module has a new version, on a machine that has
 * nothing else to do, and look at what it prints.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { AcceptanceReport } from '../src/cli/hsm/acceptanceReport.ts';
import { runProgram } from './support/commands.ts';
import { type DeviceModule, MODULES, type Token } from './support/modules.ts';
import { programFile } from './support/programs.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const FOLDER = join(ROOT, 'docs/hsm/modules');

/** What stands for the device, if it is not the device itself. */
const REMARKS: Readonly<Record<string, string>> = {
  'YubiHSM 2': 'a mock of the device',
  NetHSM: 'a mock of the device',
  'p11-kit remoting': 'SoftHSM behind it',
  'pkcs11-proxy': 'SoftHSM behind it',
};

const wanted = process.argv.slice(2);
mkdirSync(FOLDER, { recursive: true });
for (const module of MODULES) {
  if (wanted.length > 0 && !wanted.includes(module.name)) continue;
  const missing = module.missing?.();
  if (missing === undefined) await tryModule(module);
  else console.log(`${module.name}: cannot be had here: ${missing}`);
}
execFileSync(join(ROOT, 'node_modules/.bin/biome'), ['format', '--write', FOLDER]);

async function tryModule(module: DeviceModule): Promise<void> {
  const cleanups: (() => unknown)[] = [];
  try {
    const device = await module.start({ teardown: (end: () => unknown) => cleanups.unshift(end) });
    const remark = REMARKS[module.name];
    const line = [
      ...(device.through ?? []),
      ...[process.execPath, await programFile('cli', 'src'), 'hsm', 'acceptance', '--format', 'json'],
      ...['--for', '1s'],
      ...optionsOf(device.token),
      ...(remark === undefined ? [] : ['--remark', remark]),
    ];
    const { stdout, stderr } = await runProgram(line, {});
    if (stdout === '') throw new Error(`${module.name}: ${stderr}`);
    const report = JSON.parse(stdout) as AcceptanceReport;
    report.module.file = publicPath(report.module.file);
    const file = join(FOLDER, `${module.name.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-')}.json`);
    writeFileSync(file, `${JSON.stringify({ name: module.name, ...report }, undefined, 2)}\n`);
    console.log(`${module.name}: ${report.outcome}`);
  } finally {
    for (const end of cleanups) await end();
  }
}

function optionsOf({ module, tokenLabel, libraryParameters, pinFile, environment = {} }: Token): string[] {
  const variables = Object.entries(environment).map(([name, value]) => `${name}=${value}`);
  return [
    ...['--module', module ?? '', '--token', tokenLabel ?? '', '--pin-file', pinFile],
    ...(libraryParameters === undefined ? [] : ['--library-parameters', libraryParameters]),
    ...variables.flatMap((variable) => ['--variable', variable]),
  ];
}

/** Where the module is on a machine that has its package. */
function publicPath(file: string): string {
  const at = file.indexOf('/usr/lib/');
  return at > 0 ? file.slice(at) : file;
}
