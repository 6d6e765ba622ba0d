import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { systemClock } from '../base/clock.ts';
import { kmsKeyId } from '../log/verifierKey.ts';
import { type HeldKey, type VerifySignature, verifierOf } from './keyAlgorithm.ts';
import { carryOut, type Order } from './order.ts';
import { logState, type PartitionState, type PartitionStatus, stateAfter } from './partitionStatus.ts';
import { type Duties, type OpenedSessions, type TokenOptions, tokenName } from './protocol.ts';
import { restartPauseMs } from './restartPause.ts';
import { SessionQueue } from './sessionQueue.ts';
import { isRefusal, isTaken, SignerFailure, toSignerFailure } from './signerFailure.ts';
import { SignerProcess } from './signerProcess.ts';

export interface PartitionSettings {
  /** Maximum number of signatures under way at the same time, if the token allows so many sessions. */
  sessions: number;
  /** Duties of a signer that is a child of this process. */
  duties: Duties;
  /** Time limit from the moment when a message has a session. */
  signTimeoutMs: number;
  /** Time limit for each step of a start: loading the module and finding the token, logging in, finding the key. Default: 10 s. */
  startTimeoutMs?: number;
  /**
   * Whether it must find at its start that no other process signs with its keys. Keys of a future epoch cannot: those of the epoch in force
   * sign.
   */
  claims?: boolean;
  /** A partition that has not signed for this long must sign a probe. Default: 10 s. */
  probeIntervalMs?: number;
  logger: Logger;
  /** Receives every verified signature, including probes, and the time that the token took; must not throw. */
  onSigned?(key: KeyName, durationMs: number): void;
  onRefused?: RefusalListener;
}

type KeyName = Pick<HeldKey, 'region' | 'keyLabel'>;

/** Receives, once for each key and code, a code with which its signer refuses to sign ({@link isRefusal}); must not throw. */
export type RefusalListener = (key: KeyName, code: string) => void;

const START_TIMEOUT_MS = 10_000;
const PROBE_INTERVAL_MS = 10_000;

/** A step of a start hangs if it takes longer than this and this many times as long as the last good start. */
const HANG_MS_MIN = 1500;
/**
 * A unit starts a process for each connection, even one that is given up: hurried starts would pile up on a busy machine, and none would
 * end.
 */
const UNIT_HANG_MS_MIN = 8_000;
const HANG_FACTOR = 3;
/** One in this many starts gets the whole time-out: the token may have become slow. */
const PATIENT_START_EVERY = 50;

/**
 * One key on one token and the child that signs with it. Owns that child: starts it, restarts it when it dies, hangs or errs, never runs
 * two, and uses only signatures that verify with its caller's own record of the key.
 */
export class Partition<Key extends HeldKey = HeldKey> {
  readonly key: Key;
  /** Resolves once the first child is ready (undefined) or has failed. Never rejects. */
  readonly started: Promise<SignerFailure | undefined>;

  readonly #verify: VerifySignature;
  readonly #token: TokenOptions;
  readonly #settings: PartitionSettings;
  readonly #logger: Logger;
  readonly #onChange: () => void;
  readonly #startTimeoutMs: number;
  readonly #probeIntervalMs: number;
  readonly #closing = new AbortController();
  readonly #started = Promise.withResolvers<SignerFailure | undefined>();
  readonly #ended: Promise<void>;

