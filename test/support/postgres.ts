import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { collect } from './daemon.ts';
import { prepared } from './prepared.ts';
import { until } from './until.ts';

const PROGRAMS = '/usr/lib/postgresql';
const FOLDER_PREFIX = 'pdfseal-pg-';
const LEFT_BEHIND_MS = 86_400_000;
/** PostgreSQL does not run as root: then, as the user that Debian's package makes. */
const IS_ROOT = process.getuid?.() === 0;

/** As shipped, but small, and with nothing outside of its folder that a killed one could leave behind. */
const SETTINGS = {
  fsync: 'on',
  full_page_writes: 'on',
  synchronous_commit: 'on',
  listen_addresses: '',
  shared_buffers: '32MB',
  dynamic_shared_memory_type: 'mmap',
  wal_level: 'replica',
  log_min_messages: 'warning',
  log_error_verbosity: 'terse',
};

/** A test, or what else undoes things at its end. */
interface Scope {
  teardown(undo: () => Promise<void>): unknown;
}

export interface PostgresOptions {
  /** Added to the settings of the server, such as `{ synchronous_standby_names: 'b' }`. */
  settings?: Record<string, string>;
  /** A folder on another disk, for its data. Its write-ahead log stays on this one: without space for that, it ends. */
  dataOn?: string;
}

/** A PostgreSQL of its own, on a Unix socket only, where this user is the superuser `postgres`, the role `pdfseal`, and `node`, which may do nothing. */
export class Postgres {
  /** Has the folder of its data, and its socket. */
  readonly dir: string;
  /** Take effect with the next start. */
  settings: Record<string, string>;
  #child: ChildProcess | undefined;
  #output = () => '';
  #databases = 0;

  /** Use {@link startPostgres}. */
  constructor(dir: string, settings: Record<string, string>) {
    this.dir = dir;
    this.settings = settings;
  }

  /** Process id of the postmaster. */
  get pid(): number {
    return this.#child?.pid ?? -1;
  }

  /** What it said since it was last started. */
  get log(): string {
    return this.#output();
  }

  /** How a role reaches that database, in the form of libpq. */
  url(database: string, role = 'pdfseal'): string {
    return `postgresql:///${database}?host=${this.dir}&user=${role}`;
  }

  /** Makes a database, empty or a copy of another one, and gives its name. */
  async createDatabase(template = 'template0'): Promise<string> {
    const name = `test_${++this.#databases}`;
    await this.query(`CREATE DATABASE ${name} OWNER pdfseal TEMPLATE ${template}`);
    return name;
  }

  /** Runs SQL as the superuser on a connection of its own; the rows of the last statement. */
  async query(sql: string, database = 'postgres'): Promise<Record<string, unknown>[]> {
    const port = Number(this.settings.port ?? 5432);
    const client = new pg.Client({ host: this.dir, port, user: 'postgres', database });
    await client.connect();
    try {
      const results = [await client.query(sql)].flat();
      return results.at(-1)?.rows ?? [];
    } finally {
      await client.end();
    }
  }

  /** From now on, each commit waits for a standby of this name, which there is not; without a name, for nobody. */
  async setStandbys(name: string): Promise<void> {
    await this.query(`ALTER SYSTEM SET synchronous_standby_names = '${name}'`);
    await this.query('SELECT pg_reload_conf()');
    // One process of the server puts it into effect, when it comes to it.
    await until('it is in effect', async () => (await this.#commitWaits()) === (name !== ''));
  }

  async #commitWaits(): Promise<boolean> {
    let isOver = false;
    const commit = this.query(`SELECT pg_logical_emit_message(true, 'probe', '')`).then(() => {
      isOver = true;
    });
    while (!isOver) {
      const cancelled = await this.query(
        `SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE '%emit_message%'`,
      );
      if (cancelled.length === 0) continue;
      await commit;
      return true;
    }
    return false;
  }

  /** Starts it, after {@link stop} or {@link kill}, and resolves when it takes connections. */
  async start(): Promise<void> {
    await until('PostgreSQL starts', () => this.#tryToStart());
  }

  /** Ends it: `SIGTERM` waits for the last client, `SIGINT` sends them away, `SIGQUIT` is as good as a crash. */
  async stop(signal: NodeJS.Signals = 'SIGINT'): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'close');
    child.kill(signal);
    await ended;
  }

  /** SIGKILL to the postmaster; its children end at once by themselves. */
  async kill(): Promise<void> {
    await this.stop('SIGKILL');
  }

  /** From the next start on, that port of the loopback is open too, with TLS, and with a password. */
  serveTls({ key, cert }: { key: string; cert: string }, port: number): void {
    const [keyFile, certFile] = [join(this.dir, 'key.pem'), join(this.dir, 'cert.pem')];
    writeFileSync(keyFile, key, { mode: 0o600 });
    writeFileSync(certFile, cert);
    if (IS_ROOT) execFileSync('chown', ['postgres:', keyFile]);
    const tls = { ssl: 'on', ssl_key_file: keyFile, ssl_cert_file: certFile };
    this.settings = { ...this.settings, ...tls, listen_addresses: '127.0.0.1', port: String(port) };
  }

  /** Makes a primary of a standby. */
  async promote(): Promise<void> {
    await this.query('SELECT pg_promote()');
  }

  /** Ends it and removes its folder. */
  async close(): Promise<void> {
    await this.stop('SIGQUIT');
    removeSharedMemory(this.dir);
    rmSync(this.dir, { recursive: true, force: true });
  }

