import { pino } from 'pino';
import type { Delivery, WebhookEndpoint } from '../../src/store/webhookStore.ts';
import type { HttpExchange } from '../../src/web/httpClient.ts';
import { NoAnswer } from '../../src/web/noAnswer.ts';
import { type Answer, Deliverer } from '../../src/webhook/deliver.ts';
import { OutboxModel } from './outboxModel.ts';
import { Broken, type End, World } from './world.ts';

const RETRY_DELAYS_MS = [500, 2_000, 10_000];
const LIMITS = { inFlightMax: 8, perEndpointMax: 3 };
const ENDPOINTS = 4;

/** How soon the deliverer must see what another process changed. */
const SEEN_AFTER_MS = 1000;

/** What became of the messages for one endpoint. */
interface Receiver {
  /** When each message can be repeated, by the waits and what the endpoint asked for. */
  notBefore: Map<string, number>;
  /** Whether an answer was 2xx, by message. */
  taken: Map<string, boolean>;
  /** Messages under way, and those that this deliverer knows to be taken. */
  open: Set<string>;
  known: Set<string>;
  bodies: Map<string, string>;
}

/**
 * The real deliverer of webhooks between a store and endpoints that answer as a list of numbers says. When the list is at its end, all
 * endpoints but one answer, and every message must have arrived or be a dead letter.
 */
export class OutboxSchedule {
  readonly world = new World();
  readonly #outbox = new OutboxModel(this.world);
  readonly #receivers = new Map<string, Receiver>();
  /** Endpoint and message of everything that was promised. */
  readonly #told = new Map<string, { endpointId: string; webhookId: string }>();
  #deliverer: Deliverer | undefined;
  #stopping: Promise<void> | undefined;
  #broken: unknown;
  #messages = 0;
  #isCalm = false;
  /** Of the requests under way. */
  #cutOff = new AbortController();

