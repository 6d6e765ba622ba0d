/** The `pdfseal-witness` of a round, behind a proxy that sees every answer and can keep one back. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { collect, ENVIRONMENT, isListening } from '../support/daemon.ts';
import { freePort } from '../support/freePort.ts';
import { programFile } from '../support/programs.ts';
import type { Sandbox } from '../support/sandbox.ts';
import { until } from '../support/until.ts';

/** For the table of a configuration. */
export const REQUIRED = 'policy = "policy"\ninterval = "200ms"\nrequired = true';

export class RealWitness {
  /** Answers that no true log gets, and what the witness says of them in its own log. */
  readonly refusals: string[] = [];
  readonly #dir: string;
  readonly #program: string;
  readonly #port: number;
  readonly #proxy: Server;
  #child: ChildProcess | undefined;
  #output = () => '';
  /** Is told of the next cosignature, which nobody else hears of. */
  #keepBack: (() => void) | undefined;

  private constructor(dir: string, program: string, port: number) {
    this.#dir = dir;
    this.#program = program;
    this.#port = port;
    this.#proxy = createServer(async (req, res) => {
      try {
        await this.#pass(await buffer(req), res);
      } catch {
        res.destroy();
      }
    });
  }

  /** Makes the witness of a site that is not running yet, starts it, and writes the policy of the site. */
  static async open(sandbox: Sandbox): Promise<RealWitness> {
    const dir = join(sandbox.dir, 'witness');
    mkdirSync(join(dir, 'state'), { recursive: true });
    const program = await programFile('witness/start', 'dist');
    const made = new RealWitness(dir, program, await freePort());
    const key = ['keygen', '--name', 'other.example/witness', '--key', join(dir, 'key')];
    const vkey = execFileSync(process.execPath, [program, ...key], { encoding: 'utf8' }).trim();
    const [{ epochs }] = JSON.parse(readFileSync(sandbox.trustFile, 'utf8')).logs;
    writeFileSync(join(dir, 'logs'), `log ${epochs[0].keys[0].vkey}\nquorum none\n`);
    made.#proxy.listen(0, '127.0.0.1');
    await once(made.#proxy, 'listening');
    const { port } = made.#proxy.address() as AddressInfo;
    const policy = `witness other ${vkey} http://127.0.0.1:${port}\nquorum other\n`;
    writeFileSync(join(sandbox.dir, 'policy'), policy);
    await made.start();
    return made;
  }

  async start(): Promise<void> {
    const files = ['key', 'logs', 'state'].flatMap((name) => [`--${name}`, join(this.#dir, name)]);
    const listen = ['--listen', `127.0.0.1:${this.#port}`];
    this.#child = spawn(process.execPath, ['--jitless', this.#program, 'serve', ...files, ...listen], {
      env: ENVIRONMENT,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    if (this.#child.stdout) this.#output = collect(this.#child.stdout);
    await until('the witness listens', () => isListening(this.#port));
  }

  async kill(): Promise<void> {
    const child = this.#child;
    if (child === undefined) return;
    this.#child = undefined;
    const ended = once(child, 'close');
    child.kill('SIGKILL');
    await ended;
    for (const [line] of this.#output().matchAll(/.*"event":"(?:contradiction|not_consistent)".*/g))
      this.refusals.push(line);
  }

  /** Resolves once the witness has cosigned a checkpoint that was not cosigned before; the answer is lost. */
  cosigned(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#keepBack = resolve;
    return promise;
  }

  /** The newest checkpoint that it cosigned, as its file has it. */
  held(): string | undefined {
    const [name] = readdirSync(join(this.#dir, 'state')).filter((file) => /^[0-9a-f]{64}$/.test(file));
    return name && readFileSync(join(this.#dir, 'state', name), 'utf8');
  }

  async close(): Promise<void> {
    await this.kill();
    this.#proxy.close();
    this.#proxy.closeAllConnections();
  }

  async #pass(body: Buffer, res: ServerResponse): Promise<void> {
    const before = this.held()?.split('\n', 3).join('\n');
    const answer = await fetch(`http://127.0.0.1:${this.#port}/add-checkpoint`, {
      method: 'POST',
      body: new Uint8Array(body),
    });
    const text = await answer.text();
    if (answer.status !== 200 && answer.status !== 409) this.refusals.push(`${answer.status}: ${text}`);
    const isNew = this.held()?.split('\n', 3).join('\n') !== before;
    if (answer.status === 200 && isNew && this.#keepBack !== undefined) {
      this.#keepBack();
      this.#keepBack = undefined;
      return void res.destroy();
    }
    const type = answer.headers.get('content-type') ?? 'text/plain';
    res.writeHead(answer.status, { 'Content-Type': type }).end(text);
  }
}
