/** The manual pages as they go into the package: complete, and good to whatever shows them. */
import { spawnSync } from 'node:child_process';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { EXIT_MEANINGS, EXIT_STATUSES } from '../../src/cli/exit.ts';
import { wholeProgram } from '../../src/cli/program.ts';
import { FAILURES } from '../../src/cli/report.ts';
import { ERROR_CODES, ERROR_KINDS } from '../../src/http/errorKinds.ts';
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
    [...names, 'pdfseal.1', 'pdfseald.8', 'pdfseal-run.8', 'pdfseald.toml.5', 'pdfseal-errors.7'].sort(),
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

t.test('mandoc and groff find nothing to complain of', async (t) => {
  for (const name of Object.keys(pages)) {
    t.match(run('mandoc', '-T', 'lint', '-W', 'warning', name), { status: 0, stdout: '', stderr: '' }, name);
    t.match(run('groff', '-ww', '-man', '-Tutf8', '-z', name), { status: 0, stdout: '', stderr: '' }, name);
  }
});

t.test('every error code, with its status and its remedy', async (t) => {
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

t.test('exit statuses, as the commands end with them', async (t) => {
  const page = shown('pdfseal.1');
  for (const status of EXIT_STATUSES)
    t.ok(page.includes(` ${status} ${EXIT_MEANINGS[status]}\n`), String(status));
  t.match(shown('pdfseal-check.1'), / 2 could not tell/);
});

t.test('the configuration: each key of the example with what is said of it', async (t) => {
  const page = shown('pdfseald.toml.5');
  t.match(page, /\n \[http\]\n listen = "127\.0\.0\.1:8400"\n Where to listen: /);
  t.match(page, /\n level = "info"\n/);
});
