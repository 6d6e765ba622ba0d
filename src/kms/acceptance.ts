import { randomBytes } from 'node:crypto';
import { toBase64 } from '../base/bytes.ts';
import { KEY_ALGORITHMS, type KeyAlgorithm, type TokenPublicKey, verifierOf } from './keyAlgorithm.ts';
import { type OpenedSessions, type TokenAccess, type TokenOptions, tokenName } from './protocol.ts';
import { RETURN_VALUES } from './returnValues.ts';
import { isPinTrouble, SignerFailure, signerAdvice, toSignerFailure } from './signerFailure.ts';
import { SignerProcess } from './signerProcess.ts';
import type { TokenDescription } from './tokenDescription.ts';

/** `could not tell`: it was not tried, for the reason in the detail. */
export type TrialOutcome = 'works' | 'does not work' | 'could not tell';

export interface Trial {
  name: (typeof TRIALS)[number];
  outcome: TrialOutcome;
  detail: string;
}

/** The trials that do not depend on an algorithm. */
export const TRIALS = [
  'module starts',
  'log-in',
  'starts again',
  'starts after a kill',
  'two processes',
  'keys removed',
] as const;

/** Signatures in this many sessions at the same time, by one process. */
export interface RateTrial {
  sessions: number;
  outcome: TrialOutcome;
  detail: string;
  perSecond?: number;
  medianMs?: number;
  slowestMs?: number;
}

export interface AlgorithmTrial {
  algorithm: KeyAlgorithm;
  outcome: TrialOutcome;
  detail: string;
  /** Time that the token took to create the key. */
  generateMs?: number;
  /** Attributes by which the key could leave the token. */
  exposures?: readonly string[];
  /** Whether the token reports that the key was created there and could never leave. */
  wasAlwaysInside?: boolean;
  rates: RateTrial[];
}

export interface DeviceAcceptance {
  /** Absent if the module does not start. */
  device?: TokenDescription;
  trials: Trial[];
  algorithms: AlgorithmTrial[];
  /** Labels of the keys that could not be removed, or may not have been. */
  leftBehind: string[];
  /** What the module printed, without what is beyond {@link OUTPUT_LINES_MAX}. */
  output: string[];
}

export interface AcceptanceOptions {
  /** Numbers of sessions at which rates are measured, in ascending order. */
  sessions: readonly number[];
  /** Duration of each measurement. */
  measureMs: number;
  /** Default: all. */
  algorithms?: readonly KeyAlgorithm[];
  /** Ends the trials; the keys are removed all the same. */
  signal: AbortSignal;
  onProgress(line: string): void;
}

/** The limits of a daemon, so that a device that keeps them here keeps them there. */
const STEP_MS_MAX = 10_000;
const GENERATE_MS_MAX = 120_000;
/** More than the default of kms.sign_timeout: the report says how much is needed. */
const SIGN_MS_MAX = 30_000;
const STARTS = 3;
const OUTPUT_LINES_MAX = 50;
const SHORT_MS = 1000;

interface SignerOptions {
  /** Label of the key. */
  label: string;
  access?: TokenAccess;
  sessions?: number;
  /** Ends the signer. */
  signal?: AbortSignal;
  logsIn?: boolean;
}

type Work<Result> = (signer: SignerProcess, opened: OpenedSessions) => Promise<Result>;

/**
 * Tries everything that a daemon does on a token: with throw-away keys, by signers as a daemon starts them, so that a module which hangs or
 * crashes ends only its signer. The PIN is presented as by a daemon; after a refusal, nothing more is tried. Never rejects.
 */
export function tryDevice(token: TokenOptions, options: AcceptanceOptions): Promise<DeviceAcceptance> {
  return new DeviceTrials(token, options).run();
}

class DeviceTrials {
  readonly #token: TokenOptions;
  readonly #options: AcceptanceOptions;
  /** No key of others begins like this. */
  readonly #prefix = `pdfseal-acceptance-${randomBytes(4).toString('hex')}`;
  readonly #trials: Trial[] = [];
  readonly #algorithms: AlgorithmTrial[] = [];
  readonly #output: string[] = [];
  /** Labels of keys that may be in the token. */
  readonly #made = new Set<string>();
  /** Those of them whose creation had no end in time: the token may still be at it. */
  readonly #unfinished = new Set<string>();
  #device: TokenDescription | undefined;
  /** Why nothing more is tried. */
  #stopped: string | undefined;

