/** What the manual names exists: commands, options, keys, files, headings, codes. */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import t from 'tap';
import { ERROR_KINDS } from '../src/base/errorKinds.ts';
import { wholeProgram } from '../src/cli/program.ts';
import { everyKey } from '../src/config/document.ts';
import stableNames from './stableNames.json' with { type: 'json' };
import { suiteCosts } from './suite/suiteCosts.ts';
import { BESIDE, leadsSomewhere, linksOf, MANUAL, pageAt, ROOT } from './support/manual.ts';

const blocks = MANUAL.flatMap((page) => page.blocks);
const spans = MANUAL.flatMap((page) => page.spans);

t.test('a page has one title, and no two headings of one name', async (t) => {
  t.ok(MANUAL.length > 30, `${MANUAL.length} pages`);
  for (const { path, text, headings } of MANUAL) {
    t.match(text, /^# /, path);
    t.equal(headings.filter(({ level }) => level === 1).length, 1, path);
    t.equal(new Set(headings.map(({ anchor }) => anchor)).size, headings.length, path);
  }
});

t.test('the README is short, and every page is reached from it', async (t) => {
  t.ok(statSync(join(ROOT, 'README.md')).size <= 10 * 1024);
  const reached = new Set(['README.md']);
  for (const path of reached)
    for (const link of linksOf(pageAt(path))) if (link.path.endsWith('.md')) reached.add(link.path);
  t.strictSame([...reached].toSorted(), MANUAL.map(({ path }) => path).toSorted());
});

t.test('the README names the Debian packages that the set-up installs', async (t) => {
  const named = new Set(readFileSync(join(ROOT, 'README.md'), 'utf8').match(/[a-z0-9.+-]+/g));
  const setUp = readFileSync(join(ROOT, 'test/setup.sh'), 'utf8');
  const pairs = setUp.matchAll(/[ '](?!compile:)[\w/.-]+:([a-z0-9.+-]+)(?=[ ;'\n])/g);
  const missing = Array.from(pairs, ([, name = '']) => name).filter((name) => !named.has(name));
  t.strictSame(missing, []);
  t.match(setUp, / softhsm2-util:softhsm2 .* chronyd:chrony /s, 'as it is written there');
});

t.test('every link within the manual has a target', async (t) => {
  const links = [...MANUAL, ...BESIDE].flatMap((page) =>
    linksOf(page).map((link) => ({ from: page.path, ...link })),
  );
  t.ok(links.length > 60, `${links.length} of them`);
  for (const { from, path, anchor } of links)
    t.ok(
      path.endsWith('.md') ? leadsSomewhere({ path, anchor }) : existsSync(join(ROOT, path)),
      `${from}: ${path}#${anchor}`,
    );
});

t.test('every file that is named exists', async (t) => {
  const roots = 'src|test|config|systemd|native|page|docs';
  const all = [...MANUAL, ...BESIDE].flatMap((page) => page.spans);
  const named = all.flatMap((span) => span.match(new RegExp(`^(${roots})/[\\w./@-]*$`, 'g')) ?? []);
  t.ok(named.length > 30, `${named.length} of them`);
  for (const path of named) t.ok(existsSync(join(ROOT, path)), path);
  for (const span of spans)
    for (const [, dropIn = ''] of span.matchAll(/^drop-ins\/([\w-]+\.conf)$/g))
      t.ok(existsSync(join(ROOT, 'systemd/examples', dropIn)), dropIn);
});

/** Command lines of pdfseal, without what a shell makes of the rest of the line. */
function commandLines(): string[] {
  const scripts = blocks
    .filter(({ language }) => language === 'sh')
    .flatMap(({ body }) => body.replaceAll(/\\\n\s*/g, ' ').split('\n'));
  const lines = [...scripts, ...spans.map((span) => span.replaceAll('\\|', '|'))];
  return lines.flatMap((line) =>
    Array.from(
      line.matchAll(/(?:^|[|(;&])\s*(?:pdfseal|pdfseal-run \S+) ((?:"[^"]*"|[^#;>)"])*)/g),
      ([, words = '']) => words,
    ),
  );
}

/** What is wrong with a command line, if anything; `a|b` stands for either. */
function faultOf(program: Command, line: string): string | undefined {
  const words = line.match(/"[^"]*"|\S+/g) ?? [];
  let commands = [program];
  for (const word of words) {
    if (word.startsWith('--')) {
      const [name] = word.replace(/[.,:]+$/, '').split('=');
      const lacking = commands.find(
        ({ options }) => name !== '--help' && !options.some(({ long }) => long === name),
      );
      if (lacking !== undefined) return `${lacking.name()} has no option ${name}`;
      continue;
    }
    const parents = commands.filter((command) => command.commands.length > 0);
    if (parents.length === 0 || word === 'COMMAND…' || word === 'COMMAND') continue;
    const next = word
      .split('|')
      .map((name) => parents[0]?.commands.find((command) => command.name() === name));
    const found = next.filter((command) => command !== undefined);
    if (found.length < next.length) return `no command ${word}`;
    commands = found;
  }
  return undefined;
}

