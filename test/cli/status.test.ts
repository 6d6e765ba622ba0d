/** The overview, as somebody sees it who was woken up for it. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { acquireLock } from '../../src/base/lock.ts';
import { readStatus } from '../../src/cli/daemon/statusCommand.ts';
import { render } from '../../src/cli/daemon/statusReport.ts';
import { commandFailure } from '../../src/cli/report.ts';
import { type Config, loadConfig } from '../../src/config/config.ts';
import { judged } from '../../src/health/healthFindings.ts';
import type { AdminStatus } from '../../src/health/statusSchema.ts';
import { askAdmin } from '../support/admin.ts';
import { programFile } from '../support/programs.ts';
import { openSandbox } from '../support/sandbox.ts';
import { until } from '../support/until.ts';

const CLI = await programFile('cli', 'src');

const sandbox = await openSandbox({ regions: ['eu', 'us'] });
t.teardown(() => sandbox.close());
const other = await openSandbox({ init: false });
t.teardown(() => other.close());
const config = ['--config', sandbox.configFile];

/** What a failed look says, by its code. */
async function failureAt(config: Config) {
  return commandFailure(await readStatus(config).catch((error: unknown) => error));
}

t.test('a daemon that cannot be asked is explained, with a remedy', async (t) => {
  const config = loadConfig(sandbox.configFile);
  t.match(await failureAt(config), {
    code: 'no_daemon',
    remedy: /^start it: systemctl start pdfseald@sandbox; /,
  });

  const lock = acquireLock(config.lockFile);
  const starting = await failureAt(config).finally(() => lock.release());
  t.match(starting, {
    code: 'daemon_starting',
    message: new RegExp(`process ${process.pid} uses`),
    remedy: /^wait: /,
  });

  const folder = join(sandbox.dir, 'closed');
  mkdirSync(folder);
  const at = (path: string): Config => ({ ...config, admin: { socket: { path } } });
  const rude = createServer((socket) => socket.destroy()).listen(join(folder, 'a.sock'));
  t.teardown(() => rude.close());
  await once(rude, 'listening');
  t.match(await failureAt(at(join(folder, 'a.sock'))), { code: 'daemon_silent', remedy: /read the log/ });

  chmodSync(folder, 0o000);
  // Nothing is closed to root.
  const isRoot = process.geteuid?.() === 0;
  if (isRoot) process.seteuid?.(65_534);
  const denied = await failureAt(at(join(folder, 'a.sock'))).finally(() => isRoot && process.seteuid?.(0));
  chmodSync(folder, 0o700);
  t.match(denied, { code: 'permission_denied', remedy: /^run this as root, as the daemon’s user/ });
});

/** `pdfseal status --watch` on a terminal of its own; what it shows, and how it leaves the terminal. */
class Terminal {
  readonly #dir: string;
  readonly #child: ChildProcess;
  #output = '';

