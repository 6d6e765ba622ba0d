/** A client of everything, driven by a seed: what it sends follows from the seed, what it is answered goes into its {@link History}. */
import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { askAdmin } from '../support/admin.ts';
import { BatchStream, Client, digestFields, type Envelope, type JobBody } from '../support/client.ts';
import type { Daemon } from '../support/daemon.ts';
import { onePage, pdfFile } from '../support/pdf.ts';
import { Receiver } from '../support/receiver.ts';
import type { Sandbox, SandboxOptions } from '../support/sandbox.ts';
import { openSource, type SourceServer, serving } from '../support/sources.ts';
import { emptyHistory, goBack, type History, type Terms, type Try } from './history.ts';
import { randomFrom } from './random.ts';

export const TERMS: Terms = { listener: 'loud', limited: { client: 'small', jobs: 12 } };

/** A daemon whose promises are all put to use. */
export const SITE = {
  regions: ['eu', 'us'],
  stamped: true,
  tables: {
    sources: 'allow = ["127.0.0.0/8"]\nretry_delay = "50ms"',
    webhooks:
      'allow = ["127.0.0.0/8"]\ntimeout = "5s"\nretries = ["20ms", "50ms", "100ms", "1s", "1s", "1s", "1s", "5s", "5s", "1m"]\nprobe_interval = "100ms"',
  },
  tail: `[clients.small.quotas.default]\njobs = ${TERMS.limited.jobs}\nwindow = "366d"`,
} satisfies SandboxOptions;

/** No request takes longer, whatever fails: blocking creates are answered within 30 s. */
const ANSWER_MS_MAX = 60_000;
const DAY_MS = 86_400_000;
/** Pause of a client that finds nobody. */
const NOBODY_MS = 250;
/** So many creates are repeated at once in the end, and each so often. */
const REPEATS = 8;
const REFUSALS_MAX = 240;

interface Create {
  client: string;
  /** `source`: the daemon fetches it from a server of ours. */
  way: 'upload' | 'digests' | 'source';
  mode: 'blocking' | 'async';
  /** Whether a sealed PDF is asked for. */
  attaches: boolean;
  content: Buffer<ArrayBuffer>;
  key?: string;
  /** Seconds that a blocking create waits. */
  wait?: number;
}

export class Workload {
  readonly history: History = emptyHistory();
  readonly receiver: Receiver;
  readonly #sandbox: Sandbox;
  readonly #clients: Map<string, Client>;
  readonly #keys: Map<string, string>;
  readonly #random: () => number;
  readonly #creates: Create[] = [];
  #attaches = false;
  #source: SourceServer | undefined;
  /** Documents by their paths there. */
  readonly #hosted = new Map<string, Buffer>();
  #number = 0;
  #isSettling = false;

  private constructor(
    sandbox: Sandbox,
    receiver: Receiver,
    keys: Map<string, string>,
    client: Client,
    seed: number,
  ) {
    this.#sandbox = sandbox;
    this.receiver = receiver;
    this.#keys = keys;
    this.#clients = new Map([...keys].map(([name, key]) => [name, client.as(key)]));
    this.#random = randomFrom(seed);
  }