t.test('every command line uses existing commands and options', async (t) => {
  const program = await wholeProgram();
  const lines = commandLines();
  t.ok(lines.length > 60, `${lines.length} of them`);
  for (const line of lines) t.equal(faultOf(program, line), undefined, line);
  t.equal(faultOf(program, 'log check'), 'no command log');
  t.equal(faultOf(program, 'hsm list|gone'), 'no command list|gone');
  t.equal(faultOf(program, 'hsm list --gone x'), 'list has no option --gone');
});

const KEYS = everyKey().map(({ table, name }) => [...(table.match(/[\w<>]+/g) ?? []), name]);

/** Whether there is a key or a table of that path, in which an administrator may have chosen some names. */
function hasKey(path: readonly string[]): boolean {
  return KEYS.some((key) => path.every((part, n) => part === key[n] || key[n] === '<name>'));
}

/** Members of manifests and of objects, and folders, have such names too. */
const NO_KEYS = [
  'pdf.attached',
  'scan.verdict',
  'scan.signatures',
  'log.create',
  'store.trail',
  'store.<time>',
];

t.test('every configuration key that is named is in the schema', async (t) => {
  const tables = [...new Set(KEYS.map(([first]) => first))].join('|');
  const dotted = new RegExp(`^\\[?\\[?((?:${tables})(?:\\.[\\w<>]+)+)\\]?\\]?(?: = .*)?$`);
  const named = spans
    .flatMap((span) => dotted.exec(span)?.[1] ?? [])
    .filter((key) => !NO_KEYS.includes(key) && !key.endsWith('.ts'));
  t.ok(named.length > 40, `${named.length} of them`);
  for (const key of named) t.ok(hasKey(key.split('.')), key);
  for (const { body } of blocks.filter(({ language }) => language === 'toml')) {
    let table: string[] = [];
    for (const line of body.split('\n')) {
      const [, header, key] = /^\[+([\w.]+)\]+|^(\w+) = /.exec(line) ?? [];
      if (header !== undefined) table = header.split('.');
      if (key !== undefined) t.ok(hasKey([...table, key]), `${table.join('.')}.${key}`);
    }
  }
  t.notOk(hasKey(['kms', 'partitions', 'slot']));
});

t.test('every error code has its row', async (t) => {
  const statuses = Object.entries(ERROR_KINDS).map(([code, { status }]) => [code, status]);
  t.strictSame(
    Object.fromEntries(statuses),
    stableNames.errorCodes,
    'none renamed, removed or of another status',
  );
  const api = pageAt('docs/api.md').text;
  for (const [code, { status, title }] of Object.entries(ERROR_KINDS))
    t.ok(api.includes(`\n| \`${code}\` | ${status} | ${title} |\n`), code);
});

t.test('every failure code of the signers has its row', async (t) => {
  const sources = ['token', 'module', 'pinFile', 'keyOperations', 'partition', 'signerProcess'].map((name) =>
    readFileSync(join(ROOT, `src/kms/${name}.ts`), 'utf8'),
  );
  const codes = new Set(
    sources.flatMap((source) =>
      Array.from(source.matchAll(/SignerFailure\(\s*'([a-z_]+)'/g), ([, code = '']) => code),
    ),
  );
  // Said only among ourselves: the daemon is stopping, or asked out of turn.
  for (const code of ['signer_closed', 'signer_error']) codes.delete(code);
  t.ok(codes.size > 10);
  const told = pageAt('docs/hsm/messages.md').spans;
  for (const code of codes) t.ok(told.includes(code), code);
});

t.test(
  'every command line of journalctl that people are given names the namespace of pdfseald',
  async (t) => {
    const named = ['docs', 'src', 'systemd', 'config'].flatMap((folder) =>
      readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .flatMap((entry) => {
          const path = join(entry.parentPath, entry.name);
          const lines = readFileSync(path, 'utf8').split('\n');
          return lines.filter((line) => /journalctl -/.test(line)).map((line) => `${path}: ${line}`);
        }),
    );
    t.ok(named.length > 10, `${named.length} lines`);
    for (const line of named) t.notMatch(line, /journalctl (?!--namespace=\+?pdfseald\b)-/);
  },
);

t.test('the page about the tests names the ten dearest test files', async (t) => {
  const dearest = Object.keys(suiteCosts.files).slice(0, 10);
  t.equal(dearest.length, 10);
  const text = readFileSync(join(ROOT, 'test/README.md'), 'utf8');
  const [, named = ''] = /^The ten dearest test files[\s\S]*?\): (.*)/m.exec(text) ?? [];
  t.strictSame(Array.from(named.matchAll(/`([^`]+)`/g), ([, name]) => name).sort(), dearest.sort());
});
