/** Completion as the shells themselves do it. */
import { spawnSync } from 'node:child_process';
import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { SCRIPTS } from '../../src/cli/completion/scripts.ts';
import { VISIBILITIES } from '../../src/job/job.ts';
import { programFile } from '../support/programs.ts';
import { openSandbox } from '../support/sandbox.ts';

const CLI = await programFile('cli', 'src');

const sandbox = await openSandbox({ regions: ['eu', 'us'], init: false });
t.teardown(() => sandbox.close());

const dir = t.testdir({
  bin: {},
  functions: { _pdfseal: SCRIPTS.zsh },
  work: { 'a document.pdf': '', 'b.pdf': '', folder: {} },
  scripts: SCRIPTS,
});
const program = join(dir, 'bin/pdfseal');
writeFileSync(program, `#!/bin/sh\nexec '${process.execPath}' '${CLI}' "$@"\n`);
chmodSync(program, 0o755);

function run(shell: string, args: string[]): string {
  const { status, stdout, stderr } = spawnSync(shell, args, {
    cwd: join(dir, 'work'),
    encoding: 'utf8',
    env: {
      PATH: `${join(dir, 'bin')}:${process.env.PATH}`,
      HOME: dir,
      LANG: 'C.UTF-8',
      NODE_COMPILE_CACHE: join(import.meta.dirname, '../../node_modules/.cache/compiled'),
    },
  });
  if (status !== 0 || stderr !== '') throw new Error(`${shell} ended with ${status}: ${stderr}`);
  return stdout;
}

const config = ['--config', sandbox.configFile];
/** What is on the command line, and some of what is offered for its last word. */
const CASES: [words: string[], offered: readonly string[], not?: string[]][] = [
  [['ke'], ['keys'], ['hsm']],
  [
    ['keys', ''],
    ['issue', 'list', 'rotate', 'revoke', 'help'],
  ],
  [['help', 'keys', 'ro'], ['rotate']],
  [['jobs', 'list', ...config, '--ph'], ['--phase'], ['--config', '--visibility']],
  [['jobs', 'list', '--visibility', ''], VISIBILITIES, ['--phase']],
  [['jobs', 'list', '--visibility', 'org'], ['organization'], ['private']],
  [['backup', '--'], ['--output', '--dated'], ['--into']],
  [['keys', 'issue', ...config, '--client', ''], [], ['invoices']],
  [['hsm', 'drill', ...config, '--partition', 'e'], ['eu/sandbox-2026'], ['us/sandbox-2026']],
  [
    ['submit', '--url', 'x', ''],
    ['b.pdf', 'folder'],
  ],
  [
    ['completion', ''],
    ['bash', 'zsh', 'fish'],
  ],
  [['hsm', 'drill', '--config', '/nowhere', '--partition', ''], [], ['eu/sandbox-2026']],
];

/** The answers are the same for all: what differs is what a shell does with one of each kind. */
const ONE_OF_EACH_KIND = CASES.filter((_, index) => index % 3 === 0);

function check(name: string, cases: typeof CASES, complete: (words: string[]) => string[]): void {
  t.test(name, async (t) => {
    for (const [words, offered, not = []] of cases) {
      const found = complete(words).map((word) => word.replace(/\/$/, ''));
      const line = `pdfseal ${words.join(' ')}: ${found.join(' ')}`;
      t.strictSame(
        offered.filter((word) => !found.includes(word)),
        [],
        line,
      );
      t.strictSame(
        not.filter((word) => found.includes(word)),
        [],
        line,
      );
    }
  });
}

const lines = (text: string) => text.split('\n').filter((line) => line !== '');
const quote = (word: string) => `'${word}'`;

check('bash', CASES, (words) => {
  const all = ['pdfseal', ...words];
  const set = `COMP_WORDS=(${all.map(quote).join(' ')}); COMP_CWORD=${words.length}`;
  const script = `source '${dir}/scripts/bash'; complete -p pdfseal >/dev/null && ${set}; _pdfseal; printf '%s\\n' "\${COMPREPLY[@]}"`;
  return lines(run('bash', ['--norc', '-c', script]));
});

check('zsh', ONE_OF_EACH_KIND, (words) => {
  // What _describe and _files show is for the eye: here they print what they are given.
  const stubs = `_describe() { print -rl -- "$\{(@P)3}" }; _files() { print -rl -- * }`;
  const set = `words=(pdfseal ${words.map(quote).join(' ')}); CURRENT=$#words`;
  const script = `${stubs}; fpath=('${dir}/functions' $fpath); autoload -Uz _pdfseal; ${set}; _pdfseal || true`;
  return lines(run('zsh', ['-f', '-c', script])).map((line) =>
    line.replace(/(?<!\\):.*/, '').replaceAll('\\', ''),
  );
});

check('fish', ONE_OF_EACH_KIND, (words) => {
  const script = `source '${dir}/scripts/fish'; complete --do-complete '${['pdfseal', ...words].join(' ')}'`;
  return lines(run('fish', ['--no-config', '--command', script])).map((line) => line.split('\t')[0] ?? '');
});

// Behind the name of an environment, pdfseal-run takes what pdfseal takes.
const RUN_CASES: typeof CASES = [
  [['ke'], ['keys'], ['hsm']],
  [['keys', ''], ['issue', 'rotate'], ['hsm']],
  [['jobs', 'list', '--ph'], ['--phase'], ['--visibility']],
];
const RUN = join(import.meta.dirname, '../../systemd/completion/pdfseal-run');

check('bash, behind pdfseal-run', RUN_CASES, (words) => {
  const set = `COMP_WORDS=(pdfseal-run production ${words.map(quote).join(' ')}); COMP_CWORD=${words.length + 1}`;
  const script = `source '${dir}/scripts/bash'; source '${RUN}.bash'; ${set}; _pdfseal_run; printf '%s\\n' "\${COMPREPLY[@]}"`;
  return lines(run('bash', ['--norc', '-c', script]));
});

check('zsh, behind pdfseal-run', RUN_CASES, (words) => {
  const stubs = `_describe() { print -rl -- "$\{(@P)3}" }; _files() { }`;
  const set = `words=(pdfseal-run production ${words.map(quote).join(' ')}); CURRENT=$#words`;
  const script = `${stubs}; fpath=('${dir}/functions' $fpath); autoload -Uz _pdfseal; ${set}; source '${RUN}.zsh' || true`;
  return lines(run('zsh', ['-f', '-c', script])).map((line) => line.replace(/:.*/, ''));
});

check('fish, behind pdfseal-run', RUN_CASES, (words) => {
  const typed = ['pdfseal-run', 'production', ...words].join(' ');
  const script = `source '${dir}/scripts/fish'; source '${RUN}.fish'; complete --do-complete '${typed}'`;
  return lines(run('fish', ['--no-config', '--command', script])).map((line) => line.split('\t')[0] ?? '');
});