  constructor(_first: number) {
    this.world.rule();
    for (let n = 1; n <= ENDPOINTS; n++) {
      const id = `we_${String(n).padStart(32, '0')}`;
      const url = `https://${id}.example.com/`;
      this.#outbox.put({ id, clientId: id, url, events: ['job.completed'], secrets: [], createdAt: 0 });
      this.#receivers.set(id, {
        taken: new Map(),
        notBefore: new Map(),
        open: new Set(),
        known: new Set(),
        bodies: new Map(),
      });
    }
  }

  /** Throws {@link Broken} when a promise is broken. */
  async run(steps: readonly number[]): Promise<void> {
    await this.#start();
    for (const step of steps) await this.#step(step % 1000, Math.floor(step / 1000));
    this.world.note('from here on all endpoints answer but the last');
    this.#isCalm = true;
    this.#outbox.isSwept = false;
    if (this.#stopping) {
      this.world.hung = [...this.#receivers.keys()].map(deviceOf);
      await this.#until('the deliverer stops', () => this.#stopping === undefined);
      this.world.hung = [];
    }
    const hung = [...this.#receivers.keys()].at(-1);
    const isHung = ({ endpointId }: Delivery) => endpointId === hung;
    await this.#until('every message arrives', () => {
      // One that answered 410 just now is disabled only after its answer was recorded.
      for (const endpoint of this.#outbox.endpoints.values())
        if (endpoint.disabled) this.#enable(endpoint, true);
      return this.#outbox.pending.every(isHung);
    });
    this.#ended();
  }

  async #step(kind: number, detail: number): Promise<void> {
    const { world } = this;
    if (kind < 350) world.proceed();
    else if (kind < 500) world.endOne(detail, 0);
    else if (kind < 700) world.endOne(detail >> 3, detail & 7);
    else if (kind < 800) world.pass();
    else if (kind < 930) this.#tell();
    else if (kind < 970) this.#enable(this.#endpoint(detail), detail % 2 === 1);
    else if (kind < 990) this.#crash(detail);
    else this.#stop();
    await this.#rest();
  }

  async #rest(): Promise<void> {
    await this.world.rest();
    if (this.#broken !== undefined) throw this.#broken;
    if (this.#deliverer === undefined) await this.#start();
  }

  #until(what: string, isSo: () => boolean): Promise<void> {
    return this.world.until(what, isSo, () => this.#rest());
  }

  async #start(): Promise<void> {
    this.world.note('the deliverer starts');
    this.#cutOff = new AbortController();
    this.#deliverer = new Deliverer({
      store: this.#outbox.open(),
      client: {
        exchange: ({ url, headers = {}, body = new Uint8Array() }) => this.#post(url, headers, body),
        close: () => this.#cutOff.abort(new NoAnswer('closed', 'closed')),
      } as HttpExchange,
      timeoutMs: 10_000,
      retryDelaysMs: RETRY_DELAYS_MS,
      ...LIMITS,
      probeIntervalMs: 5_000,
      deadLetterMs: 1e9,
      present: ({ job }) => ({ id: job.id }),
      clock: () => this.world.now,
      logger: pino({ level: 'silent' }),
      onFatal: (error) => {
        this.#broken ??= error;
      },
    });
    this.#deliverer.start();
    await this.world.rest();
  }

  #tell(): void {
    this.#messages += 1;
    const webhookId = `msg_${String(this.#messages).padStart(32, '0')}`;
    this.world.note(`message ${this.#messages} is queued`);
    for (const endpointId of this.#outbox.tell(this.#messages))
      this.#told.set(`${endpointId} ${webhookId}`, { endpointId, webhookId });
  }

  #endpoint(which: number): WebhookEndpoint {
    const all = [...this.#outbox.endpoints.values()];
    return all[(which >> 1) % all.length] as WebhookEndpoint;
  }

  /** As its owner does at the API. */
  #enable({ disabled: _, ...endpoint }: WebhookEndpoint, isEnabled: boolean): void {
    this.world.note(`${deviceOf(endpoint.id)} is ${isEnabled ? 'enabled' : 'disabled'}`);
    this.#outbox.put({
      ...endpoint,
      ...(!isEnabled && { disabled: { at: this.world.now, reason: 'request' as const } }),
    });
  }

  /** An attempt reaches its endpoint, and is answered as the schedule says. */
  #post(url: URL, headers: Record<string, string>, body: Uint8Array): Promise<Answer> {
    const endpointId = url.hostname.split('.')[0] ?? '';
    const webhookId = headers['webhook-id'] ?? '';
    const receiver = this.#receivers.get(endpointId);
    if (receiver === undefined) throw new Error(`no endpoint ${endpointId}`);
    this.#attempted({ endpointId, webhookId }, receiver, Buffer.from(body).toString());
    receiver.open.add(webhookId);
    const attempts = (this.#deliveryOf({ endpointId, webhookId })?.attempts ?? 0) + 1;
    const over = (retryAfterMs = 0) => {
      receiver.open.delete(webhookId);
      const waitMs = Math.max(RETRY_DELAYS_MS[attempts - 1] ?? 0, retryAfterMs);
      receiver.notBefore.set(webhookId, this.world.now + waitMs);
    };
    const answer = (status: number, retryAfter?: string) => () => {
      over(Number(retryAfter ?? 0) * 1000);
      if (status === 200) receiver.known.add(webhookId);
      receiver.taken.set(webhookId, receiver.taken.get(webhookId) === true || status === 200);
      return { status, ...(retryAfter !== undefined && { retryAfter }) };
    };
    const noAnswer = (reason: 'timeout' | 'connection_reset') => () => {
      over();
      throw new NoAnswer(reason, reason);
    };
    const ends: End<Answer>[] = [
      ['200', answer(200)],
      ['500', answer(500)],
      ['no answer in time', noAnswer('timeout')],
      ['connection reset', noAnswer('connection_reset')],
      ['429, after 3 s', answer(429, '3')],
      ['410', answer(410)],
    ];
    const isHung = this.#isCalm && endpointId === [...this.#receivers.keys()].at(-1);
    const chosen = isHung ? ends.slice(2, 3) : ends;
    const name = `message ${Number(webhookId.slice(4))}`;
    return this.world.begin(deviceOf(endpointId), name, chosen, { signal: this.#cutOff.signal });
  }

  #attempted(
    { endpointId, webhookId }: Pick<Delivery, 'endpointId' | 'webhookId'>,
    { notBefore, open, known, bodies }: Receiver,
    body: string,
  ): void {
    const name = `message ${Number(webhookId.slice(4))}`;
    const inFlight = [...this.#receivers.values()].reduce((sum, one) => sum + one.open.size, 0);
    const delivery = this.#deliveryOf({ endpointId, webhookId });
    const disabledAt = this.#outbox.endpoints.get(endpointId)?.disabled?.at ?? this.world.now;
    this.#hold(delivery !== undefined, `${name} was sent and does not wait to be sent`);
    this.#hold((notBefore.get(webhookId) ?? 0) <= this.world.now, `${name} was repeated too soon`);
    this.#hold(this.world.now - disabledAt <= SEEN_AFTER_MS, `${name} was sent to a disabled endpoint`);
    this.#hold(!open.has(webhookId), `${name} was sent while it was under way`);
    this.#hold(!known.has(webhookId), `${name} was sent again after it was taken`);
    this.#hold(inFlight < LIMITS.inFlightMax, 'more messages are under way than may be');
    this.#hold(open.size < LIMITS.perEndpointMax, 'an endpoint gets more messages at a time than it may');
    this.#hold((bodies.get(webhookId) ?? body) === body, `${name} was sent with two bodies`);
    bodies.set(webhookId, body);
  }

  #deliveryOf(wanted: Pick<Delivery, 'endpointId' | 'webhookId'>): Delivery | undefined {
    return this.#outbox.pending.find(
      ({ endpointId, webhookId }) => endpointId === wanted.endpointId && webhookId === wanted.webhookId,
    );
  }

  #ended(): void {
    for (const { endpointId, webhookId } of this.#told.values()) {
      const isHere = (one: Delivery) => one.endpointId === endpointId && one.webhookId === webhookId;
      const dead = this.#outbox.dead.find(isHere);
      const isTaken = this.#receivers.get(endpointId)?.taken.get(webhookId) === true;
      const name = `message ${Number(webhookId.slice(4))}`;
      if (this.#outbox.pending.some(isHere)) continue;
      this.#hold(isTaken || dead !== undefined, `${name} is neither delivered nor a dead letter`);
      const isTried = dead?.death !== 'exhausted' || dead.attempts === RETRY_DELAYS_MS.length + 1;
      this.#hold(isTried, `${name} was given up after ${dead?.attempts} attempts`);
    }
    if (this.#broken !== undefined) throw this.#broken;
  }

  #crash(detail: number): void {
    this.world.note('the daemon is killed');
    this.world.kill('store', detail);
    this.#forget();
  }

  #stop(): void {
    const deliverer = this.#deliverer;
    if (deliverer === undefined || this.#stopping) return;
    this.world.note('the deliverer is told to stop');
    this.#stopping = deliverer.close().then(() => {
      this.world.note('the deliverer has stopped');
      this.world.kill('store', 0);
      this.#forget();
    });
  }

  #forget(): void {
    this.#outbox.close();
    // An attempt whose end was not recorded is made again at once.
    for (const { notBefore, open, known } of this.#receivers.values()) {
      notBefore.clear();
      open.clear();
      known.clear();
    }
    this.#deliverer = undefined;
    this.#stopping = undefined;
  }

  #hold(isSo: boolean, promise: string): void {
    if (!isSo) this.#broken ??= new Broken(promise);
  }
}

/** A short name for an endpoint in a history. */
function deviceOf(endpointId: string): string {
  return `endpoint ${endpointId.slice(-1)}`;
}
