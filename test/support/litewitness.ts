import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { collect, isListening } from './daemon.ts';
import { freePort } from './freePort.ts';
import { until } from './until.ts';

/** The programs of Debian's torchwood, where the set-up of the tests unpacked them. */
export const TORCHWOOD = fileURLToPath(
  new URL('../../node_modules/.cache/torchwood/usr/bin', import.meta.url),
);

/** litewitness of Debian's torchwood, on the loopback, with its key in an ssh-agent and its memory in a database. */
export class Litewitness {
  readonly dir: string;
  readonly port: number;
  readonly url: string;
  /** Its verifier key. */
  vkey = '';
  readonly #name: string;
  #agent: ChildProcess | undefined;
  #child: ChildProcess | undefined;
  #output = () => '';

  private constructor(dir: string, port: number, name: string) {
    this.dir = dir;
    this.port = port;
    this.url = `http://127.0.0.1:${port}`;
    this.#name = name;
  }

  /** Starts one that knows the log of that origin, with these keys. `t` is a test, or what else ends it. */
  static async open(
    t: { teardown(end: () => Promise<void>): void },
    name: string,
    origin: string,
    vkeys: readonly string[],
  ): Promise<Litewitness> {
    if (!existsSync(join(TORCHWOOD, 'litewitness')))
      throw new Error('there is no litewitness: sh test/setup.sh --tests unpacks it');
    // The path of an agent's socket is short.
    const dir = mkdtempSync(join(tmpdir(), 'lw-'));
    const witness = new Litewitness(dir, await freePort(), name);
    t.teardown(() => witness.#close());
    await witness.#makeKey();
    witness.control('add-log', '-origin', origin);
    for (const vkey of vkeys) witness.control('add-key', '-origin', origin, '-key', vkey);
    await witness.start();
    return witness;
  }

  /** What it said since it was started. */
  get log(): string {
    return this.#output();
  }

  async start(): Promise<void> {
    const key = execFileSync('ssh-keygen', ['-lf', join(this.dir, 'key.pub')], { encoding: 'utf8' });
    const options = {
      db: join(this.dir, 'w.db'),
      key: key.split(' ')[1] ?? '',
      name: this.#name,
      'ssh-agent': join(this.dir, 'agent'),
      listen: `127.0.0.1:${this.port}`,
    };
    const args = Object.entries(options).flatMap(([option, value]) => [`-${option}`, value]);
    const child = spawn(join(TORCHWOOD, 'litewitness'), args, { stdio: ['ignore', 'ignore', 'pipe'] });
    this.#child = child;
    this.#output = collect(child.stderr);
    await until('litewitness listens', () => isListening(this.port));
    await until('it says its key', () => /vkey=\S+/.test(this.log));
    this.vkey = /vkey=(\S+)/.exec(this.log)?.[1] ?? '';
  }

  /** What it remembers stays. */
  async stop(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined) return;
    child.kill();
    await once(child, 'close');
  }

  /** `witnessctl`. */
  control(command: string, ...args: string[]): void {
    execFileSync(join(TORCHWOOD, 'witnessctl'), [command, '-db', join(this.dir, 'w.db'), ...args], {
      stdio: 'pipe',
    });
  }

  async #makeKey(): Promise<void> {
    const [key, agent] = [join(this.dir, 'key'), join(this.dir, 'agent')];
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', key]);
    this.#agent = spawn('ssh-agent', ['-D', '-a', agent], { stdio: 'ignore' });
    await until('ssh-agent listens', () => existsSync(agent));
    execFileSync('ssh-add', ['-q', key], { env: { ...process.env, SSH_AUTH_SOCK: agent }, stdio: 'pipe' });
  }

  async #close(): Promise<void> {
    await this.stop();
    this.#agent?.kill();
    rmSync(this.dir, { recursive: true, force: true });
  }
}
