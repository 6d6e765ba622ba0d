/** The manual pages as they go into the package: complete, and good to whatever shows them. */
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { ERROR_CODES, ERROR_KINDS } from '../../src/base/errorKinds.ts';
import { EXIT_MEANINGS, EXIT_STATUSES } from '../../src/cli/exit.ts';
import { wholeProgram } from '../../src/cli/program.ts';
import { FAILURES } from '../../src/cli/report.ts';
import { everyKey } from '../../src/config/document.ts';
import { isLive } from '../../src/config/reload.ts';
import { explanationsOf } from '../../systemd/bundle/configManual.ts';
import { manualPages } from '../../systemd/bundle/manual.ts';

const dir = t.testdir();
const pages = await manualPages('1.2.3', '2026-11-20');
for (const [name, page] of Object.entries(pages)) writeFileSync(join(dir, name), page);

function run(program: string, ...args: string[]) {
  const { status, stdout, stderr } = spawnSync(program, args, {
    cwd: dir,
    encoding: 'utf8',
    env: { PATH: process.env.PATH ?? '', LC_ALL: 'C.UTF-8' },
  });
  return { status, stdout, stderr };
}

/** Bold and underlined the way of printers: a character, a backspace, the character again. */
const OVERSTRUCK = /.[\b]/gu;

/** As a reader sees it, each paragraph on one line. */
function shown(name: string): string {
  const { stdout } = run('mandoc', '-T', 'utf8', '-O', 'width=1000', name);
  return stdout.replaceAll(OVERSTRUCK, '').replaceAll(/ +/g, ' ');
}

t.test('every command has a page, and every page its sections in their order', async (t) => {
  const { commands } = await wholeProgram();
  const names = commands.map((command) => `pdfseal-${command.name()}.1`);
  t.strictSame(
    readdirSync(dir).sort(),
    [
      ...names,
      'pdfseal.1',
      'pdfseald.8',
      'pdfseal-run.8',
      'pdfseal-witness.8',
      'pdfseald.toml.5',
      'pdfseal-errors.7',
    ].sort(),
  );
  const wanted = [
    'NAME',
    'SYNOPSIS',
    'DESCRIPTION',
    'OPTIONS',
    'EXIT STATUS',
    'FILES',
    'EXAMPLES',
    'SEE ALSO',
  ];
  for (const name of [...names, 'pdfseal.1', 'pdfseal-run.8', 'pdfseald.8']) {
    const titles = Array.from(pages[name]?.matchAll(/^\.SH (.*)$/gm) ?? [], ([, title]) => title ?? '');
    t.strictSame(
      titles.filter((title) => wanted.includes(title)),
      wanted,
      name,
    );
  }
  for (const command of commands.flatMap((one) => (one.commands.length > 0 ? one.commands : [one]))) {
    const group = command.parent?.parent ? command.parent.name() : command.name();
    const page = shown(`pdfseal-${group}.1`);
    // A word that was replaced still works, and is not shown.
    for (const { long, hidden } of command.options)
      t.equal(new RegExp(`${long}\\b`).test(page), !hidden, `${command.name()} ${long}`);
  }
});

t.test('mandoc and groff report no problems', async (t) => {
  for (const name of Object.keys(pages)) {
    t.match(run('mandoc', '-T', 'lint', '-W', 'warning', name), { status: 0, stdout: '', stderr: '' }, name);
    t.match(run('groff', '-ww', '-man', '-Tutf8', '-z', name), { status: 0, stdout: '', stderr: '' }, name);
  }
});

t.test('the manual lists every error code with its status and remedy', async (t) => {
  const page = shown('pdfseal-errors.7');
  const flowed = page.replaceAll(/\s+/g, ' ');
  for (const code of ERROR_CODES) {
    const { status, title, remedy } = ERROR_KINDS[code];
    t.ok(flowed.includes(` ${code} ${title}. ${remedy} `), code);
    const before = page.slice(0, page.indexOf(`\n ${code}`));
    t.equal(
      before.slice(before.lastIndexOf('HTTP status ')).slice(12, 15),
      String(status),
      `${code}: ${status}`,
    );
  }
  for (const [code, remedy] of Object.entries(FAILURES)) t.ok(flowed.includes(` ${code} ${remedy} `), code);
});

