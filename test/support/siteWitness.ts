import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { collect, ENVIRONMENT, isListening } from './daemon.ts';
import { freePort } from './freePort.ts';
import { programFile } from './programs.ts';
import { until } from './until.ts';

/** The `pdfseal-witness` that a site runs, with all its files in the folder `witness`. */
export class SiteWitness {
  readonly vkey: string;
  readonly url: string;
  /** What it has written since its last start. */
  output = () => '';
  readonly #dir: string;
  readonly #program: string;
  readonly #port: number;
  #child: ChildProcess | undefined;

  private constructor(dir: string, site: string, program: string, port: number) {
    this.#dir = join(dir, 'witness');
    this.#program = program;
    this.#port = port;
    this.url = `http://127.0.0.1:${port}`;
    mkdirSync(join(this.#dir, 'state'), { recursive: true });
    const args = ['keygen', '--name', `${site}.example/witness`, '--key', join(this.#dir, 'key')];
    this.vkey = execFileSync(process.execPath, [program, ...args], { encoding: 'utf8' }).trim();
  }

  /** Makes its key; it cosigns nothing before {@link name}. */
  static async make(dir: string, site: string, code: 'src' | 'dist'): Promise<SiteWitness> {
    return new SiteWitness(dir, site, await programFile('main/witnessProgram', code), await freePort());
  }

  /** The log that it is to cosign. */
  name(log: string): void {
    writeFileSync(join(this.#dir, 'logs'), `log ${log}\nquorum none\n`);
  }

  async start(): Promise<void> {
    const files = ['key', 'logs', 'state'].flatMap((name) => [`--${name}`, join(this.#dir, name)]);
    const listen = ['--listen', `127.0.0.1:${this.#port}`];
    this.#child = spawn(process.execPath, ['--jitless', this.#program, 'serve', ...files, ...listen], {
      env: ENVIRONMENT,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    if (this.#child.stdout) this.output = collect(this.#child.stdout);
    await until('the witness listens', () => isListening(this.#port));
  }

  /** All that it had written; nothing if it did not run. */
  async kill(): Promise<string> {
    const child = this.#child;
    if (child === undefined) return '';
    this.#child = undefined;
    const ended = once(child, 'close');
    child.kill('SIGKILL');
    await ended;
    return this.output();
  }

  /** The newest checkpoint that it cosigned, as its file has it. */
  held(): string | undefined {
    const [name] = readdirSync(join(this.#dir, 'state')).filter((file) => /^[0-9a-f]{64}$/.test(file));
    return name && readFileSync(join(this.#dir, 'state', name), 'utf8');
  }
}
