import { Readable } from 'node:stream';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { ERROR_KINDS } from '../base/errorKinds.ts';
import { ServiceError } from '../base/errors.ts';
import type { Slots } from '../base/slots.ts';
import type { Outcome } from '../job/job.ts';
import { Allowance } from '../limits/allowance.ts';
import { readReceipt } from '../prove/trail/receipts.ts';
import type { Store } from '../store/store.ts';
import { askForBody, IncomingBody } from '../web/incomingBody.ts';
import { BulkLines, type NumberedLine } from './bulkLines.ts';
import { answerBody, type Create, type Created, type CreateOptions, failureOf, runCreate } from './create.ts';
import { type AnswerOptions, errorBody, tellable } from './errorResponses.ts';
import type { LineSlots } from './lineSlots.ts';
import { requestIds } from './observe.ts';
import { ASK_AGAIN_SECONDS } from './presentJob.ts';
import { setRateLimit } from './rateLimit.ts';
import { refuseQuery } from './receive.ts';
import { discard, requireMediaType } from './requestBody.ts';
import { callerOf, type Middleware, type RequestContext, senderOf } from './requestContext.ts';
import type { ApiBody } from './schemas.ts';

interface BulkOptions extends CreateOptions, AnswerOptions {
  store: CreateOptions['store'] & Pick<Store, 'identity' | 'log'>;
  batches: Slots;
  /** Shared by all batches. */
  lineSlots: LineSlots;
  logger: Logger;
}

const NDJSON_TYPE = 'application/x-ndjson';
/** Maximum characters of answers that are sent in one turn of the event loop. */
const CHUNK_CHARACTERS = 16 * 1024;
/**
 * How long a batch pauses beyond the rate. The lines that the rate allows afterwards share a signature, and single requests get in between.
 */
const PAUSE_MS = 1_000;

/** The text of one answer line, produced when the line is about to be sent. */
type Answer = () => string | Promise<string>;

/** `POST /v1/batches/seal`: many creates by digests in one request. Each line gets its own answer. */
export function createInBulk(options: BulkOptions): Middleware {
  return async (ctx) => {
    refuseQuery(ctx);
    requireMediaType(ctx, [NDJSON_TYPE], `Content-Type must be ${NDJSON_TYPE}.`);
    const { clientId } = callerOf(ctx).viewer;
    const leave = options.batches.take(clientId);
    const rate = options.limits.rate(clientId);
    setRateLimit(ctx, rate ? [rate] : []);
    const answers = new BulkRequest(ctx, options).answers();
    ctx.status = 200;
    ctx.type = NDJSON_TYPE;
    ctx.body = Readable.from(answers, { objectMode: false }).once('close', leave);
  };
}

/**
 * Reads lines, begins each in its turn, and answers it when it is done. Beyond the rate of its client, a batch does not read until the rate
 * allows another line. The service reads the request even if the client does not read the answers: otherwise a client that sends everything
 * first would wait for the service, and the service for the client. The maximum number of lines bounds the waiting answers; receipts are
 * read from the store only when they are sent.
 */
class BulkRequest {
  readonly #ctx: RequestContext;
  readonly #options: BulkOptions;
  readonly #lines = new BulkLines();
  readonly #counts = { lines: 0, accepted: 0, replayed: 0, refused: 0, paused_ms: 0 };
  readonly #underWay = new Set<Promise<void>>();
  /** One for each line that waits for its job to be sealed. */
  readonly #patience = new Set<AbortController>();
  readonly #gone = new AbortController();
  #answers: Answer[] = [];
  #wake = Promise.withResolvers<void>();
  #ended = false;

  constructor(ctx: RequestContext, options: BulkOptions) {
    this.#ctx = ctx;
    this.#options = options;
  }

