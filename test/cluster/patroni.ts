import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { setPriority } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { issueCertificate, makeAuthority } from '../support/certificates.ts';
import { until } from '../support/until.ts';
import {
  addressOf,
  type Certificate,
  etcdOptions,
  NETWORK,
  NODES,
  type NodeName,
  PASSWORD,
  patroniConfig,
} from './configuration.ts';

/** Whatever the machine is doing besides. */
const READY_SECONDS_MAX = 300;
/** Of the cluster, as a nice value: on a busy machine it goes before the load, as a cluster that has machines of its own. */
const PRIORITY = -10;
/** Whom a server follows, and who follows it. */
const STANDING = `SELECT pg_is_in_recovery() AS follows, current_setting('primary_conninfo') AS whom,
  (SELECT json_agg(r) FROM pg_stat_wal_receiver r) AS receiver, (SELECT json_agg(s) FROM pg_stat_replication s) AS standbys,
  (SELECT json_agg(s) FROM pg_replication_slots s) AS slots, current_setting('synchronous_standby_names') AS synchronous,
  (SELECT json_agg(json_build_array(usename, application_name, client_addr, state, wait_event, now() - query_start, left(query, 120)))
    FROM pg_stat_activity WHERE datname = 'pdfseal') AS sessions`;

/**
 * Three machines, as far as their networks go, each with etcd and a PostgreSQL under Patroni, as `docs/operate/postgresql.md` has it: a commit
 * waits for a synchronous standby, always. Needs root, and a network of the caller's own, in which it makes a bridge.
 */
export class PatroniCluster {
  readonly dir: string;
  /** PEM, of the authority that vouches for the servers. */
  readonly authorityFile: string;
  readonly #machines = new Map<NodeName, number>();
  readonly #children: ChildProcess[] = [];

  private constructor(dir: string, authorityFile: string) {
    this.dir = dir;
    this.authorityFile = authorityFile;
  }

  /** Resolves when there is a primary with a synchronous standby. */
  static async open(dir: string): Promise<PatroniCluster> {
    const authority = makeAuthority(dir, 'authority');
    const names = NODES.map((node) => `IP:${addressOf(node)}`).join();
    const { certificateFile, keyFile } = issueCertificate(dir, 'server', authority, 30, 'ecdsa', names);
    execFileSync('chown', ['postgres:', certificateFile, keyFile]);
    const cluster = new PatroniCluster(dir, authority.certificateFile);
    ip('link', 'set', 'lo', 'up');
    ip('link', 'add', 'hub', 'type', 'bridge');
    ip('address', 'add', `${NETWORK}.254/24`, 'dev', 'hub');
    ip('link', 'set', 'hub', 'up');
    for (const node of NODES) await cluster.#connect(node);
    for (const node of NODES) cluster.#startEtcd(node);
    for (const node of NODES) {
      cluster.#configure(node, { certificateFile, keyFile });
      cluster.startPatroni(node);
    }
    try {
      await until('the cluster is ready', () => cluster.isReplicated(), READY_SECONDS_MAX);
    } catch (error) {
      throw new Error(`${error}\n${NODES.map((node) => cluster.log(node)).join('\n')}`);
    }
    await cluster.#createRole();
    return cluster;
  }

  /** Of every server, for `store.url`. */
  get urls(): string[] {
    const tls = `sslmode=verify-full&sslrootcert=${this.authorityFile}`;
    return NODES.map((node) => `postgresql://pdfseal@${addressOf(node)}:5432/pdfseal?${tls}`);
  }

  get password(): string {
    return PASSWORD;
  }

  /** How a client reaches that node as the role of the daemon. */
  connection(node: NodeName): pg.ClientConfig {
    const ca = readFileSync(this.authorityFile, 'utf8');
    return { host: addressOf(node), user: 'pdfseal', password: PASSWORD, database: 'pdfseal', ssl: { ca } };
  }

  /** Asks Patroni for another primary; nothing happens where it refuses. */
  async switchover(): Promise<void> {
    const leader = await this.primary();
    if (leader === undefined) return;
    await fetch(`http://${addressOf(leader)}:8008/switchover`, {
      method: 'POST',
      body: JSON.stringify({ leader }),
      signal: AbortSignal.timeout(60_000),
    }).catch(() => {});
  }

  /** How it is, and what was said last. */
  async describe(): Promise<string> {
    const state = `the primary is ${await this.primary()}, replicated: ${await this.isReplicated()}`;
    const standings = await Promise.all(
      NODES.map(async (node) => {
        const rows = await this.query(node, STANDING);
        return `${node}: ${JSON.stringify(rows?.[0])}`;
      }),
    );
    return [state, ...standings, ...NODES.map((node) => `${node}:\n${this.log(node)}`)].join('\n');
  }

