/** The `pdfseal-witness` of a round, behind a proxy that sees every answer and can keep one back. */
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import type { Sandbox } from '../support/sandbox.ts';
import { SiteWitness } from '../support/siteWitness.ts';

/** For the table of a configuration. */
export const REQUIRED = 'policy = "policy"\ninterval = "200ms"\nrequired = true';

export class RealWitness {
  /** Answers that no true log gets, and what the witness says of them in its own log. */
  readonly refusals: string[] = [];
  readonly #witness: SiteWitness;
  readonly #proxy: Server;
  /** Is told of the next cosignature, which nobody else hears of. */
  #keepBack: (() => void) | undefined;

  private constructor(witness: SiteWitness) {
    this.#witness = witness;
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
    const made = new RealWitness(await SiteWitness.make(sandbox.dir, 'other', 'dist'));
    const [{ epochs }] = JSON.parse(readFileSync(sandbox.trustFile, 'utf8')).logs;
    made.#witness.name(epochs[0].keys[0].vkey);
    made.#proxy.listen(0, '127.0.0.1');
    await once(made.#proxy, 'listening');
    const { port } = made.#proxy.address() as AddressInfo;
    const policy = `witness other ${made.#witness.vkey} http://127.0.0.1:${port}\nquorum other\n`;
    writeFileSync(join(sandbox.dir, 'policy'), policy);
    await made.start();
    return made;
  }

  start(): Promise<void> {
    return this.#witness.start();
  }

  async kill(): Promise<void> {
    const output = await this.#witness.kill();
    for (const [line] of output.matchAll(/.*"event":"(?:contradiction|not_consistent)".*/g))
      this.refusals.push(line);
  }

  /** Resolves once the witness has cosigned a checkpoint that was not cosigned before; the answer is lost. */
  cosigned(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#keepBack = resolve;
    return promise;
  }

  /** See {@link SiteWitness.held}. */
  held(): string | undefined {
    return this.#witness.held();
  }

  async close(): Promise<void> {
    await this.kill();
    this.#proxy.close();
    this.#proxy.closeAllConnections();
  }

  async #pass(body: Buffer, res: ServerResponse): Promise<void> {
    const tree = () => this.held()?.split('\n', 3).join('\n');
    const before = tree();
    const answer = await fetch(`${this.#witness.url}/add-checkpoint`, {
      method: 'POST',
      body: new Uint8Array(body),
    });
    const text = await answer.text();
    if (answer.status !== 200 && answer.status !== 409) this.refusals.push(`${answer.status}: ${text}`);
    if (answer.status === 200 && tree() !== before && this.#keepBack !== undefined) {
      this.#keepBack();
      this.#keepBack = undefined;
      return void res.destroy();
    }
    const type = answer.headers.get('content-type') ?? 'text/plain';
    res.writeHead(answer.status, { 'Content-Type': type }).end(text);
  }
}
