/** What keeps the clock of a machine, of a test's own: servers of NTP that say what the test wants, and Debian's chronyd, which cannot set the real clock. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { createSocket, type RemoteInfo } from 'node:dgram';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { collect, ENVIRONMENT } from './daemon.ts';
import { until } from './until.ts';

/** Of NTP's first second, 1900, before the Unix epoch. */
const NTP_EPOCH_SECONDS = 2_208_988_800;
const PACKET_BYTES = 48;
const MODE_SERVER = 4;
/** chronyc is told of an offset as a floating-point number of 25 bits. */
const OFFSET_PRECISION = 2 ** -24;
const run = promisify(execFile);

/** A server of stratum 1 (RFC 5905) on the loopback. */
export class TimeServer {
  /** How far its time is from the real one. */
  offsetMs = 0;
  /** It says that the last minute of the day has 61 seconds. */
  announcesLeap = false;
  isSilent = false;
  readonly #socket = createSocket('udp4');

  private constructor() {
    this.#socket.on('message', (query, from) => this.#answer(query, from));
  }

  static async open(): Promise<TimeServer> {
    const server = new TimeServer();
    server.#socket.bind(0, '127.0.0.1');
    await once(server.#socket, 'listening');
    return server;
  }

  get port(): number {
    return this.#socket.address().port;
  }

  close(): void {
    this.#socket.close();
  }

  #answer(query: Buffer, { port, address }: RemoteInfo): void {
    if (this.isSilent || query.length < PACKET_BYTES) return;
    const received = this.#now();
    const answer = Buffer.alloc(PACKET_BYTES);
    const version = (query.readUInt8(0) >> 3) & 7;
    answer.writeUInt8((Number(this.announcesLeap) << 6) | (version << 3) | MODE_SERVER, 0);
    answer.writeUInt8(1, 1);
    answer.writeUInt8(query.readUInt8(2), 2);
    answer.writeInt8(-20, 3); // it is precise to a microsecond
    answer.write('TEST', 12);
    writeTime(answer, received - 1000, 16);
    query.copy(answer, 24, 40, 48);
    writeTime(answer, received, 32);
    writeTime(answer, this.#now(), 40);
    this.#socket.send(answer, port, address);
  }

  #now(): number {
    return performance.timeOrigin + performance.now() + this.offsetMs;
  }
}

/** A chronyd that follows such servers, at a date of its own or the real one. `chronyc` reaches it through a socket in its folder. */
export class TimeService {
  readonly servers: readonly [TimeServer, TimeServer];
  /** Stands in place of chronyc, and asks this one. */
  readonly chronyc: string;
  /** Stands in place of timedatectl: says of the kernel's flag what a chronyd that may set it would make of it. */
  readonly timedatectl: string;
  readonly #dir: string;
  readonly #env: Record<string, string>;
  #child: ChildProcess | undefined;
  #output = () => '';

  private constructor(servers: readonly [TimeServer, TimeServer], env: Record<string, string>) {
    this.#dir = mkdtempSync(join(tmpdir(), 'pdfseal-time-'));
    this.#env = env;
    this.servers = servers;
    mkdirSync(join(this.#dir, 'run'), { mode: 0o700 }); // chronyd takes no socket in a folder of everybody's
    const socket = join(this.#dir, 'run', 'chronyd.sock');
    this.chronyc = this.#script('chronyc', `exec /usr/bin/chronyc -h '${socket}' "$@"`);
    const isNormal = `'${this.chronyc}' -n -c tracking | grep -q ',Normal$'`;
    const said = (answer: string) => `echo NTPSynchronized=${answer}`;
    this.timedatectl = this.#script(
      'timedatectl',
      `if ${isNormal}; then ${said('yes')}; else ${said('no')}; fi`,
    );
  }

  /** `env` is added to the environment of chronyd: another date. */
  static async open(env: Record<string, string> = {}): Promise<TimeService> {
    return new TimeService([await TimeServer.open(), await TimeServer.open()], env);
  }

  /** Lines of `more` are added to the configuration; `servers`: as many of them as it asks. */
  start({ more = '', servers = 1 }: { more?: string; servers?: 0 | 1 | 2 } = {}): void {
    const asked = this.servers.slice(0, servers);
    const lines = [
      ...asked.map(({ port }) => `server 127.0.0.1 port ${port} minpoll -6 maxpoll -6 iburst`),
      `bindcmdaddress ${join(this.#dir, 'run', 'chronyd.sock')}`,
      'cmdport 0',
      'port 0',
      `pidfile ${join(this.#dir, 'run', 'pid')}`,
      more,
    ];
    const file = join(this.#dir, 'chrony.conf');
    writeFileSync(file, `${lines.join('\n')}\n`);
    // -x: it never sets the clock. -U: it needs no privilege for that.
    const args = ['-x', '-U', '-d', '-u', userInfo().username, '-f', file];
    const child = spawn('/usr/sbin/chronyd', args, {
      env: { ...ENVIRONMENT, ...this.#env },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    this.#output = collect(child.stderr);
    this.#child = child;
  }

  signal(signal: 'SIGSTOP' | 'SIGCONT'): void {
    this.#child?.kill(signal);
  }

  async kill(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined || child.exitCode !== null) return;
    const ended = once(child, 'close');
    child.kill('SIGKILL');
    await ended;
  }

  /** Resolves once chronyd is synchronized, and knows that the clock of its machine is so far ahead of the true time. */
  async sees(aheadMs: number): Promise<void> {
    const isSeen = async () => {
      const fields = (await this.tracking()).trim().split(',');
      const isNear =
        Math.abs(Number(fields[4]) * 1000 + aheadMs) < 500 + Math.abs(aheadMs) * OFFSET_PRECISION;
      return /^(Normal|Insert second)$/.test(fields[13] ?? '') && isNear;
    };
    await until(`chronyd sees a clock that is ahead by ${aheadMs} ms`, isSeen, 60).catch(async (error) => {
      throw new Error(`${error}; chronyc says ${await this.tracking()}; chronyd says ${this.#output()}`);
    });
  }

  /** As `chronyc -n -c tracking` says it; empty where it cannot be asked. */
  async tracking(): Promise<string> {
    const asked = run(this.chronyc, ['-n', '-c', 'tracking'], { timeout: 5000, killSignal: 'SIGKILL' });
    return (await asked.catch(() => ({ stdout: '' }))).stdout;
  }

  async close(): Promise<void> {
    await this.kill();
    for (const server of this.servers) server.close();
    rmSync(this.#dir, { recursive: true, force: true });
  }

  #script(name: string, text: string): string {
    const file = join(this.#dir, name);
    writeFileSync(file, `#!/bin/sh\n${text}\n`, { mode: 0o755 });
    return file;
  }
}

/** As NTP writes it: seconds of the era, and their 2^32nd parts. */
function writeTime(into: Buffer, epochMs: number, at: number): void {
  const seconds = Math.floor(epochMs / 1000);
  into.writeUInt32BE((seconds + NTP_EPOCH_SECONDS) % 2 ** 32, at);
  into.writeUInt32BE(Math.floor(((epochMs - seconds * 1000) / 1000) * 2 ** 32), at + 4);
}