  /** The end of what Patroni and PostgreSQL of a node said. */
  log(node: NodeName): string {
    return readFileSync(join(this.dir, `${node}.log`), 'utf8').slice(-4000);
  }

  /** Runs SQL as the superuser; undefined where the server does not answer in time. */
  async query(
    node: NodeName,
    text: string,
    database = 'postgres',
  ): Promise<Record<string, unknown>[] | undefined> {
    const client = new pg.Client({
      host: addressOf(node),
      user: 'postgres',
      password: PASSWORD,
      database,
      connectionTimeoutMillis: 2_000,
      query_timeout: 5_000,
    });
    client.on('error', () => {});
    try {
      await client.connect();
      return (await client.query(text)).rows;
    } catch {
      return undefined;
    } finally {
      client.end().catch(() => {});
    }
  }

  /** Runs SQL as the superuser on the primary, as soon as there is one. */
  async execute(text: string): Promise<void> {
    const done = async () => {
      const primary = await this.primary();
      return primary !== undefined && (await this.query(primary, text)) !== undefined;
    };
    await until(text, done, READY_SECONDS_MAX);
  }

  /** The node whose server accepts writes; of two for a moment, either. */
  async primary(): Promise<NodeName | undefined> {
    const answers = await Promise.all(
      NODES.map(async (node) => ({
        node,
        rows: await this.query(node, 'SELECT pg_is_in_recovery() AS follows'),
      })),
    );
    return answers.find(({ rows }) => rows?.[0]?.follows === false)?.node;
  }

  /** Whether the primary has a synchronous standby, so that commits go on. */
  async isReplicated(): Promise<boolean> {
    const primary = await this.primary();
    if (primary === undefined) return false;
    const text = `SELECT count(*)::int AS standbys FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')`;
    const rows = await this.query(primary, text);
    return ((rows?.[0]?.standbys as number | undefined) ?? 0) > 0;
  }

  /** Cuts a node off from everybody, or joins it again. */
  setLink(node: NodeName, state: 'up' | 'down'): void {
    ip('link', 'set', `v${node}`, state);
  }

  /** Loses what the server of a node sends to its standbys, and nothing else: it stays the primary, and its commits wait for ever. */
  setReplication(node: NodeName, state: 'up' | 'down'): void {
    const standbys = NODES.filter((one) => one !== node).map(addressOf);
    const rules =
      state === 'up'
        ? 'delete table inet cut'
        : `add table inet cut; add chain inet cut out { type filter hook output priority 0; };
           add rule inet cut out tcp sport 5432 ip daddr { ${standbys.join(', ')} } drop`;
    execFileSync('nsenter', [`--target=${this.#machines.get(node)}`, '--net', 'nft', rules]);
  }

  /** Lets every flush of a server take so long, as on a disk that is worn out or shared, until what it returns is called. */
  slowDown(node: NodeName, ms: number): () => void {
    const inject = `inject=fdatasync,fsync:delay_enter=${ms * 1000}`;
    const targets = this.#processes(node).map((pid) => `--attach=${pid}`);
    const tracer = spawn(
      'strace',
      ['-f', '-qq', '-o', '/dev/null', '-e', 'trace=fdatasync,fsync', '-e', inject, ...targets],
      { stdio: ['ignore', 'ignore', 'inherit'], detached: true },
    );
    this.#children.push(tracer);
    if (tracer.pid !== undefined) prefer(tracer.pid); // The server stops at each of its calls until the tracer has seen it.
    return () => tracer.kill('SIGTERM');
  }