  #state: PartitionState = 'starting';
  #since = systemClock();
  #lastError: string | undefined;
  #signatures = 0;
  #refusals = 0;
  readonly #refusedBy = new Set<string>();
  #treesGivenUp = 0;
  #starts = 0;
  /** Time of the first failure since a signature outside of a start, on the monotonic clock. */
  #failingSinceMs: number | undefined;
  /** Start time of the newest child, on the monotonic clock. */
  #startedAtMs = 0;
  /** Duration of the last successful start. */
  #goodStartMs = 0;
  #lastUseAtMs = 0;
  /** The child, from its start to its end; it may sign only in the state `ready`. */
  #signer: SignerProcess | undefined;
  #opened: OpenedSessions = { sessions: 0 };
  /** Each session signs one message at a time. */
  readonly #queue = new SessionQueue();
  /** The reason why the sessions of the last start could not sign at the same time: the next start has one. */
  #refusedTogether: string | undefined;
  /** Whether another process signs with its keys, as far as its last child found: the next one must find that they are free. */
  #isTaken = false;
  /** Set while it is out of service on purpose: `gone` settles when its child is gone, `over` when it may have another. */
  #withdrawal: { gone: Promise<void>; over: PromiseWithResolvers<void> } | undefined;

  /** `onChange` is called at every change of its state, and must not throw. */
  constructor(key: Key, token: TokenOptions, settings: PartitionSettings, onChange: () => void) {
    this.key = key;
    this.#verify = verifierOf(key);
    this.#token = token;
    this.#settings = settings;
    this.#logger = settings.logger.child({ partition: kmsKeyId(key) });
    this.#onChange = onChange;
    this.#startTimeoutMs = settings.startTimeoutMs ?? START_TIMEOUT_MS;
    this.#probeIntervalMs = settings.probeIntervalMs ?? PROBE_INTERVAL_MS;
    this.started = this.#started.promise;
    this.#ended = this.#supervise();
  }

  /** Whether it is healthy, as far as is known without querying it. */
  get ready(): boolean {
    return this.#state === 'ready';
  }

  /** Whether it does not sign because another process signs with its keys. */
  get isTaken(): boolean {
    return this.#isTaken;
  }

  /** Number of messages that it signs at the same time; 0 before it was ready for the first time. */
  get sessions(): number {
    return this.#opened.sessions;
  }

  status(): PartitionStatus {
    const pid = this.#signer?.pid;
    const { sessions, refusal } = this.#opened;
    const { region, keyLabel, algorithm, software } = this.key;
    return {
      region,
      keyLabel,
      algorithm,
      ...(software && { software }),
      state: this.#state,
      since: this.#since,
      lastError: this.#lastError,
      signatures: this.#signatures,
      refusals: this.#refusals,
      treesGivenUp: this.#treesGivenUp,
      restarts: Math.max(this.#starts - 1, 0),
      sessions,
      sessionsRefused: refusal,
      pid,
    };
  }

  /** Returns a verified signature, or undefined if this partition cannot give one. Never rejects. */
  async sign(order: Order): Promise<Uint8Array | undefined> {
    const signature = await this.#queue.take(() => this.#signNow((signer) => this.#carryOut(signer, order)));
    if (signature !== undefined) this.#signatures += 1;
    return signature;
  }

  /**
   * Takes it out of service until {@link restore}, after all earlier orders. Returns false and does nothing unless it is ready then;
   * `mayLeave` is called last, and may throw. Resolves when the child is gone.
   */
  withdraw(mayLeave: () => void): Promise<boolean> {
    return this.#queue.take(() => this.#leave(mayLeave), { isAlone: true });
  }

  async #leave(mayLeave: () => void): Promise<boolean> {
    const signer = this.#signer;
    if (signer === undefined || !this.ready) return false;
    mayLeave();
    this.#enter('withdrawn');
    this.#withdrawal = { gone: signer.close(), over: Promise.withResolvers() };
    await this.#withdrawal.gone;
    return true;
  }