  constructor(t: Test, size: { columns: number; rows: number }, env: Record<string, string> = {}) {
    this.#dir = t.testdir();
    const { columns, rows } = size;
    const watch = `'${process.execPath}' '${CLI}' status --config '${sandbox.configFile}' --watch 200ms`;
    const script = [
      `trap : INT; stty cols ${columns} rows ${rows}; cd '${this.#dir}'; tty >tty; stty -g >before`,
      `sh -c 'echo $$ >pid; exec "$@"' - ${watch}; echo $? >status; stty -g >after`,
    ].join('\n');
    this.#child = spawn('script', ['--quiet', '--return', '--command', script, '/dev/null'], {
      env: { PATH: process.env.PATH, TERM: 'xterm-256color', LANG: 'C.UTF-8', ...env },
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    this.#child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.#output += text;
    });
  }

  /** Waits until it has shown what fits. */
  shows(wanted: RegExp): Promise<void> {
    return until(`${wanted} is shown`, () => wanted.test(this.#output));
  }

  get output(): string {
    return this.#output;
  }

  forget(): void {
    this.#output = '';
  }

  press(key: string): void {
    this.#child.stdin?.write(key);
  }

  async resize(columns: number, rows: number): Promise<void> {
    const args = ['-F', this.#read('tty'), 'cols', String(columns), 'rows', String(rows)];
    await once(spawn('stty', args), 'close');
  }

  terminate(): void {
    process.kill(Number(this.#read('pid')), 'SIGTERM');
  }

  /** Exit status of the command, once it has given the terminal back as it was. */
  async end(t: Test): Promise<number> {
    await until('it ends', () => existsSync(join(this.#dir, 'after')) && this.#read('after') !== '');
    this.#child.stdin?.end();
    t.equal(this.#read('after'), this.#read('before'), 'the terminal is as it was');
    return Number(this.#read('status'));
  }

  #read(name: string): string {
    return readFileSync(join(this.#dir, name), 'utf8').trim();
  }
}

const ESC = '\u001b';
/** What moves or colours, and shows nothing. */
const CONTROLS = new RegExp(`${ESC}\\[[?0-9;]*[a-zA-Z]`, 'g');

t.test('live on a terminal', async (t) => {
  const daemon = await sandbox.start();
  await until('it is ready', async () => (await askAdmin(sandbox, '/readyz')).status === 200);

  await t.test('the display follows the size of the terminal, and Ctrl-C ends it', async (t) => {
    const terminal = new Terminal(t, { columns: 80, rows: 24 });
    await terminal.shows(/READY[\s\S]*event loop[\s\S]*READY[\s\S]*event loop/);
    const { output } = terminal;
    t.ok(output.startsWith(`${ESC}[H`));
    t.notOk(output.includes(`${ESC}[2J`), 'nothing is cleared and drawn anew');
    t.ok(output.includes(`${ESC}[32m✓${ESC}[39m`), 'in colour');
    const lines = output.replaceAll(CONTROLS, '').split(/[\r\n]+/);
    t.ok(Math.max(...lines.map((line) => line.length)) < 80);
    t.ok(
      output.split(`${ESC}[H`).every((frame) => frame.split('\n').length <= 24),
      'no more than 24 lines',
    );
    t.match(output, /eu\/sandbox-2026 +ready since/);
    t.notMatch(output, /\(seal\.example\.com\/sandbox\/2026\)/, 'cut at the edge');
    await terminal.resize(200, 50);
    await terminal.shows(/\(seal\.example\.com\/sandbox\/2026\)/);
    terminal.press('\u0003');
    t.equal(await terminal.end(t), 0);
  });

  await t.test('a tiny terminal is not overrun, and NO_COLOR turns colour off', async (t) => {
    const terminal = new Terminal(t, { columns: 40, rows: 6 }, { NO_COLOR: '1' });
    await terminal.shows(/READY[\s\S]*READY/);
    t.notMatch(terminal.output, `${ESC}[32m`);
    t.ok(terminal.output.split(`${ESC}[H`).every((frame) => frame.split('\n').length <= 6));
    terminal.press('\u0003');
    t.equal(await terminal.end(t), 0);
  });

  await t.test('the display follows a daemon that stops and comes back, and SIGTERM ends it', async (t) => {
    const terminal = new Terminal(t, { columns: 120, rows: 24 });
    await terminal.shows(/READY/);
    await daemon.stop();
    await terminal.shows(/no pdfseald answers[\s\S]*→ start it/);
    terminal.forget();
    await sandbox.start();
    await terminal.shows(/READY/);
    terminal.forget();
    await sandbox.kill();
    await terminal.shows(/no pdfseald answers/);
    terminal.terminate();
    t.equal(await terminal.end(t), 1);
  });
});

t.test('several environments have a line each, with their problems below it', async (t) => {
  const { child } = await sandbox.start();
  await until('it is ready', async () => (await askAdmin(sandbox, '/readyz')).status === 200);
  const both = [...config, '--config', other.configFile];
  const { status, stdout, stderr } = await sandbox.pdfseal(['status', ...both]);
  t.match({ status, stderr }, { status: 1, stderr: '' });
  t.match(
    stdout,
    /^✓ env_sandbox {2}READY {2}up .* {2}2 of 2 partitions sign .*\n! {3}backup .*\n {4}→ run [\s\S]*\n✗ .*no pdfseald answers.*\n {4}→ start it.*\n$/,
  );
  const json = await sandbox.pdfseal(['status', ...both, '--json']);
  const [first, second] = json.stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  t.match(first, {
    ready: true,
    environment: 'env_sandbox',
    pid: child.pid,
    config: { file: sandbox.configFile },
  });
  t.match(second, { ready: false, config: { file: other.configFile }, error: { code: 'no_daemon' } });
});

const CERTIFICATE = { authority: 'http.tls', state: 'valid', subject: 'CN=seal' } as const;

t.test('if there is no room, problems and their remedies stay', async (t) => {
  const status = (await askAdmin(sandbox, '/status')).json<AdminStatus>();
  const facts: AdminStatus = {
    ...status,
    environment: 'env_\u001b[2Jevil',
    partitions: {
      ...status.partitions,
      members: status.partitions.members.map((member) => ({
        ...member,
        sessions: 1,
        sessions_refused: 'CKR_SESSION_COUNT',
        refusals: 2,
        trees_given_up: 1,
      })),
    },
    certificates: [
      { ...CERTIFICATE, role: 'client-crl', days_left: 1, urgency: 'none' },
      { ...CERTIFICATE, role: 'server', days_left: 20, urgency: 'soon' },
    ],
    store: { ...status.store, disk_free_bytes: 0 },
  };
  const full = judged(facts, Date.now());
  const looks = [{ file: 'x.toml', status: full, trouble: 'another content' }];
  const shown = render(looks, Date.now(), { columns: 60, rows: 5 }).map((line) =>
    line.replaceAll(CONTROLS, ''),
  );
  t.equal(shown.length, 5);
  t.match(shown.join('\n'), /! config +another content/);
  t.match(
    shown.join('\n'),
    /✗ NOT READY {2}pdfseald .*\n[\s\S]*✗ store +0 B free on its disk\n +→ make room/,
  );
  t.notMatch(render(looks, Date.now()).join(''), `${ESC}[2J`, 'no text moves the cursor');
  t.match(render(looks, Date.now()).join('\n'), /! config +another content/);
  t.match(
    render(looks, Date.now()).join('\n'),
    /eu\/\S+ .*, 2 refusals, 1 checkpoint given up, only 1 session \(CKR_SESSION_COUNT\)/,
  );
});

t.test(
  'what is wrong is shown with its remedy, and what is said of it elsewhere is not marked',
  async (t) => {
    const status = (await askAdmin(sandbox, '/status')).json<AdminStatus>();
    const check = { finished_at: new Date().toISOString(), good: false };
    const looks = { ...status, upkeep: { chores: status.upkeep.chores, check } };
    const shown = render(
      [{ file: 'x.toml', status: judged(looks, Date.now()), trouble: undefined }],
      Date.now(),
    ).join('\n');
    t.match(shown, /✗ check +the last one was .*, and found problems\n +→ run `pdfseal check`/);
    t.match(shown, /! backup +none is on record here\n +→ run `pdfseal backup/);
    t.match(shown, /^ {2}upkeep +last backup not on record; last check /m);
  },
);
