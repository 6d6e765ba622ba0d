import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import type { Command } from 'commander';
import t, { type Test } from 'tap';
import { EXIT_MEANINGS, EXIT_STATUSES } from '../../src/cli/exit.ts';
import { commandAt, explanationOf, shownOptions, withSubcommands } from '../../src/cli/help.ts';
import { CONFIG_DESCRIPTION, defaultConfigFile } from '../../src/cli/options.ts';
import { programFor, wholeProgram } from '../../src/cli/program.ts';
import { commandFailure } from '../../src/cli/report.ts';
import { UnknownOutcome } from '../../src/store/store.ts';
import stableNames from '../stableNames.json' with { type: 'json' };
import { pdfseal } from '../support/commands.ts';
import { pageAt } from '../support/manual.ts';
import { programFile } from '../support/programs.ts';

const CLI = await programFile('cli', 'src');

const program = await wholeProgram();
const commands = withSubcommands(program);

t.test('every command has help with its exit status and an example that names it', async (t) => {
  for (const command of commands.filter((one) => one.commands.length === 0)) {
    const path = pathOf(command);
    const { examples = [] } = explanationOf(command) ?? {};
    t.ok(
      examples.some((line) => line.includes(path)),
      path,
    );
    for (const line of examples.filter((line) => line.startsWith('pdfseal '))) checkExample(t, line);
  }
  for (const name of ['verify', 'keys rotate', 'hsm drill']) {
    const { status, stdout, stderr } = await pdfseal([...name.split(' '), '--help']);
    const form =
      /^Usage: pdfseal .*\n[\s\S]*\nExit status:\n {3}0 {2}[\s\S]*\n\nExamples:\n {2}[\s\S]*pdfseal/;
    t.match({ status, stdout, stderr }, { status: 0, stdout: form, stderr: '' }, name);
  }
  const { stdout } = await pdfseal(['--help']);
  for (const { name } of program.commands.map((one) => ({ name: one.name() }))) t.match(stdout, `  ${name} `);
});

function pathOf(command: Command): string {
  return command.parent ? `${pathOf(command.parent)} ${command.name()}` : command.name();
}

/** It names a command that is there, and options that this command has. */
function checkExample(t: Test, line: string): void {
  const [, ...words] = line.split(/ {2,}|[|>]/)[0]?.split(' ') ?? [];
  const names = words.slice(
    0,
    words.findIndex((word) => !/^[a-z-]+$/.test(word) || word.startsWith('-')),
  );
  const depth = names.findLastIndex((_, index) => commandAt(program, names.slice(0, index + 1)));
  const command = commandAt(program, names.slice(0, depth + 1));
  t.ok(command, line);
  const options = words.filter((word) => word.startsWith('--'));
  const known = command?.options.map(({ long }) => long) ?? [];
  t.strictSame(
    options.filter((option) => !known.includes(option)),
    [],
    line,
  );
}

t.test('an option has the same argument and description in every command', async (t) => {
  const said = new Map<string, Set<string>>();
  for (const command of commands)
    for (const { flags, long } of shownOptions(command))
      said.set(long ?? '', (said.get(long ?? '') ?? new Set()).add(flags));
  for (const [name, flags] of said) t.equal(flags.size, 1, `${name}: ${[...flags].join(' and ')}`);
  for (const { options } of commands)
    for (const { long, description } of options)
      if (long === '--config') t.equal(description, CONFIG_DESCRIPTION);
});

t.test('old names of options still work, and the new name is printed', async (t) => {
  const former = commands.flatMap((command) =>
    Object.entries(explanationOf(command)?.formerly ?? {}).map(
      (names) => [pathOf(command), ...names] as const,
    ),
  );
  t.strictSame(former.map(([path, old]) => `${path} ${old}`).sort(), [
    'pdfseal audit export --into',
    'pdfseal audit verify --folder',
    'pdfseal backup --into',
    'pdfseal hsm certify --organization-name',
    'pdfseal init --organization-name',
    'pdfseal keys issue --expires',
    'pdfseal keys issue --validity',
    'pdfseal keys rotate --expires',
    'pdfseal keys rotate --validity',
    'pdfseal repair-index --backup-into',
    'pdfseal restore --from',
  ]);
  for (const [path, old, now] of former) {
    const words = path.split(' ').slice(1);
    const value = ['--expires', '--validity'].includes(old) ? '90d' : 'x';
    const parsed = async (...options: string[]) => {
      const command = commandAt(await programFor(words), words);
      if (command === undefined) throw new Error(path);
      command.exitOverride().configureOutput({ writeErr: () => {} });
      for (const option of command.options) option.mandatory = false;
      for (const argument of command.registeredArguments) argument.argOptional();
      command.action(() => {});
      const said = t.capture(process.stderr, 'write', () => true);
      await command.parseAsync([...options, '--config', 'x'], { from: 'user' });
      said.restore();
      return { values: command.opts(), told: said.args().join('') };
    };
    const [name = '', ...flags] = now.split(' ');
    const [before, after] = [await parsed(old, value), await parsed(name, value, ...flags)];
    t.strictSame(before.values, after.values, `${path} ${old}`);
    t.equal(before.told, `pdfseal: ${old} is now ${now}; both work\n`);
    t.equal(after.told, '');
    const both = { message: `error: ${old} is now ${name}: name one of them` };
    await t.rejects(parsed(old, value, name, value), both);
    await t.rejects(parsed(name, value, old, value), both);
    const help = commandAt(program, words)?.helpInformation() ?? '';
    t.match(help, `${name} `);
    t.notMatch(help, `${old} `, 'help knows the new name only');
  }
});