  /** Ends a withdrawal, if there is one: a child is started again. */
  async restore(): Promise<void> {
    const withdrawal = this.#withdrawal;
    await withdrawal?.gone;
    if (withdrawal === undefined || this.#withdrawal !== withdrawal) return;
    this.#withdrawal = undefined;
    this.#failingSinceMs = undefined;
    this.#enter('starting');
    withdrawal.over.resolve();
  }

  /** Ends the child, by force after a second. Resolves when it is gone. */
  async close(): Promise<void> {
    this.#closing.abort();
    this.#enter('closed');
    this.#withdrawal?.over.resolve();
    await this.#signer?.close();
    await this.#ended;
  }

  async #supervise(): Promise<void> {
    while (!this.#closing.signal.aborted) {
      const failure = await this.#serve();
      if (isRefusal(failure.code)) {
        this.#refusals += 1;
        if (!this.#refusedBy.has(failure.code)) this.#settings.onRefused?.(this.key, failure.code);
        this.#refusedBy.add(failure.code);
      }
      await this.#pause(failure);
      await this.#withdrawal?.over.promise;
    }
  }

  /** Runs one child from its start to its end. Resolves, when the process is gone, to the reason why it ended. */
  async #serve(): Promise<SignerFailure> {
    const { sessions, duties } = this.#settings;
    const signer = new SignerProcess(this.#token, { name: this.key.region, duties, sessions }, (output) => {
      this.#logger.warn({ output }, 'signer output');
    });
    this.#signer = signer;
    this.#starts += 1;
    this.#startedAtMs = performance.now();
    const probing = setInterval(() => void this.#probeIfIdle(), this.#probeIntervalMs);
    try {
      await this.#open(signer);
      this.#goodStartMs = performance.now() - this.#startedAtMs;
      this.#enter('ready');
      this.#started.resolve(undefined);
      await signer.lost;
    } catch (error) {
      void signer.end(toSignerFailure(error));
    } finally {
      clearInterval(probing);
    }
    const failure = await signer.lost;
    this.#failingSinceMs ??= performance.now();
    this.#enter(stateAfter(failure), failure);
    this.#started.resolve(failure);
    // Only then may the next one start: two children on one token could starve each other of sessions.
    await signer.exited;
    this.#signer = undefined;
    return failure;
  }