  /**
   * Issues keys and adds an endpoint; the daemon runs. `hasSource`: it is also sent documents by their `source_url`. `attaches`: it is also asked for
   * sealed PDFs.
   */
  static async open(
    t: { teardown(close: () => void): unknown },
    sandbox: Sandbox,
    seed: number,
    { hasSource = false, attaches = false } = {},
  ): Promise<Workload> {
    const random = randomFrom(~seed);
    const receiver = await Receiver.open(t, (res) => {
      const chance = random();
      if (chance < 0.1) res.socket?.destroy();
      else res.writeHead(chance < 0.2 ? 503 : 204).end();
    });
    const { listener, limited } = TERMS;
    const keys = new Map([
      [
        listener,
        await sandbox.issueKey(listener, 'acme', '--scopes', 'jobs:create,jobs:read,webhooks:manage'),
      ],
      [limited.client, await sandbox.issueKey(limited.client)],
    ]);
    const workload = new Workload(sandbox, receiver, keys, await Client.connect(sandbox.url), seed);
    workload.#attaches = attaches;
    if (hasSource) workload.#source = await openSource(t, (req, res) => workload.#serve(req, res, random()));
    for (const client of keys.keys()) workload.history.acts.push({ act: 'key.issue', word: `"${client}"` });
    const added = await workload.client(listener).request('POST', '/v1/webhook-endpoints', {
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ url: receiver.url }),
    });
    const { id, secret } = added.json<{ id: string; secret: string }>();
    receiver.secrets = [secret];
    workload.history.acts.push({ act: 'webhook.add', word: id });
    return workload;
  }

  /** Now and then the connection breaks in the middle of the document, which is fetched again. */
  #serve(req: IncomingMessage, res: ServerResponse, chance: number): void {
    const content = this.#hosted.get(req.url ?? '');
    if (content === undefined) res.writeHead(404).end();
    else if (chance < 0.1 && req.method === 'GET')
      res
        .writeHead(200, { 'Content-Length': content.length })
        .write(content.subarray(0, 9), () => res.destroy());
    else serving(content)(req, res);
  }

  client(name: string): Client {
    const client = this.#clients.get(name);
    if (client === undefined) throw new Error(`there is no client ${name}`);
    return client;
  }

  /** Sends from so many clients at once until `isOver`. A connection that breaks is no fault; what is answered must be of the API. */
  async run(isOver: () => boolean, { lanes = 4, pauseMs = 5 } = {}): Promise<void> {
    const lane = async () => {
      while (!isOver()) {
        await this.#guard(() => this.#step());
        await sleep(this.#random() * pauseMs);
      }
    };
    await Promise.all(Array.from({ length: lanes }, lane));
  }

  /** What administrators do, one thing after the other. */
  async administer(daemon: Daemon): Promise<void> {
    const name = `extra-${this.#number++}`;
    const chores = [
      async () => this.#done('key.issue', name, await this.#sandbox.issueKey(name)),
      async () => {
        const before = this.#reloads(daemon);
        daemon.child.kill('SIGHUP');
        for (let waits = 0; waits < 100 && this.#reloads(daemon) === before; waits++) await sleep(20);
      },
      async () => {
        const { status } = await askAdmin(this.#sandbox, '/partitions/us/out?for=30s', 'POST');
        this.#noteError('the begin of a drill', status);
        if (status === 200) this.#done('drill.begin', 'us');
        const back = await askAdmin(this.#sandbox, '/partitions/us/in', 'POST');
        this.#noteError('the end of a drill', back.status);
        // Where there is no drill, its end changes nothing, and is no act.
        if (status === 200 && back.status === 200) this.#done('drill.end', 'us');
      },
      () => this.backUp(),
      () => this.#planEpoch(name),
    ];
    await this.#pick(chores)().catch(() => {});
  }

  /** Plans an epoch with a new key of one partition, and takes it back. What an earlier chore could not take back is in the way of another. */
  async #planEpoch(name: string): Promise<void> {
    const config = ['--config', this.#sandbox.configFile];
    const from = new Date(Date.now() + DAY_MS).toISOString().slice(0, -'.000Z'.length);
    const keys = ['--new-keys', 'us/sandbox-2026', '--suffix', name];
    const planned = await this.#sandbox.pdfseal(['epochs', 'plan', ...config, ...keys, '--from', `${from}Z`]);
    if (planned.status === 0) this.#done('epoch.plan', from);
    const cancelled = await this.#sandbox.pdfseal(['epochs', 'cancel', ...config]);
    if (cancelled.status === 0) this.#done('epoch.cancel', '');
  }

  /** Plans an epoch with new keys that begins as soon as it may, on a slow machine later; when, milliseconds since the epoch. */
  async beginEpoch(): Promise<number> {
    const suffix = `e${this.#number++}`;
    for (const seconds of [9, 30, 90]) {
      const from = Math.ceil(Date.now() / 1000 + seconds) * 1000;
      const date = new Date(from).toISOString().replace('.000', '');
      const args = ['--from', date, '--suffix', suffix, '--use-existing-keys'];
      const config = ['--config', this.#sandbox.configFile];
      const { status, stderr } = await this.#sandbox.pdfseal(['epochs', 'plan', ...config, ...args]);
      if (status !== 0 && stderr.includes('too soon')) continue;
      if (status !== 0) throw new Error(stderr);
      this.#done('epoch.plan', date.slice(0, -1));
      this.history.epochs.push({ from, suffix });
      return from;
    }
    throw new Error('no moment is late enough');
  }

  /** Keeps the last of everything that was done, for a run that has no end of its own. */
  forget(keep: number): void {
    const { tries, receipts, checkpoints, acts } = this.history;
    for (const list of [this.#creates, tries, receipts, checkpoints, acts, this.receiver.received])
      list.splice(0, Math.max(0, list.length - keep));
  }

  /** What the daemon is doing does not matter to a backup. */
  async backUp(): Promise<void> {
    const name = `backup-${this.#number++}`;
    const { dir, configFile } = this.#sandbox;
    const folder = `${dir}/backups/${name}`;
    const acknowledged = this.history.tries.flatMap(({ answer: { jobId, phase = '' } = { status: 0 } }) =>
      jobId === undefined ? [] : [{ jobId, phase }],
    );
    const { checkpoints, acts } = this.history;
    const before = { acknowledged, checkpoints: checkpoints.length, acts: acts.length };
    const { status, stderr } = await this.#sandbox.pdfseal([
      'backup',
      '--config',
      configFile,
      '--output',
      folder,
    ]);
    if (status !== 0) return void this.history.faults.push(`the backup ended with ${status}: ${stderr}`);
    const told = this.receiver.received.map(({ webhookId }) => webhookId);
    this.history.backups.push({ folder, ...before, told: [...this.history.told, ...told] });
    this.#done('backup.make', name);
  }

  /** Restores the newest backup, which is older than the store, and has the signers continue it. No daemon runs. */
  async goBack(): Promise<void> {
    const newest = this.history.backups.at(-1);
    if (newest === undefined) throw new Error('there is no backup');
    const run = async (...args: string[]) => {
      const result = await this.#sandbox.pdfseal([...args, '--config', this.#sandbox.configFile]);
      if (result.status !== 0) throw new Error(`${args[0]} ended with ${result.status}: ${result.stderr}`);
      return result;
    };
    const { stdout } = await run('restore', '--input', newest.folder, '--accept-rollback', '--json');
    goBack(this.history, newest);
    this.receiver.received.splice(0);
    this.#done('restore', newest.folder);
    const { tree_size: leaves } = JSON.parse(stdout) as { tree_size: number };
    // The last checkpoint outside the store can be as old as the backup; the signers' memory is not.
    await run('hsm', 'reset-signers', `${leaves}`, '--reason', 'the newest backup');
    this.#done('signers.reset', 'the newest backup');
  }

  /** Whether a new document is sealed in time. */
  async isSealing(): Promise<boolean> {
    return (await this.sealOne())?.phase === 'completed';
  }

  /** The answer for a new document that is to be sealed at once. */
  async sealOne(): Promise<Try['answer']> {
    const create = this.#newCreate(TERMS.listener);
    create.mode = 'blocking'; // Repeats of it are the same.
    delete create.wait;
    return (await this.#create(create)).answer;
  }

  /** Repeats every create that was not answered until it is served, and uses up the quota; false if one is never served. The daemon runs undisturbed. */
  async settle(): Promise<boolean> {
    this.#isSettling = true;
    const answered = new Set(
      this.history.tries.filter(({ answer }) => answer?.jobId).map(({ document }) => document),
    );
    const unanswered = this.#creates.filter(
      ({ key, content }) => key !== undefined && !answered.has(sha256(content)),
    );
    for (let first = 0; first < unanswered.length; first += REPEATS) {
      const repeated = unanswered.slice(first, first + REPEATS).map((create) => this.#insist(create));
      if ((await Promise.all(repeated)).includes(false)) return false; // the checker names those that are left
    }
    for (let left = 2 * TERMS.limited.jobs; left > 0; left--) {
      const { answer } = await this.#create(this.#newCreate(TERMS.limited.client));
      if (answer?.code === 'quota_exceeded') break;
    }
    return true;
  }

  /** Whether a create that is repeated and repeated is served. */
  async #insist(create: Create): Promise<boolean> {
    for (let refusals = 0; refusals < REFUSALS_MAX; refusals++) {
      const { answer } = await this.#create(create);
      if (answer?.status === 202 || answer?.code === 'quota_exceeded') return true;
      if (answer?.code === 'fork_alarm') return false; // it does not end by itself
      await sleep(NOBODY_MS);
    }
    return false;
  }

  /** One thing that a client does. */
  async #step(): Promise<void> {
    const chance = this.#random();
    if (chance < 0.45) await this.#create(this.#newCreate());
    else if (chance < 0.6) await this.#race();
    else if (chance < 0.7) await this.#batch();
    else if (chance < 0.85) await this.#readReceipt();
    else await this.#readCheckpoint();
  }

  #newCreate(client = this.#random() < 0.9 ? TERMS.listener : TERMS.limited.client): Create {
    const number = this.#number++;
    const way = this.#newWay();
    const text = `(document ${number} ${'x'.repeat(this.#random() * 5000)})`;
    const create: Create = {
      client,
      way,
      mode: this.#random() < 0.6 ? 'blocking' : 'async',
      attaches: this.#attaches && way !== 'digests' && this.#random() < 0.4,
      content: Buffer.from(pdfFile({ ...onePage(), 5: text })),
      ...(this.#random() < 0.7 && { key: `create-number-${number}` }),
      ...(this.#random() < 0.2 && { wait: 0 }),
    };
    this.#creates.push(create);
    return create;
  }

  #newWay(): Create['way'] {
    const chance = this.#random();
    if (chance < 0.2 && this.#source) return 'source';
    return chance < 0.75 ? 'upload' : 'digests';
  }

  /** The same create twice at once; it was sent before, or was not. */
  async #race(): Promise<void> {
    const earlier = this.#creates.filter(({ key }) => key !== undefined);
    const create = earlier.length > 0 && this.#random() < 0.7 ? this.#pick(earlier) : this.#newCreate();
    await Promise.all([this.#create(create), this.#create(create)]);
  }

  async #create(create: Create): Promise<Try> {
    const { client, content, key, wait } = create;
    const attempt: Try = {
      client,
      document: sha256(content),
      ...(key && { key }),
      ...(create.attaches && { attaches: true }),
    };
    this.history.tries.push(attempt);
    const headers = {
      ...(key && { 'Idempotency-Key': key }),
      ...(wait !== undefined && { Prefer: `wait=${wait}` }),
    };
    const common = { headers, signal: AbortSignal.timeout(ANSWER_MS_MAX) };
    await this.#guard(async () => {
      const { path, body } = this.#requestOf(create);
      const type = typeof body === 'string' && { 'Content-Type': 'application/json' };
      const { status, json } = await this.client(client).request('POST', path, {
        ...common,
        headers: { ...headers, ...type },
        body,
      });
      attempt.answer =
        status === 202 ? answerOf(status, json<JobBody>()) : { status, code: json<Envelope>().error.code };
      this.#expectStatus(attempt);
    });
    return attempt;
  }

  #requestOf(create: Create): { path: string; body: FormData | string } {
    const { way, mode, attaches, content } = create;
    if (way === 'digests')
      return { path: '/v1/digests/seal', body: JSON.stringify(digestFields(content, { mode })) };
    const fields = { visibility: 'private', mode, sealed_pdf: attaches ? 'attach' : 'none' };
    const path = '/v1/jobs/seal';
    if (way === 'source') {
      const place = `/${sha256(content)}.pdf`;
      this.#hosted.set(place, content);
      const source_url = `${this.#source?.origin}${place}`;
      return { path, body: JSON.stringify({ ...fields, source_url, checksum_sha256: sha256(content) }) };
    }
    const body = new FormData();
    for (const [name, value] of Object.entries(fields)) body.append(name, value);
    body.append('file', new Blob([content], { type: 'application/pdf' }), 'document.pdf');
    return { path, body };
  }

  async #batch(): Promise<void> {
    const lines = Array.from({ length: 1 + Math.floor(this.#random() * 4) }, () => ({
      ...this.#newCreate(TERMS.listener),
      way: 'digests' as const,
      attaches: false,
    }));
    const tries = lines.map(
      ({ client, content, key }): Try => ({ client, document: sha256(content), ...(key && { key }) }),
    );
    // Repeats of a line go the way it came: a key belongs to one operation.
    for (const line of lines)
      this.#creates[this.#creates.findIndex(({ content }) => content === line.content)] = line;
    this.history.tries.push(...tries);
    const stream = new BatchStream(this.#sandbox.url, this.#keys.get(TERMS.listener) ?? '');
    stream.send(
      ...lines.map(({ content, key, mode }) =>
        JSON.stringify(digestFields(content, { mode, ...(key && { idempotency_key: key }) })),
      ),
    );
    stream.request.end();
    const tooLate = setTimeout(() => stream.destroy(), ANSWER_MS_MAX);
    // What was answered before a connection broke was answered.
    await stream.ended.catch(() => {});
    clearTimeout(tooLate);
    this.#noteError('a batch', stream.status);
    for (const { line, status, job, error } of stream.answers) {
      const attempt = tries[line - 1];
      if (attempt === undefined) continue;
      attempt.answer = job ? answerOf(status, job) : { status, ...(error && { code: error.code }) };
      this.#expectStatus(attempt);
    }
  }

  async #readReceipt(): Promise<void> {
    const known = this.history.tries.filter(({ answer }) => answer?.jobId !== undefined);
    if (known.length === 0) return;
    const { client, answer } = this.#pick(known);
    await this.#receiptOf(client, answer?.jobId ?? '');
  }

  async #receiptOf(client: string, jobId: string): Promise<void> {
    const { status, text } = await this.client(client).get(`/v1/jobs/${jobId}/receipt.json`);
    this.#noteError(`the receipt of ${jobId}`, status);
    if (status === 200) this.history.receipts.push({ jobId, text });
    else if (status < 500 && !text.includes('"receipt_not_ready"'))
      this.history.faults.push(`receipt of ${jobId}: ${text}`);
  }

  async #readCheckpoint(): Promise<void> {
    const { status, text } = await this.client(TERMS.listener).get('/v1/log/checkpoint');
    this.#noteError('the checkpoint', status);
    if (status === 200) this.history.checkpoints.push(text);
  }

  #noteError(request: string, status: number): void {
    if (status === 500) this.history.internalErrors.push({ request, isUndisturbed: this.#isSettling });
  }

  #expectStatus({ answer, document }: Try): void {
    const { status = 0, code } = answer ?? {};
    this.#noteError(`the create of ${document}`, status);
    const isExpected =
      [202, 500, 503].includes(status) || code === 'quota_exceeded' || code === 'idempotency_in_progress';
    if (!isExpected) this.history.faults.push(`create of ${document}: ${status} ${code}`);
  }

  /** A broken connection is no answer; everything else that is thrown is a fault. */
  async #guard(ask: () => Promise<unknown>): Promise<void> {
    try {
      await ask();
    } catch (error) {
      if (error instanceof TypeError) await sleep(NOBODY_MS);
      else this.history.faults.push(String(error));
    }
  }

  #done(act: string, word: string, _result?: unknown): void {
    this.history.acts.push({ act, word });
  }

  #reloads({ log }: Daemon): number {
    return log.filter(({ event }) => String(event).startsWith('config_')).length;
  }

  #pick<T>(from: readonly T[]): T {
    return from[Math.floor(this.#random() * from.length)] as T;
  }
}

function answerOf(status: number, { id, phase }: JobBody): NonNullable<Try['answer']> {
  return { status, jobId: id, phase };
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}