t.test('without --config, the environment or the only file of a folder names the config file', async (t) => {
  const dir = t.testdir({
    none: { 'production.pins': '' },
    one: { 'production.toml': '', 'production.pins': '' },
    two: { 'sandbox.toml': '', 'production.toml': '' },
  });
  t.equal(defaultConfigFile('/other.toml', join(dir, 'one')), '/other.toml', 'the environment comes first');
  t.equal(defaultConfigFile(undefined, join(dir, 'one')), join(dir, 'one/production.toml'));
  t.throws(() => defaultConfigFile(undefined, join(dir, 'none')), /there is none in/);
  t.throws(() => defaultConfigFile(undefined, join(dir, 'away')), /cannot be read \(no such file/);
  const both = `${join(dir, 'two/production.toml')}, ${join(dir, 'two/sandbox.toml')}`;
  t.throws(() => defaultConfigFile(undefined, join(dir, 'two')), { message: new RegExp(`: ${both}$`) });
  const env = { PDFSEAL_CONFIG: '/nowhere.toml' };
  for (const args of [['keys', 'list'], ['status'], ['audit', 'verify']]) {
    const { stderr } = await pdfseal(args, { env });
    t.match(stderr, /^pdfseal: \/nowhere\.toml: cannot read the config file/, args.join(' '));
  }
  const { stderr } = await pdfseal(['keys', 'list', '--config', 'named.toml'], { env });
  t.match(stderr, /^pdfseal: named\.toml: /, '--config comes before the environment');
});

t.test('the URL of the service can be in the environment', async (t) => {
  const submit = (url: string, ...args: string[]) =>
    pdfseal(['submit', 'a.pdf', '--visibility', 'private', ...args], {
      env: { PDFSEAL_URL: url, PDFSEAL_API_KEY: 'a' },
    });
  t.match(await submit('http://127.0.0.1:9'), { status: 1, stderr: /cannot read a\.pdf \(no such file/ });
  t.match(await submit('ftp://x'), { status: 64, stderr: /PDFSEAL_URL: Expected an http or https URL/ });
  t.match(await submit('ftp://x', '--url', 'http://127.0.0.1:9'), { status: 1 }, 'the option comes first');
});

t.test('the help and the manual list every exit status', async (t) => {
  t.strictSame(EXIT_MEANINGS, stableNames.exitStatuses);
  const { stdout } = await pdfseal(['--help']);
  const { text: manual } = pageAt('docs/operate/commands.md');
  for (const status of EXIT_STATUSES) {
    t.match(stdout, new RegExp(`^ +${status}  ${EXIT_MEANINGS[status]}$`, 'm'));
    t.ok(manual.includes(`\n| ${status} | ${EXIT_MEANINGS[status]} |\n`), `manual: ${status}`);
  }
});

t.test('help works for nested commands, and suggests the name of a mistyped one', async (t) => {
  t.match((await pdfseal(['help', 'verify'])).stdout, /^Usage: pdfseal verify .*--trust <file>/s);
  t.match((await pdfseal(['keys', 'rotate', 'key_1', '--help'])).stdout, /^Usage: pdfseal keys rotate /);
  const asked = await pdfseal(['help', 'keys', 'issue']);
  t.equal(asked.stdout, (await pdfseal(['keys', 'issue', '--help'])).stdout);
  for (const args of [
    ['help', 'keys', 'isue'],
    ['keys', 'isue', '--help'],
  ])
    t.match(await pdfseal(args), { status: 64, stdout: '', stderr: /Did you mean issue\?/ });
});

t.test('help fits a terminal, says what is required, and shows defaults as they are typed', async (t) => {
  const lines = (await pdfseal(['hsm', '--help'])).stdout.split('\n');
  t.strictSame(
    lines.filter((line) => line.length > 110),
    [],
  );
  const flowed = async (...args: string[]) =>
    (await pdfseal([...args, '--help'])).stdout.replaceAll(/\s+/g, ' ');
  t.match(
    await flowed('keys', 'rotate'),
    /--overlap <duration> how long the old key stays valid \(default: 1d\)/,
  );
  t.match(await flowed('keys', 'issue'), /\(default: jobs:create,jobs:read\)/);
  t.match(await flowed('keys', 'issue'), /--organization <name> organization of the client \(required\)/);
  t.match(await flowed('submit'), /--timeout <duration> .*\(default: 10m\)/);
});

t.test('wrong usage ends with 64 and a message, without a stack', async (t) => {
  const cases: [args: string[], message: RegExp][] = [
    [['keys', 'rotat'], /unknown command 'rotat'/],
    [['nothing'], /unknown command 'nothing'/],
    [['statu'], /Did you mean status\?/],
    [['keys', 'list', '--confg', 'x'], /unknown option '--confg'\n\(Did you mean --config\?\)/],
    [['verify', '--trust', 't'], /missing required argument 'document'/],
    [['verify', 'a', 'b'], /required option '--trust <file>'/],
    [['backup', '--config', 'x'], /required option '--output <path>' not specified/],
    [['submit', 'a.pdf'], /required options '--url <url>', '--visibility <name>' not specified/],
    [['submit', 'a.pdf', '--visibility', 'private'], /required option '--url <url>' not specified/],
    [['hsm', 'csr', '--config', 'x', '--subject', 'O=x'], /Expected "CN=…,O=…"/],
    [['init', '--config', 'x', '--root-validity', '36526d'], /a hundred years/],
    [['jobs', 'list'], /config file.*: name it with --config FILE/],
    [
      ['jobs', 'list', '--config', 'x', '--phase', 'hashing'],
      /Allowed choices are queued, completed, failed/,
    ],
    [['jobs', 'list', '--config', 'x', '--document-sha256', 'ab'], /Expected 64 hexadecimal characters/],
    [['submit', 'a.pdf', '--url', 'http://x', '--visibility', 'public'], /Allowed choices are private/],
    [
      ['submit', 'a.pdf', '--url', '127.0.0.1:8400', '--visibility', 'private'],
      /Expected an http or https URL/,
    ],
    [
      ['submit', 'a', 'b', '--url', 'http://x', '--visibility', 'private', '--idempotency-key', '12345678'],
      /--idempotency-key is for one document/,
    ],
  ];
  for (const [args, message] of cases) {
    const { status, stdout, stderr } = await pdfseal(args);
    t.match({ status, stdout }, { status: 64, stdout: '' }, args.join(' '));
    t.match(stderr, message);
    t.notMatch(stderr, /^ {4}at /m, 'no stack');
  }
});

t.test('a config file that cannot be read is reported in one line, without a stack', async (t) => {
  const { status, stderr } = await pdfseal(['jobs', 'list', '--config', 'none.toml']);
  t.equal(status, 1);
  t.equal(
    stderr,
    'pdfseal: none.toml: cannot read the config file (no such file or directory); name it with --config FILE\n',
  );
});

t.test('an internal error is reported in one line too', async (t) => {
  const failure = commandFailure(new TypeError('x is not a function'));
  t.match(failure, {
    code: 'internal_error',
    message: 'internal error: x is not a function',
    remedy: /PDFSEAL_STACK/,
  });
});

t.test('a failed write is reported as a fault of the disk, not of the program', async (t) => {
  const failure = commandFailure(new UnknownOutcome(new Error('No space left on device')));
  t.match(failure, {
    code: 'internal_error',
    message: 'the store cannot tell whether its last write is on disk (No space left on device)',
    remedy: /^Repair the disk or the database, or free space on it/,
  });
});

t.test('a Node.js that is too old is reported with exit status 64', async (t) => {
  const pretend = `Object.defineProperty(process.versions, 'node', { value: '20.19.0' })`;
  const old = `data:text/javascript,${encodeURIComponent(pretend)}`;
  const { status, stdout, stderr } = spawnSync(process.execPath, ['--import', old, CLI, 'verify'], {
    encoding: 'utf8',
  });
  t.match(
    { status, stdout, stderr },
    { status: 64, stdout: '', stderr: /^pdfseal: needs Node.js 24, .*\n$/ },
  );
});

t.test('--version prints the version, and says that the commit of a checkout is unknown', async (t) => {
  const { status, stdout } = spawnSync(process.execPath, [CLI, '--version'], { encoding: 'utf8' });
  t.match({ status, stdout }, { status: 0, stdout: /^\d+\.\d+\.\d+ \(commit unknown: not a release\)\n$/ });
});

t.test('a closed pipe ends the command with 141, without a stack', async (t) => {
  const script = `"${process.execPath}" "${CLI}" --help | true; exit \${PIPESTATUS[0]}`;
  const { status, stderr } = spawnSync('bash', ['-c', script], { encoding: 'utf8' });
  t.match({ status, stderr }, { status: 141, stderr: '' });
});

t.test('output that cannot be written is an error in one line, not a verdict', async (t) => {
  for (const [args, told] of [
    [
      'completion bash',
      /^pdfseal: standard output cannot be written \(no space left on device\)\n {2}→ .*\n$/,
    ],
    [
      'hsm make-software-key "$0" --json',
      /^\{"error":\{"code":"\w+","message":"standard output cannot be written .*\}\n$/m,
    ],
  ] as const) {
    const script = `"${process.execPath}" "${CLI}" ${args} >/dev/full`;
    const { status, stderr } = spawnSync('bash', ['-c', script, join(t.testdir(), 'key')], {
      encoding: 'utf8',
    });
    t.match({ status, stderr }, { status: 70, stderr: told }, args);
  }
});