t.test('the manual lists the exit statuses of the commands', async (t) => {
  const page = shown('pdfseal.1');
  for (const status of EXIT_STATUSES)
    t.ok(page.includes(` ${status} ${EXIT_MEANINGS[status]}\n`), String(status));
  t.match(shown('pdfseal-check.1'), / 2 undecided/);
});

t.test(
  'the manual lists each configuration key below its own table, with its form, default, explanation, and what a reload does',
  async (t) => {
    const page = shown('pdfseald.toml.5');
    t.match(page, /\n \[http\]\n listen = "127\.0\.0\.1:8400"\n Where to listen: /);
    t.match(page, /\n level = "info"\n/);
    const sections = new Map(
      Array.from(
        page.matchAll(/\n (At the top of the file|\[.*\])\n([\s\S]*?)(?=\n \[.*\]\n|$)/g),
        ([, header = '', body = '']) => [header.startsWith('[') ? header : '', body],
      ),
    );
    const keys = everyKey();
    t.ok(keys.length > 90, `${keys.length} keys`);
    t.strictSame(
      [...sections.keys()],
      [...new Set(keys.map(({ table }) => table))],
      'in the order of the schema',
    );
    for (const { table, name, form, fallback, unset } of keys) {
      const body = sections.get(table) ?? '';
      const [, other] = /^ The keys are those of (\S+)\.\n/m.exec(body) ?? [];
      const own = other === undefined ? body : (sections.get(other) ?? '');
      const standard =
        fallback === undefined ? '' : ` = ${JSON.stringify(fallback).replaceAll('","', '", "')}`;
      // A short name has its explanation on the same line.
      const isThere = [' ', '\n'].some((end) => `\n${own}`.includes(`\n ${name}${standard}${end}`));
      t.ok(isThere, `${table} ${name}${standard}`);
      const path = [...(table.match(/[\w<>]+/g) ?? []), name].join('.');
      const value = [
        ` Expected: ${form}.`,
        ...(fallback === undefined && unset === undefined ? ['Required.'] : []),
        ...(unset === undefined ? [] : [`Default: ${unset}.`]),
        ...(isLive(path) ? ['A change takes effect on a reload.'] : []),
      ].join(' ');
      t.ok(own.replaceAll(/\s+/g, ' ').includes(value), `${path}:${value}`);
    }
    for (const name of ['certificate_file', 'key_file', 'client_ca_file'])
      t.notMatch(sections.get('[http]') ?? '', name, 'it is a key of [http.tls]');
  },
);

t.test('the example explains each key where it stands, and nothing else', async (t) => {
  const text = readFileSync('config/production.toml', 'utf8');
  const { byPath } = explanationsOf(text);
  const unexplained = everyKey()
    .map(({ table, name }) => [...(table.match(/[\w<>]+/g) ?? []), name].join('.'))
    .filter((path) => !byPath.has(path) && !/^(timestamp\.keys|clients)\./.test(path));
  t.strictSame(unexplained, EITHER, 'each is explained with the key above it');
  t.throws(() => explanationsOf(`${text}\n# kms_quorum = 1\n`), /no key of the schema/);
  t.throws(() => explanationsOf(`${text}\n# Alone.\n`), /explains nothing/);
});

/** Of each of these pairs the file has one. */
const EITHER = [
  'http.tls.key_credential',
  'console.tls.key_credential',
  'store.password_file',
  'store.acceptance_key_file',
  'kms.partitions.token_serial',
  'kms.partitions.pin_file',
  'kms.partitions.software_key_file',
];