  /** To the processes of PostgreSQL, or to Patroni. */
  signal(node: NodeName, signal: NodeJS.Signals, whom: 'postgres' | 'patroni'): void {
    if (whom === 'patroni') spawnSync('pkill', [`-${signal}`, '-f', join(this.dir, `${node}.yml`)]);
    else spawnSync('kill', [`-${signal}`, ...this.#processes(node)]);
  }

  /** Of PostgreSQL: a server, and the processes that it made, whose titles do not name its folder. */
  #processes(node: NodeName): string[] {
    const servers = pids('-f', join(this.dir, `${node}-data`));
    return [...servers, ...servers.flatMap((pid) => pids('-P', pid))];
  }

  startPatroni(node: NodeName): void {
    this.#spawn(node, `${node}.log`, 'patroni', join(this.dir, `${node}.yml`));
  }

  async close(): Promise<void> {
    for (const child of this.#children) child.kill('SIGKILL');
    for (const node of NODES) {
      for (const whom of ['patroni', 'postgres'] as const) this.signal(node, 'SIGKILL', whom);
    }
    for (const pid of this.#machines.values()) process.kill(pid, 'SIGKILL');
  }

  async #connect(node: NodeName): Promise<void> {
    const machine = spawn('unshare', ['--net', 'sh', '-c', 'echo up && exec sleep infinity'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    await once(machine.stdout, 'data');
    const pid = machine.pid ?? 0;
    this.#machines.set(node, pid);
    ip('link', 'add', `v${node}`, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', String(pid));
    ip('link', 'set', `v${node}`, 'master', 'hub', 'up');
    for (const line of ['link set lo up', `address add ${addressOf(node)}/24 dev eth0`, 'link set eth0 up'])
      execFileSync('nsenter', [`--target=${pid}`, '--net', 'ip', ...line.split(' ')]);
  }

  #spawn(node: NodeName, log: string, ...line: string[]): void {
    const output = openSync(join(this.dir, log), 'a');
    const enter = [`--target=${this.#machines.get(node)}`, '--net', '--'];
    const user = [
      'setpriv',
      '--reuid=postgres',
      '--regid=postgres',
      '--init-groups',
      '--pdeathsig=KILL',
      '--',
    ];
    const child = spawn('nsenter', [...enter, ...user, ...line], {
      cwd: this.dir,
      env: { PATH: '/usr/bin:/bin:/usr/sbin', LANG: 'C.UTF-8' },
      stdio: ['ignore', output, output],
      detached: true, // A session of its own, as Patroni gives PostgreSQL one.
    });
    this.#children.push(child);
    if (child.pid !== undefined) prefer(child.pid);
  }

  #startEtcd(node: NodeName): void {
    const data = join(this.dir, `${node}-etcd`);
    mkdirSync(data, { mode: 0o700 });
    execFileSync('chown', ['postgres:', data]);
    const args = Object.entries(etcdOptions(node, data)).map(([name, value]) => `--${name}=${value}`);
    this.#spawn(node, `${node}-etcd.log`, 'etcd', ...args);
  }

  #configure(node: NodeName, tls: Certificate): void {
    const data = join(this.dir, `${node}-data`);
    const sockets = join(this.dir, `${node}-sockets`);
    for (const folder of [data, sockets]) {
      mkdirSync(folder, { mode: 0o700 });
      execFileSync('chown', ['postgres:', folder]);
    }
    const file = join(this.dir, `${node}.yml`);
    const config = patroniConfig(node, { data, sockets, tls });
    writeFileSync(file, JSON.stringify(config), { mode: 0o600 }); // YAML holds JSON.
    execFileSync('chown', ['postgres:', file]);
  }

  async #createRole(): Promise<void> {
    for (const [is, make] of [
      ["SELECT FROM pg_roles WHERE rolname = 'pdfseal'", `CREATE ROLE pdfseal LOGIN PASSWORD '${PASSWORD}'`],
      ["SELECT FROM pg_roles WHERE rolname = 'front'", `CREATE ROLE front LOGIN PASSWORD '${PASSWORD}'`],
      [
        "SELECT FROM pg_database WHERE datname = 'pdfseal'",
        'CREATE DATABASE pdfseal OWNER pdfseal TEMPLATE template0',
      ],
    ] as const) {
      // A standby that does not have it yet would refuse a daemon, which could not know why.
      const isThere = async () => {
        const answers = await Promise.all(NODES.map((node) => this.query(node, is)));
        if (answers.every((rows = []) => rows.length > 0)) return true;
        const primary = await this.primary();
        if (primary !== undefined) await this.query(primary, make);
        return false;
      };
      await until(make, isThere, READY_SECONDS_MAX);
    }
  }
}

/** Before the processes of other sessions, where the kernel shares processors among sessions first, and before those of its own. */
function prefer(pid: number): void {
  setPriority(pid, PRIORITY);
  const session = `/proc/${pid}/autogroup`;
  if (existsSync(session)) writeFileSync(session, String(PRIORITY));
}

function pids(...which: string[]): string[] {
  return spawnSync('pgrep', which, { encoding: 'utf8' }).stdout.split('\n').filter(Boolean);
}

function ip(...args: string[]): void {
  execFileSync('ip', args, { stdio: ['ignore', 'ignore', 'inherit'] });
}