  /** The answer's body. The first read of this body starts the reading of the request. */
  async *answers(): AsyncGenerator<string> {
    const { req, res } = this.#ctx;
    askForBody(this.#ctx);
    res.flushHeaders();
    void this.#run();
    for (let chunk = await this.#next(); chunk !== ''; chunk = await this.#next()) {
      using _stalled = setTimeout(() => res.destroy(), this.#options.intake.patience.idleTimeoutMs);
      yield chunk;
    }
    // If unread bytes remain, the socket resets the connection and the client loses the answer.
    if (!req.complete && !req.destroyed) await discard(req, senderOf(this.#ctx));
  }

  /** The answers that are ready, as one text; an empty text means the end. */
  async #next(): Promise<string> {
    while (this.#answers.length === 0) {
      if (this.#ended) return '';
      this.#wake = Promise.withResolvers();
      await this.#wake.promise;
    }
    await nextTurn();
    const ready = this.#answers;
    this.#answers = [];
    let text = '';
    let sent = 0;
    for (const answer of ready) {
      if (text.length >= CHUNK_CHARACTERS) break;
      text += `${await answer()}\n`;
      sent += 1;
    }
    this.#answers = [...ready.slice(sent), ...this.#answers];
    return text;
  }

  /** Resolves when every line is answered; never rejects. */
  async #run(): Promise<void> {
    const { res } = this.#ctx;
    const giveUp = () => {
      this.#gone.abort(new ServiceError('incomplete_body', 'The client has gone.'));
      for (const patience of this.#patience) patience.abort();
    };
    res.once('close', giveUp);
    if (res.closed) giveUp();
    await this.#read();
    await Promise.all(this.#underWay);
    res.off('close', giveUp);
    this.#ended = true;
    this.#wake.resolve();
    this.#options.logger.info({ ...requestIds(this.#ctx), ...this.#counts }, 'a batch was answered');
  }

  async #read(): Promise<void> {
    const body = new IncomingBody(this.#ctx.req, this.#options.intake.patience);
    try {
      await body.read((chunk) => body.hold(this.#carryOut(this.#lines.push(chunk))));
      await this.#carryOut(this.#lines.end());
    } catch (error) {
      // Earlier lines continue. Later lines never arrived, so they get no answer.
      this.#refuse(this.#lines.line, error);
    }
  }

  /** Begins these lines, one after another. Throws ServiceError once the client has disconnected: the remaining lines are not begun. */
  async #carryOut(lines: Iterable<NumberedLine>): Promise<void> {
    const { limits, lineSlots } = this.#options;
    const { clientId } = callerOf(this.#ctx).viewer;
    for (const line of lines) {
      const allowance = new Allowance(limits, clientId);
      while (!allowance.tryTakeRequest()) await this.#pause();
      const leave = await lineSlots.take(clientId, this.#gone.signal);
      this.#counts.lines += 1;
      const answered = this.#answer(line, allowance, leave).finally(() => this.#underWay.delete(answered));
      this.#underWay.add(answered);
    }
  }

  async #pause(): Promise<void> {
    const { signal } = this.#gone;
    const { socket } = this.#ctx.req;
    // The client is not responsible for this silence.
    socket.setTimeout(socket.timeout ?? 0);
    await sleep(PAUSE_MS, undefined, { signal }).catch(() => signal.throwIfAborted());
    this.#counts.paused_ms += PAUSE_MS;
  }

  /** Carries out a line; never rejects. */
  async #answer({ line, parse }: NumberedLine, allowance: Allowance, leave: () => void): Promise<void> {
    try {
      const { request, idempotencyKey, receipt } = parse();
      const create: Create = {
        idempotencyKey,
        form: { kind: 'line', request },
        allowance,
        wait: (jobId) => this.#settled(jobId),
      };
      const created = await runCreate(this.#ctx, create, this.#options);
      if (created.outcome?.kind === 'failed') throw failureOf(created.outcome.failure);
      this.#counts[created.replayed ? 'replayed' : 'accepted'] += 1;
      this.#say(() => this.#accepted(line, created, receipt));
    } catch (error) {
      this.#refuse(line, error);
    } finally {
      allowance.close();
      leave();
    }
  }

  async #settled(jobId: string): Promise<Outcome | undefined> {
    const { sealer, blockingTimeoutMs } = this.#options;
    const patience = new AbortController();
    this.#patience.add(patience);
    if (this.#gone.signal.aborted) patience.abort();
    using _timer = setTimeout(() => patience.abort(), blockingTimeoutMs);
    try {
      return await sealer.settled(jobId, patience.signal);
    } finally {
      this.#patience.delete(patience);
    }
  }

  /** The line contains the job as the answer to a single create does. */
  async #accepted(line: number, created: Created, withReceipt: boolean): Promise<string> {
    const { store } = this.#options;
    const { job, outcome, replayed } = created;
    try {
      const body = await answerBody(created, this.#options);
      const isLate = job.mode === 'blocking' && outcome === undefined;
      const wanted = withReceipt && outcome?.kind === 'sealed' ? outcome.leafIndex : undefined;
      const more = JSON.stringify({
        replayed: replayed || undefined,
        receipt: wanted === undefined ? undefined : await readReceipt(store, job, wanted),
        retry_after: isLate ? ASK_AGAIN_SECONDS : undefined,
      }).slice(1, -1);
      return `{"line":${line},"status":202,"job":${body}${more === '' ? '' : `,${more}`}}`;
    } catch (error) {
      return this.#refusal(line, error);
    }
  }

  #refuse(line: number, error: unknown): void {
    this.#counts.refused += 1;
    // At once: what must end the process does so, even if the client reads no answer.
    const refusal = this.#refusal(line, error);
    this.#say(() => refusal);
  }

  #refusal(line: number, thrown: unknown): string {
    const { code, message, retryAfterSeconds } = tellable(this.#ctx, thrown, this.#options);
    const { status } = ERROR_KINDS[code];
    const error = errorBody(code, message);
    const refusal: ApiBody<'BatchAnswer'> = { line, status, error, retry_after: retryAfterSeconds };
    return JSON.stringify(refusal);
  }

  #say(answer: Answer): void {
    this.#answers.push(answer);
    this.#wake.resolve();
  }
}
