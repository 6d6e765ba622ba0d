import { copyFileSync, cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { SITE } from '../faults/workload.ts';
import { FakeTime } from '../support/clocks.ts';
import { type Daemon, isListening } from '../support/daemon.ts';
import { freePort } from '../support/freePort.ts';
import type { Code } from '../support/programs.ts';
import { openSandbox, Sandbox } from '../support/sandbox.ts';
import { until } from '../support/until.ts';
import type { PatroniCluster } from './patroni.ts';

const LAST_CHECKPOINT = 'state/last-checkpoint';

/** A daemon on a machine of its own, as far as its files go, which its service manager starts again whenever it ends. */
export class Supervised {
  readonly sandbox: Sandbox;
  /** Its daemon and its signers go by it. */
  readonly date: FakeTime;
  /** One after the other. */
  readonly daemons: Daemon[] = [];
  #isOver = false;
  #running: Promise<void> | undefined;

  constructor(sandbox: Sandbox) {
    this.sandbox = sandbox;
    this.date = new FakeTime(sandbox.dir);
    this.date.reachSigners(sandbox.configFile);
    sandbox.through = this.date.through;
  }

  start(): void {
    this.#running = this.#keepRunning();
  }

  /** It is stopped, as a machine that hangs; a load balancer leaves it out. */
  isFrozen = false;

  /** SIGKILL, SIGSTOP or SIGCONT to the process that runs. */
  signal(signal: 'SIGKILL' | 'SIGSTOP' | 'SIGCONT'): void {
    this.isFrozen = signal === 'SIGSTOP';
    this.sandbox.daemon?.child.kill(signal);
  }

  /** Ends it for good: its exit status, or the signal that ended it. */
  async stop(): Promise<number | string> {
    this.#isOver = true;
    this.signal('SIGCONT');
    const status = await this.sandbox.daemon?.stop();
    await this.#running;
    return status ?? 0;
  }

  async #keepRunning(): Promise<void> {
    while (!this.#isOver) {
      const before = this.sandbox.daemon;
      const started = this.sandbox.start().catch(() => {}); // It listens once it is its turn, or never.
      await until('it is a process', () => this.sandbox.daemon !== before);
      const { daemon } = this.sandbox;
      if (daemon === undefined) return;
      this.daemons.push(daemon);
      await Promise.all([started, daemon.ended()]);
    }
  }
}

/**
 * Several daemons over one database, and one address for all of them. The sandbox `door` is for clients and commands: its daemon is whoever
 * has its turn.
 */
export class Site {
  readonly door: Sandbox;
  readonly nodes: Supervised[];
  /** They have no keys, and their role in the database cannot touch the log. */
  readonly fronts: Supervised[] = [];
  readonly #code: Code;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #joined = 0;

  private constructor(door: Sandbox, nodes: Supervised[], server: Server, code: Code) {
    this.door = door;
    this.#code = code;
    this.nodes = nodes;
    this.#server = server;
  }