  constructor(token: TokenOptions, options: AcceptanceOptions) {
    this.#token = token;
    this.#options = options;
  }

  async run(): Promise<DeviceAcceptance> {
    const { onProgress, sessions, algorithms = KEY_ALGORITHMS } = this.#options;
    onProgress('starting the module and logging in');
    await this.#tryStart();
    for (const algorithm of algorithms) {
      onProgress(`creating a key: ${algorithm}`);
      this.#algorithms.push(await this.#tryAlgorithm(algorithm));
    }
    for (const trial of this.#working) {
      onProgress(`measuring signatures: ${trial.algorithm}`);
      for (const count of sessions) trial.rates.push(await this.#tryRate(trial, count));
    }
    onProgress('starting several signers, and after a kill');
    await this.#tryProcesses();
    onProgress('removing the keys');
    await this.#removeKeys();
    return {
      ...(this.#device && { device: this.#device }),
      trials: this.#trials,
      algorithms: this.#algorithms,
      leftBehind: [...this.#made],
      output: this.#output,
    };
  }

  get #working(): AlgorithmTrial[] {
    return this.#algorithms.filter(({ outcome }) => outcome === 'works');
  }

  async #tryStart(): Promise<void> {
    const connect = async () => {
      const device = await this.#withSigner({ label: '', logsIn: false }, (signer) =>
        signer.ask({ kind: 'inspectToken' }, STEP_MS_MAX),
      );
      this.#device = device;
      return `${device.module.description} ${device.module.version}, token ${device.token.label}`;
    };
    await this.#try('module starts', connect);
    if (this.#device === undefined) this.#stopped ??= 'the module does not start';
    await this.#try('log-in', async () => {
      await this.#withSigner({ label: '' }, async () => {});
      return 'the PIN is accepted';
    });
    if (this.#trials.at(-1)?.outcome !== 'works') this.#stopped ??= 'the log-in does not work';
  }

  async #tryAlgorithm(algorithm: KeyAlgorithm): Promise<AlgorithmTrial> {
    const trial: Omit<AlgorithmTrial, 'outcome' | 'detail'> = { algorithm, rates: [] };
    const work: Work<string> = async (signer) => {
      const startedAt = performance.now();
      const key = await this.#generateKey(signer, algorithm);
      trial.generateMs = Math.round(performance.now() - startedAt);
      const { exposures, wasAlwaysInside } = await signer.ask({ kind: 'inspectKey' }, STEP_MS_MAX);
      Object.assign(trial, { exposures, wasAlwaysInside });
      for (const length of MESSAGE_LENGTHS) await signAndVerify(signer, key, randomBytes(length));
      return 'creates a key, signs and verifies';
    };
    // An interrupt waits for the token, which may finish a key after the end of the process that asked for it.
    const making = { label: this.#labelOf(algorithm), access: 'write', signal: NEVER } as const;
    const judged = await this.#judge(() => this.#withSigner(making, work));
    return { ...judged, ...trial };
  }

