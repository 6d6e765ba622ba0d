import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import t from 'tap';

const CLI = join(import.meta.dirname, '../../src/cli.ts');

function pdfseal(...args: string[]) {
  return spawnSync(process.execPath, [CLI, ...args], { encoding: 'utf8' });
}

t.test('every command has help with its exit status or examples', async (t) => {
  const commands = [
    'init',
    'keys issue',
    'keys rotate',
    'jobs list',
    'jobs show',
    'submit',
    'verify',
    'log check',
    'webhooks add',
    'webhooks rotate',
    'webhooks replay',
    'trust export',
    'hsm init-key',
    'hsm install-certificate',
    'hsm certificates',
    'hsm drill',
    'status',
    'doctor',
  ];
  for (const command of commands) {
    const { status, stdout, stderr } = pdfseal(...command.split(' '), '--help');
    t.match(
      { status, stdout, stderr },
      { status: 0, stdout: /^Usage: pdfseal .*\n[\s\S]*Examples?:\n {2}[\s\S]*pdfseal/, stderr: '' },
      command,
    );
  }
  t.match(pdfseal('help', 'verify').stdout, /^Usage: pdfseal verify .*--trust <file>/s);
  const { stdout } = pdfseal('--help');
  for (const name of new Set(commands.map((command) => command.split(' ')[0]))) t.match(stdout, `  ${name} `);
  t.match(stdout, /Exit status: 0 done/);
});

t.test('help fits a terminal, says what is required, and shows defaults as they are typed', async (t) => {
  const lines = pdfseal('hsm', '--help').stdout.split('\n');
  t.strictSame(
    lines.filter((line) => line.length > 110),
    [],
  );
  const flowed = (...args: string[]) => pdfseal(...args, '--help').stdout.replaceAll(/\s+/g, ' ');
  t.match(flowed('keys', 'rotate'), /--overlap <duration> how long the old key stays valid \(default: 1d\)/);
  t.match(flowed('keys', 'issue'), /\(default: jobs:create,jobs:read\)/);
  t.match(flowed('keys', 'issue'), /--organization <name> organization of the client \(required\)/);
  t.match(flowed('submit'), /--timeout <duration> .*\(default: 10m\)/);
});

t.test('wrong usage', async (t) => {
  const cases: [args: string[], message: RegExp][] = [
    [['keys', 'rotat'], /unknown command 'rotat'/],
    [['nothing'], /unknown command 'nothing'/],
    [['verify', 'a', '--trust', 't'], /missing required argument 'receipt'/],
    [['verify', 'a', 'b'], /required option '--trust <file>'/],
    [['hsm', 'csr', '--config', 'x', '--subject', 'O=x'], /Expected "CN=…,O=…"/],
    [['init', '--config', 'x', '--root-validity', '36526d'], /a hundred years/],
    [['jobs', 'list'], /required option '--config <file>'/],
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
    const { status, stdout, stderr } = pdfseal(...args);
    t.match({ status, stdout }, { status: 64, stdout: '' }, args.join(' '));
    t.match(stderr, message);
    t.notMatch(stderr, /^ {4}at /m, 'no stack');
  }
});

t.test('a config file that is not right is told in a line, without a stack', async (t) => {
  const { status, stderr } = pdfseal('jobs', 'list', '--config', 'none.toml');
  t.equal(status, 1);
  t.equal(
    stderr,
    'pdfseal: none.toml: cannot read the config file (no such file or directory); name it with --config FILE\n',
  );
});

t.test('an older node is told apart from every outcome of a command', async (t) => {
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

t.test('version', async (t) => t.match(pdfseal('--version'), { status: 0, stdout: /^\d+\.\d+\.\d+\n$/ }));

t.test('a reader that goes away is no failure worth a stack', async (t) => {
  const script = `"${process.execPath}" "${CLI}" --help | true; exit \${PIPESTATUS[0]}`;
  const { status, stderr } = spawnSync('bash', ['-c', script], { encoding: 'utf8' });
  t.match({ status, stderr }, { status: 141, stderr: '' });
});