  /** `code`: of the daemons. Commands are those that are shipped. */
  static async open(cluster: PatroniCluster, daemons: number, code: Code = 'dist'): Promise<Site> {
    const passwordFile = join(cluster.dir, 'password');
    writeFileSync(passwordFile, cluster.password, { mode: 0o600 });
    const store = [
      'engine = "postgresql"',
      `url = [${cluster.urls.map((url) => `"${url}"`).join(', ')}]`,
      `password_file = "${passwordFile}"`,
    ].join('\n');
    const tables = { ...SITE.tables, store };
    const door = await openSandbox({ ...SITE, tables, fresh: true, code: 'dist' });
    const nodes: Supervised[] = [];
    for (let number = 1; number <= daemons; number++) nodes.push(await makeNode(door, number, code));
    const site = new Site(door, nodes, createServer(), code);
    site.#server.on('connection', (client) => site.#join(client));
    await new Promise<void>((resolve) => site.#server.listen(door.port, '127.0.0.1', resolve));
    const [first, ...others] = nodes;
    first?.start();
    await until('the first daemon listens', async () => (await site.active()) !== undefined);
    // As the manual has it: without the file, a daemon refuses a log that it does not know.
    for (const node of others) {
      copyFileSync(join(first?.sandbox.dir ?? '', LAST_CHECKPOINT), join(node.sandbox.dir, LAST_CHECKPOINT));
      node.start();
    }
    return site;
  }

  /** Makes fronts, which take their share of the connections from now on. */
  async addFronts(cluster: PatroniCluster, fronts: number): Promise<void> {
    await cluster.execute('ALTER ROLE pdfseal CREATEROLE');
    const { status, stderr } = await this.door.pdfseal(['store', 'roles', '--config', this.door.configFile]);
    if (status !== 0) throw new Error(`pdfseal store roles ended with ${status}: ${stderr}`);
    await cluster.execute('GRANT pdfseal_front TO front');
    await cluster.execute('GRANT CONNECT ON DATABASE pdfseal TO front');
    const [first] = this.nodes;
    for (let number = 1; number <= fronts; number++) {
      const front = await makeNode(this.door, this.nodes.length + number, this.#code);
      const { configFile, dir } = front.sandbox;
      const own = readFileSync(configFile, 'utf8')
        .replace(/^\[kms\]$.*?^\[clock\]$/ms, '[clock]')
        .replaceAll('postgresql://pdfseal@', 'postgresql://front@');
      writeFileSync(configFile, own);
      copyFileSync(join(first?.sandbox.dir ?? '', LAST_CHECKPOINT), join(dir, LAST_CHECKPOINT));
      front.start();
      this.fronts.push(front);
    }
    const listening = () => Promise.all(this.fronts.map(({ sandbox }) => isListening(sandbox.port)));
    await until('the fronts listen', async () => (await listening()).every((is) => is));
  }

  /** The node whose daemon listens. */
  async active(): Promise<Supervised | undefined> {
    const listening = await Promise.all(this.nodes.map(({ sandbox }) => isListening(sandbox.port)));
    return this.nodes.find(({ isFrozen }, number) => listening[number] && !isFrozen);
  }

  /** Who is active, and what each daemon said last. All that each said goes into files in the folder. */
  async describe(folder: string): Promise<string> {
    const active = await this.active();
    return [...this.nodes, ...this.fronts]
      .map((node, number) => {
        const all = node.daemons.flatMap(({ log, stderr }) => [
          ...log.map((line) => JSON.stringify(line)),
          stderr,
        ]);
        writeFileSync(join(folder, `daemon-${number + 1}.log`), all.join('\n'));
        const lines = node.daemons.slice(-2).flatMap(({ log, stderr }) => [...log.slice(-12), stderr]);
        const state = node === active ? 'active' : node.isFrozen ? 'frozen' : 'not active';
        return `daemon ${number + 1} is ${state}, and was started ${node.daemons.length} times:\n${lines.map((line) => JSON.stringify(line)).join('\n')}`;
      })
      .join('\n');
  }

  /** As a machine that hangs: whoever has a connection to it loses it. */
  freeze(node: Supervised): void {
    node.signal('SIGSTOP');
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Ends every daemon, the active one last; its exit status. */
  async stop(): Promise<number | string> {
    const active = await this.active();
    for (const node of [...this.fronts, ...this.nodes]) if (node !== active) await node.stop();
    return active?.stop() ?? 'nobody was active';
  }

  async close(): Promise<void> {
    for (const node of [...this.fronts, ...this.nodes]) {
      node.signal('SIGKILL');
      await node.stop();
    }
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await this.door.close();
  }

  /** As a load balancer does: to each in turn, if it takes the connection. */
  async #join(client: Socket): Promise<void> {
    client.on('error', () => {});
    const all = [...this.fronts, ...this.nodes];
    const turn = this.#joined++ % all.length;
    for (const { sandbox, isFrozen } of [...all.slice(turn), ...all.slice(0, turn)]) {
      const server = isFrozen ? undefined : await reached(sandbox.port);
      if (server === undefined) continue;
      for (const [one, other] of [
        [client, server],
        [server, client],
      ] as const) {
        this.#sockets.add(one);
        one.on('error', () => {});
        one.on('close', () => {
          this.#sockets.delete(one);
          other.destroy();
        });
        one.pipe(other);
      }
      return;
    }
    client.destroy();
  }
}

/** What `pdfseal init` left, on another machine: the same tokens, keys and trust, another folder and address. */
async function makeNode(door: Sandbox, number: number, code: Code): Promise<Supervised> {
  const dir = join(door.dir, `node-${number}`);
  const port = await freePort();
  mkdirSync(join(dir, 'state'), { recursive: true, mode: 0o700 });
  cpSync(join(door.dir, 'state'), join(dir, 'state'), { recursive: true });
  // Clients know one address. Messages name it, and stay the same whoever sends them.
  const listen = `listen = "127.0.0.1:${port}"\npublic_url = "${door.url}"`;
  const text = readFileSync(door.configFile, 'utf8').replace(`listen = "127.0.0.1:${door.port}"`, listen);
  const sandbox = new Sandbox(dir, port, door.partitions, code);
  writeFileSync(sandbox.configFile, text);
  return new Supervised(sandbox);
}

/** A connection to that port of this machine; undefined where nobody takes it. */
function reached(port: number): Promise<Socket | undefined> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => resolve(socket));
    socket.once('error', () => resolve(undefined));
  });
}