  /** Who was killed is followed by its children, and as long as one of them lives its data is not opened: false then. */
  async #tryToStart(): Promise<boolean> {
    const settings = { ...SETTINGS, ...this.settings, unix_socket_directories: this.dir };
    const args = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
    const [command = '', ...line] = asServer('postgres', '-D', join(this.dir, 'data'), ...args);
    const child = spawn(command, line, { cwd: this.dir, stdio: ['ignore', 'ignore', 'pipe'], env: {} });
    this.#child = child;
    this.#output = collect(child.stderr);
    const ended = once(child, 'close');
    await until(
      'PostgreSQL takes connections',
      async () => child.exitCode !== null || (await this.#isReady()),
    );
    if (child.exitCode === null) return true;
    await ended;
    if (/is still in use|lock file ".*" already exists/.test(this.log)) return false;
    throw new Error(`PostgreSQL ended with ${child.exitCode}: ${this.log}`);
  }

  #isReady(): Promise<boolean> {
    return this.query('SELECT 1').then(
      () => true,
      () => false,
    );
  }
}

/** Starts a PostgreSQL; it is ended, and its folder removed, with the test. One serves a whole file: each test has its own database. */
export async function startPostgres(
  test: Scope,
  { settings = {}, dataOn }: PostgresOptions = {},
): Promise<Postgres> {
  removeLeftBehind();
  const postgres = new Postgres(makeServerFolder(), settings);
  test.teardown(() => postgres.close());
  const make = async (into: string) => makeCluster(into);
  const cluster = await prepared(`postgresql ${programs()}`, make, ['test/support/postgres.ts']);
  execFileSync('cp', ['-a', join(cluster, 'data'), postgres.dir]);
  if (dataOn !== undefined) moveData(postgres.dir, dataOn);
  await postgres.start();
  return postgres;
}

/** An empty cluster in `<into>/data`, whose only doors are for this user. */
function makeCluster(into: string): void {
  const dir = makeServerFolder();
  const data = join(dir, 'data');
  try {
    const options = ['--no-sync', '--no-instructions', '--username=postgres', '--encoding=UTF8'];
    runAsServer('initdb', '-D', data, ...options, '--locale=C.UTF-8');
    writeFileSync(
      join(data, 'pg_hba.conf'),
      'local all,replication all peer map=tests\nhostssl all all 127.0.0.1/32 scram-sha-256\n',
    );
    const roles = ['postgres', 'pdfseal', 'node'].map((role) => `tests ${userInfo().username} ${role}\n`);
    writeFileSync(join(data, 'pg_ident.conf'), roles.join(''));
    const single = asServer('postgres', '--single', '-D', data, 'postgres');
    execFileSync(single[0] ?? '', single.slice(1), {
      input: 'CREATE ROLE pdfseal LOGIN\nCREATE ROLE node LOGIN\n',
      stdio: 'pipe',
    });
    execFileSync('cp', ['-a', data, into]);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

function moveData(dir: string, to: string): void {
  const [data, log] = [join(dir, 'data'), join(dir, 'wal')];
  execFileSync('mv', [join(data, 'pg_wal'), log]);
  symlinkSync(log, join(data, 'pg_wal'));
  execFileSync('mv', [data, to]);
  symlinkSync(join(to, 'data'), data);
  if (IS_ROOT) execFileSync('chown', ['postgres:', to]);
}

/** A folder that the server may write; its path is short enough for a socket. */
function makeServerFolder(): string {
  const dir = mkdtempSync(join(tmpdir(), FOLDER_PREFIX));
  if (IS_ROOT) execFileSync('chown', ['postgres:', dir]);
  return dir;
}

/** The folder of the programs that `PDFSEALD_POSTGRESQL` names, or of the newest of Debian's packages. */
export function programs(): string {
  const named = process.env.PDFSEALD_POSTGRESQL;
  if (named) return named;
  const versions = existsSync(PROGRAMS) ? readdirSync(PROGRAMS) : [];
  const newest = Math.max(...versions.map(Number).filter(Number.isInteger));
  const path = `${PROGRAMS}/${newest}/bin`;
  if (existsSync(`${path}/postgres`)) return path;
  throw new Error('PostgreSQL is not installed: sh test/setup.sh --tests does it');
}

/** A command line that runs one of them as a user that may, and ends it as a crash would when the test is gone. */
function asServer(program: string, ...args: string[]): string[] {
  const user = IS_ROOT ? ['--reuid=postgres', '--regid=postgres', '--init-groups'] : [];
  return ['/usr/bin/setpriv', ...user, '--pdeathsig=QUIT', '--', `${programs()}/${program}`, ...args];
}

function runAsServer(program: string, ...args: string[]): void {
  const [command = '', ...line] = asServer(program, ...args);
  execFileSync(command, line, { stdio: 'pipe', env: {} });
}

/** One that was killed leaves a System V segment of some bytes, by which the next would see that it still runs. */
function removeSharedMemory(dir: string): void {
  const file = join(dir, 'data/postmaster.pid');
  if (!existsSync(file)) return;
  const [, id] = readFileSync(file, 'utf8').split('\n')[6]?.trim().split(/\s+/) ?? [];
  if (id !== undefined) execFileSync('ipcrm', ['--shmem-id', id], { stdio: 'ignore' });
}

/** What tests left that were killed themselves. */
function removeLeftBehind(): void {
  for (const name of readdirSync(tmpdir()).filter((name) => name.startsWith(FOLDER_PREFIX))) {
    const dir = join(tmpdir(), name);
    const { mtimeMs = Date.now() } = statSync(dir, { throwIfNoEntry: false }) ?? {};
    if (Date.now() - mtimeMs > LEFT_BEHIND_MS) rmSync(dir, { recursive: true, force: true });
  }
}