  async #generateKey(signer: SignerProcess, algorithm: KeyAlgorithm): Promise<TokenPublicKey> {
    const label = this.#labelOf(algorithm);
    this.#made.add(label);
    try {
      return await signer.ask({ kind: 'generateKey', algorithm }, GENERATE_MS_MAX);
    } catch (error) {
      if (toSignerFailure(error).code === 'timed_out') this.#unfinished.add(label);
      throw error;
    }
  }

  async #tryRate({ algorithm, rates }: AlgorithmTrial, sessions: number): Promise<RateTrial> {
    const fewer = rates.find(({ outcome }) => outcome === 'does not work');
    if (fewer !== undefined)
      return { sessions, outcome: 'could not tell', detail: `not tried after ${fewer.sessions} sessions` };
    const measured: Pick<RateTrial, 'perSecond' | 'medianMs' | 'slowestMs'> = {};
    const work: Work<string> = async (signer, opened) => {
      if (opened.sessions < sessions)
        throw new SignerFailure(
          opened.refusal ?? 'signer_error',
          `the token opened only ${opened.sessions} of ${sessions} sessions`,
        );
      const key = await signer.ask({ kind: 'findKey' }, STEP_MS_MAX);
      const { durations, elapsedMs } = await signFor(signer, key, sessions, this.#options.measureMs);
      Object.assign(measured, summarize(durations, elapsedMs));
      return 'every signature verifies';
    };
    const label = this.#labelOf(algorithm);
    const judged = await this.#judge(() => this.#withSigner({ label, sessions }, work));
    return { sessions, ...judged, ...measured };
  }

  async #tryProcesses(): Promise<void> {
    const [first, second = first] = this.#working;
    if (first === undefined || second === undefined) {
      this.#stopped ??= 'no key can be created';
      for (const name of ['starts again', 'starts after a kill', 'two processes'] as const)
        await this.#try(name, async () => '');
      return;
    }
    const sessions = first.rates.findLast(({ outcome }) => outcome === 'works')?.sessions ?? 1;
    const signOnce: Work<void> = async (signer, opened) => {
      const key = await signer.ask({ kind: 'findKey' }, STEP_MS_MAX);
      await Promise.all(
        Array.from({ length: opened.sessions }, () => signAndVerify(signer, key, randomBytes(32))),
      );
    };
    const start = ({ algorithm }: AlgorithmTrial, sessions: number, work: Work<void>) =>
      this.#withSigner({ label: this.#labelOf(algorithm), sessions }, work);

    await this.#try('starts again', async () => {
      let slowestMs = 0;
      for (let n = 0; n < STARTS; n++) {
        const startedAt = performance.now();
        await start(first, sessions, signOnce);
        slowestMs = Math.max(slowestMs, performance.now() - startedAt);
      }
      return `${STARTS} starts, each to a signature in ${seconds(slowestMs)} or less`;
    });
    await this.#try('starts after a kill', async () => {
      const killed = start(first, sessions, async (signer) => {
        const key = await signer.ask({ kind: 'findKey' }, STEP_MS_MAX);
        const signing = signFor(signer, key, sessions, SIGN_MS_MAX);
        if (signer.pid !== undefined) process.kill(signer.pid, 'SIGKILL');
        await signing;
      });
      await killed.catch((error) => {
        if (toSignerFailure(error).code !== 'signer_died') throw error;
      });
      const startedAt = performance.now();
      await start(first, sessions, signOnce);
      return `signs in ${sessions} sessions ${seconds(performance.now() - startedAt)} after a signer was killed while it signed`;
    });
    await this.#try('two processes', async () => {
      await start(first, 1, async (one) => {
        const key = await one.ask({ kind: 'findKey' }, STEP_MS_MAX);
        const signing = signFor(one, key, 1, SHORT_MS);
        await Promise.all([signing, start(second, 1, signOnce)]);
        // The end of one process must not log the other out.
        await signAndVerify(one, key, randomBytes(32));
      });
      return 'two signers sign at the same time, and one goes on when the other ends';
    });
  }

  /** Not ended by the signal. */
  async #removeKeys(): Promise<void> {
    const failures: string[] = [];
    for (const label of [...this.#made]) {
      const failure = await this.#withSigner({ label, access: 'write', signal: NEVER }, (signer) =>
        signer.ask({ kind: 'destroyKey' }, STEP_MS_MAX),
      ).then(() => undefined, toSignerFailure);
      const isGone = failure?.code === 'key_not_found' && !this.#unfinished.has(label);
      if (failure === undefined || isGone) this.#made.delete(label);
      else failures.push(`${label} (${failure.code})`);
    }
    const outcome = failures.length > 0 ? 'does not work' : 'works';
    const left = `remove them with the vendor’s tool: ${failures.join(', ')}`;
    const detail = failures.length > 0 ? left : 'the token has none of the keys that were created';
    this.#trials.push({ name: 'keys removed', outcome, detail });
  }

  #labelOf(algorithm: KeyAlgorithm): string {
    return `${this.#prefix}-${algorithm}`;
  }

  async #try(name: Trial['name'], work: () => Promise<string>): Promise<void> {
    this.#trials.push({ name, ...(await this.#judge(work)) });
  }

  async #judge(work: () => Promise<string>): Promise<{ outcome: TrialOutcome; detail: string }> {
    if (this.#options.signal.aborted) this.#stopped = INTERRUPTED;
    if (this.#stopped !== undefined)
      return { outcome: 'could not tell', detail: `not tried: ${this.#stopped}` };
    try {
      return { outcome: 'works', detail: await work() };
    } catch (error) {
      if (this.#options.signal.aborted) return { outcome: 'could not tell', detail: INTERRUPTED };
      const failure = toSignerFailure(error);
      if (isPinTrouble(failure)) this.#stopped = 'the PIN is not accepted';
      const means = RETURN_VALUES[failure.code]?.means;
      const said = `${failure.detail} (${failure.code})${means === undefined ? '' : `: ${means}`}`;
      const detail = `${said}; ${signerAdvice(failure)}`;
      return { outcome: isPinTrouble(failure) ? 'could not tell' : 'does not work', detail };
    }
  }

  async #withSigner<Result>(
    {
      label: keyLabel,
      access = 'read',
      sessions = 1,
      signal = this.#options.signal,
      logsIn = true,
    }: SignerOptions,
    work: Work<Result>,
  ): Promise<Result> {
    const duties = { anything: true as const };
    const token = { ...this.#token, keyLabel };
    const signer = new SignerProcess(token, { name: 'acceptance', duties, sessions }, (line) => {
      if (this.#output.length < OUTPUT_LINES_MAX && !this.#output.includes(line)) this.#output.push(line);
    });
    const interrupt = () => void signer.end(new SignerFailure('interrupted', INTERRUPTED));
    signal.addEventListener('abort', interrupt, { once: true });
    try {
      const connect = { kind: 'connect', token: tokenName(token), keyLabel, access, sessions } as const;
      const opened = await signer.ask(connect, STEP_MS_MAX);
      if (logsIn) await signer.ask({ kind: 'logIn' }, STEP_MS_MAX);
      return await work(signer, opened);
    } finally {
      signal.removeEventListener('abort', interrupt);
      await signer.close();
    }
  }
}

/** For steps that an interrupt must not end. */
const NEVER = new AbortController().signal;
const INTERRUPTED = 'the command was interrupted';
/** A checkpoint has some hundred bytes; a device may refuse more than two thousand (YubiHSM 2). */
const MESSAGE_LENGTHS = [1, 32, 512];

async function signAndVerify(signer: SignerProcess, key: TokenPublicKey, message: Buffer): Promise<void> {
  const { signature } = await signer.ask({ kind: 'signBytes', message: toBase64(message) }, SIGN_MS_MAX);
  if (!verifierOf(key)(message, Buffer.from(signature, 'base64')))
    throw new SignerFailure('signature_invalid', 'the token gave a signature that does not verify');
}

/** Signs in all sessions at the same time. */
async function signFor(
  signer: SignerProcess,
  key: TokenPublicKey,
  sessions: number,
  forMs: number,
): Promise<{ durations: number[]; elapsedMs: number }> {
  const startedAt = performance.now();
  const durations: number[] = [];
  const signOneByOne = async () => {
    do {
      const begunAt = performance.now();
      await signAndVerify(signer, key, randomBytes(32));
      durations.push(performance.now() - begunAt);
    } while (performance.now() - startedAt < forMs);
  };
  await Promise.all(Array.from({ length: sessions }, signOneByOne));
  return { durations, elapsedMs: performance.now() - startedAt };
}

function summarize(durations: number[], elapsedMs: number) {
  const sorted = durations.toSorted((a, b) => a - b);
  const tenth = (ms = 0) => Math.round(ms * 10) / 10;
  return {
    perSecond: tenth((1000 * durations.length) / elapsedMs),
    medianMs: tenth(sorted[Math.floor(sorted.length / 2)]),
    slowestMs: tenth(sorted.at(-1)),
  };
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