  /**
   * Time limit for a step of the start: the whole time-out until one is good, because some modules are slow. Later starts are given up
   * sooner, because a child that hangs would still hang after the token's return.
   */
  #stepTimeoutMs(): number {
    if (this.#goodStartMs === 0 || this.#starts % PATIENT_START_EVERY === 0) return this.#startTimeoutMs;
    const hangMsMin = this.#token.signer === undefined ? HANG_MS_MIN : UNIT_HANG_MS_MIN;
    return Math.min(Math.max(HANG_FACTOR * this.#goodStartMs, hangMsMin), this.#startTimeoutMs);
  }

  /** Logs in, once, and proves that the partition holds the expected key: by its public half, then by a signature. */
  async #open(signer: SignerProcess): Promise<void> {
    const timeoutMs = this.#stepTimeoutMs();
    const sessions = this.#refusedTogether === undefined ? this.#settings.sessions : 1;
    const opened = await signer.ask(
      {
        kind: 'connect',
        token: tokenName(this.#token),
        keyLabel: this.#token.keyLabel,
        access: 'read',
        sessions,
      },
      timeoutMs,
    );
    this.#noteSessions(
      this.#refusedTogether === undefined ? opened : { ...opened, refusal: this.#refusedTogether },
    );
    // Never hurried: some tokens are slow to refuse a PIN, and not waiting for the refusal would mean trying that PIN again.
    await signer.ask({ kind: 'logIn' }, this.#startTimeoutMs);
    const { spki, algorithm, software } = this.key;
    const found = await signer.ask({ kind: 'findKey', publicKey: spki }, timeoutMs);
    if (found.spki !== spki || found.algorithm !== algorithm || found.software !== software) {
      const holder = this.#token.module === undefined ? 'the file holds' : 'the token has';
      throw new SignerFailure('key_changed', `${holder} another ${found.algorithm} key than the log knows`);
    }
    const signTimeoutMs = Math.min(timeoutMs, this.#settings.signTimeoutMs);
    // All sessions sign at the same time, so that each proves itself.
    const claims = this.#settings.claims || this.#isTaken;
    const probes = Array.from({ length: opened.sessions }, () => this.#probe(signer, signTimeoutMs, claims));
    try {
      await Promise.all(probes);
    } catch (error) {
      const failure = toSignerFailure(error);
      // A device may open sessions in which it cannot sign at the same time. If it cannot sign in a single one either, that was not the
      // reason.
      if (!isTaken(failure)) this.#refusedTogether = opened.sessions > 1 ? failure.code : undefined;
      throw error;
    }
  }

  /** Logs once that the token allows fewer sessions than wanted, and continues with those. */
  #noteSessions(opened: OpenedSessions): void {
    const isNews = opened.sessions !== this.#opened.sessions;
    this.#opened = opened;
    this.#queue.width = opened.sessions;
    if (opened.refusal === undefined || !isNews) return;
    const fields = { sessions: opened.sessions, wanted: this.#settings.sessions, code: opened.refusal };
    this.#logger.warn(fields, 'HSM partition has fewer sessions than kms.sessions');
  }

  async #carryOut(signer: SignerProcess, order: Order): Promise<Uint8Array> {
    const { signature, abandoned = 0 } = await carryOut(order, signer, this.#settings.signTimeoutMs);
    this.#treesGivenUp += abandoned;
    return this.#proven(order.message, signature);
  }

  async #probe(signer: SignerProcess, timeoutMs: number, claims = false): Promise<Uint8Array> {
    const request = { kind: 'signProbe', claims } as const;
    const { message, signature } = await signer.ask(request, timeoutMs);
    return this.#proven(Buffer.from(message, 'base64'), signature);
  }

  #proven(message: Uint8Array, base64: string): Uint8Array {
    const signature = Buffer.from(base64, 'base64');
    if (!this.#verify(message, signature)) {
      throw new SignerFailure('signature_invalid', 'the token gave a signature that does not verify');
    }
    this.#lastUseAtMs = performance.now();
    return signature;
  }

  async #signNow(use: (signer: SignerProcess) => Promise<Uint8Array>): Promise<Uint8Array | undefined> {
    const signer = this.#signer;
    if (signer === undefined || !this.ready) return undefined;
    try {
      const askedAtMs = performance.now();
      const signature = await use(signer);
      this.#failingSinceMs = undefined;
      this.#settings.onSigned?.(this.key, performance.now() - askedAtMs);
      return signature;
    } catch (error) {
      // One failure condemns the signer: a token that vanished and came back serves only new processes.
      const failure = toSignerFailure(error);
      void signer.end(failure);
      // If the signer has already been succeeded by another, the failure is out of date.
      if (this.#signer === signer) this.#enter(stateAfter(failure), failure);
      return undefined;
    }
  }

  /** Never rejects: a failure ends the child. */
  async #probeIfIdle(): Promise<void> {
    const idleMs = performance.now() - this.#lastUseAtMs;
    if (!this.ready || idleMs < this.#probeIntervalMs) return;
    await this.#queue.take(() =>
      this.#signNow((signer) => this.#probe(signer, this.#settings.signTimeoutMs)),
    );
  }

  async #pause(failure: SignerFailure): Promise<void> {
    if (this.#closing.signal.aborted) return;
    const nowMs = performance.now();
    await this.#sleep(restartPauseMs(failure, nowMs - (this.#failingSinceMs ?? nowMs)));
  }

  async #sleep(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.#closing.signal }).catch(() => {});
  }

  /** Enters a state and logs each change once, however often the same failure repeats. */
  #enter(state: PartitionState, failure?: SignerFailure): void {
    // The end of a withdrawn child says nothing about the token.
    if (this.#state === 'closed' || (this.#withdrawal !== undefined && state !== 'closed')) return;
    if (state === 'ready') this.#isTaken = false;
    else if (failure !== undefined && isTaken(failure)) this.#isTaken = true;
    const unchanged = state === this.#state && failure?.code === this.#lastError;
    if (state !== this.#state) this.#since = systemClock();
    this.#state = state;
    if (failure !== undefined) this.#lastError = failure.code;
    if (unchanged) return;
    logState(this.#logger, state, failure);
    this.#onChange();
  }
}
