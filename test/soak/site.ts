/** A daemon with everything on, and what is done to it for as long as one likes. */
import { createHash } from 'node:crypto';
import { rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { logIn, Pages } from '../bench/consoles.ts';
import { randomFrom } from '../faults/random.ts';
import { REQUIRED, RealWitness } from '../faults/realWitness.ts';
import { SITE, TERMS, Workload } from '../faults/workload.ts';
import type { Daemon } from '../support/daemon.ts';
import type { Code } from '../support/programs.ts';
import { openSandbox, type Sandbox } from '../support/sandbox.ts';
import { COLLECTING_ENVIRONMENT } from './leaks.ts';

/** Of what was done, so much is kept: it would be a leak of the client. */
const KEPT = 2000;
const CHORE_MS = 5000;
const SOURCE_MS = 500;

export class Site {
  readonly sandbox: Sandbox;
  readonly daemon: Daemon;
  readonly workload: Workload;
  readonly #ends: (() => unknown)[];
  readonly #random: () => number;
  #isOver = false;

  private constructor(
    sandbox: Sandbox,
    daemon: Daemon,
    workload: Workload,
    ends: (() => unknown)[],
    seed: number,
  ) {
    this.sandbox = sandbox;
    this.daemon = daemon;
    this.workload = workload;
    this.#ends = ends;
    this.#random = randomFrom(seed + 2);
  }

  static async open(seed: number, code: Code): Promise<Site> {
    const sandbox = await openSandbox({
      ...SITE,
      code,
      tables: {
        ...SITE.tables,
        witness: REQUIRED.replace('200ms', '1s'),
      },
      tail: `${SITE.tail}\n[console]\n`,
    });
    const ends: (() => unknown)[] = [() => sandbox.close()];
    const witness = await RealWitness.open(sandbox);
    ends.unshift(() => witness.close());
    const daemon = await sandbox.start({ env: COLLECTING_ENVIRONMENT });
    const t = { teardown: (close: () => void) => ends.unshift(close) };
    const workload = await Workload.open(t, sandbox, seed);
    const state = join(sandbox.dir, 'state');
    const pages = new Pages(join(state, 'console.sock'), [await logIn(state, 'auditor')]);
    await pages.open();
    ends.unshift(() => pages.close());
    return new Site(sandbox, daemon, workload, ends, seed);
  }

  /** Clients and administrators at work, until {@link close}. */
  async run(): Promise<void> {
    const isOver = () => this.#isOver;
    await Promise.all([
      this.workload.run(isOver, { lanes: 4, pauseMs: 400 }),
      this.#administer(),
      this.#sealSources(),
    ]);
  }

  /** What the clients and the administrators found wrong. */
  get faults(): string[] {
    const { faults, internalErrors } = this.workload.history;
    return [...faults, ...internalErrors.map(({ request }) => `an internal error: ${request}`)];
  }

  stop(): void {
    this.#isOver = true;
  }

  async close(): Promise<void> {
    for (const end of this.#ends) await end();
  }

  /** One chore after the other: keys, reloads, drills and backups; a check; an export of the audit trail. */
  async #administer(): Promise<void> {
    const { dir, configFile } = this.sandbox;
    const commands = [['check'], ['audit', 'export', '--output', join(dir, 'trail')]];
    while (!this.#isOver) {
      const chance = this.#random();
      const command = chance < 0.6 ? undefined : commands[chance < 0.8 ? 0 : 1];
      if (command === undefined) await this.workload.administer(this.daemon);
      else {
        const { status, stderr, stdout } = await this.sandbox.pdfseal([...command, '--config', configFile]);
        if (status !== 0) this.workload.history.faults.push(`${command.join(' ')}: ${stderr}${stdout}`);
      }
      for (const made of ['backups', 'trail']) rmSync(join(dir, made), { recursive: true, force: true });
      this.workload.forget(KEPT);
      await this.#pause(CHORE_MS * this.#random());
    }
  }

  /** Documents that the daemon fetches; every third is nowhere. */
  async #sealSources(): Promise<void> {
    const documents = (path = '') => Buffer.from(`%PDF-1.7\ndocument ${path}\n%%EOF\n`);
    const server = createServer((req, res) => {
      const document = documents(req.url);
      const isThere = Number(req.url?.slice(1)) % 3 > 0;
      res.writeHead(isThere ? 200 : 404, {
        'Content-Type': 'application/pdf',
        ...(isThere && { 'Content-Length': document.length }),
      });
      res.end(req.method === 'HEAD' || !isThere ? undefined : document);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    this.#ends.unshift(() => server.close());
    const { port } = server.address() as AddressInfo;
    for (let number = 1; !this.#isOver; number++) {
      const sha256 = createHash('sha256')
        .update(documents(`/${number}`))
        .digest('hex');
      const { status, text } = await this.workload.client(TERMS.listener).request('POST', '/v1/jobs/seal', {
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({
          source_url: `http://127.0.0.1:${port}/${number}`,
          checksum_sha256: sha256,
          visibility: 'private',
        }),
      });
      if (![202, 503].includes(status) && !text.includes('"source_'))
        this.workload.history.faults.push(`a source: ${status} ${text}`);
      await this.#pause(SOURCE_MS);
    }
  }

  async #pause(ms: number): Promise<void> {
    if (!this.#isOver) await sleep(ms);
  }
}
