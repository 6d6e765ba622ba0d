import type { Logger } from 'pino';
import { BrokenInvariant } from '../base/assert.ts';
import { toHex } from '../base/bytes.ts';
import type { Clock } from '../base/clock.ts';
import { sha256, sha512 } from '../base/crypto.ts';
import { ServiceError } from '../base/errors.ts';
import { randomIdBytes } from '../base/random.ts';
import { oneAtATime } from '../base/serially.ts';
import type { HashPool } from '../hash/pool.ts';
import { newJobId } from '../job/id.ts';
import type { DocumentDigests, ReceivedJob } from '../job/job.ts';
import { openCheckpoint, signersOf } from '../log/signedCheckpoint.ts';
import { kmsKeyId } from '../log/verifierKey.ts';
import { parseUniqueJson } from '../manifest/jcs.ts';
import { encodeReceipt, type Receipt } from '../manifest/receipt.ts';
import { encodeTrust, epochOf, parseTrust, type TrustFile } from '../manifest/trustFile.ts';
import { readReceipt } from '../prove/trail/receipts.ts';
import { isOpen } from '../prove/verify/finding.ts';
import { createVerifier } from '../prove/verify/verify.ts';
import type { Sealer } from '../seal/sealer.ts';
import { type Store, UnknownOutcome } from '../store/store.ts';
import { asAnswer } from '../store/storeAnswers.ts';

/**
 * Names of clients and organizations cannot begin with an underscore. So no key can be issued for this client, and its jobs are not in any
 * list.
 */
export const CANARY_CLIENT = '_canary';

export interface CanaryOptions {
  store: Pick<Store, 'identity' | 'log' | 'serviceTime'>;
  sealer: Pick<Sealer, 'submit' | 'settled' | 'obstacle'>;
  pool: Pick<HashPool, 'hasher'>;
  /** What `pdfseal trust export` would return now. */
  trust(): TrustFile;
  /** From one success to the next canary; Infinity if canaries run only on request. */
  intervalMs: number;
  /** How long sealing a canary may take. */
  timeoutMs: number;
  clock: Clock;
  logger: Logger;
  onRun?(run: CanaryRun): void;
  /** Called after a broken invariant or a write with an unknown outcome: the process must end. */
  onFatal(error: unknown): void;
}

/** The result of one canary. */
export interface CanaryRun {
  verified: boolean;
  /** Milliseconds since the epoch. */
  startedAt: number;
  durationMs: number;
  /** For administrators: what went wrong, or that the receipt was verified. */
  detail: string;
  jobId?: string;
  leafIndex?: number;
  /** `<region>/<key label>` of the keys whose signatures were verified. */
  signers: string[];
}

export interface CanaryStatus {
  /** Whether the newest canary was verified, and recently enough. */
  ready: boolean;
  detail: string;
  intervalMs: number;
  /** The age at which a success no longer counts. */
  ageMsMax: number;
  newest?: CanaryRun;
  /** The newest verified canary. */
  verified?: CanaryRun;
}

/** While nothing can be sealed, nothing is written either, so another look costs almost nothing. */
const OBSTACLE_PAUSE_MS = 1_000;
/** After a failed canary. The store keeps each one, so the pauses grow. */
const FAILURE_PAUSE_MS_MIN = 5_000;

/** A minimal document with a text that explains it. */
const DOCUMENT = Buffer.from(
  '%PDF-1.7\n% pdfseald seals this to see that it can: it is nobody’s document\n' +
    '1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\n' +
    'trailer<</Root 1 0 R>>\n%%EOF\n',
);

/** Computed by OpenSSL, not by the engine that hashes uploads. */
const DIGESTS: DocumentDigests = {
  sha256: toHex(sha256(DOCUMENT)),
  sha512: toHex(sha512(DOCUMENT)),
  bytes: DOCUMENT.length,
};

/**
 * Proves at intervals that a document can be hashed, accepted, sealed, time-stamped, read back and verified. A document of the service
 * takes the usual path, and its receipt is verified with the exported trust file. Canaries do not count for any client or in any queue.
 */
export class Canary {
  readonly #options: CanaryOptions;
  readonly #closing = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #failurePauseMs = FAILURE_PAUSE_MS_MIN;
  #newest: CanaryRun | undefined;
  #verified: CanaryRun | undefined;
  /** When it ended, on the monotonic clock. */
  #verifiedAtMs = 0;
  /** One run at a time. */
  readonly #serially = oneAtATime();

  constructor(options: CanaryOptions) {
    this.#options = options;
  }

  /** Starts the first canary, unless canaries run only on request. */
  start(): void {
    if (this.#isOn) void this.run();
  }

  /** Runs a canary that begins after this call, even if canaries run only on request. Never rejects. */
  run(): Promise<CanaryRun> {
    return this.#serially(() => this.#attempt());
  }

  status(): CanaryStatus {
    const { intervalMs, timeoutMs } = this.#options;
    const ageMsMax = 2 * intervalMs + timeoutMs;
    const verified = this.#verified;
    const isYoung = verified !== undefined && performance.now() - this.#verifiedAtMs <= ageMsMax;
    return {
      ready: !this.#isOn || (isYoung && this.#newest?.verified === true),
      detail: this.#describe(isYoung),
      intervalMs,
      ageMsMax,
      newest: this.#newest,
      verified,
    };
  }

  /** Waits for the current run. A canary that is being sealed is left to the sealer. */
  async close(): Promise<void> {
    this.#closing.abort();
    clearTimeout(this.#timer);
    await this.#serially(async () => {});
  }

  get #isOn(): boolean {
    return Number.isFinite(this.#options.intervalMs);
  }

  #describe(isYoung: boolean): string {
    if (!this.#isOn) return 'canaries run on request only';
    if (this.#newest === undefined) return 'the first canary is under way';
    if (!this.#newest.verified || isYoung) return this.#newest.detail;
    return 'the last canary that verified is too old';
  }

  #scheduleNext(run: CanaryRun): void {
    clearTimeout(this.#timer);
    if (this.#closing.signal.aborted || !this.#isOn) return;
    this.#timer = setTimeout(() => void this.run(), this.#pauseAfter(run)).unref();
  }

  #pauseAfter({ verified, jobId }: CanaryRun): number {
    const { intervalMs } = this.#options;
    if (!verified && jobId === undefined) return OBSTACLE_PAUSE_MS;
    const pauseMs = verified ? intervalMs : Math.min(this.#failurePauseMs, intervalMs);
    this.#failurePauseMs = verified ? FAILURE_PAUSE_MS_MIN : 2 * this.#failurePauseMs;
    return pauseMs;
  }

  async #attempt(): Promise<CanaryRun> {
    const { clock, logger, onRun, onFatal } = this.#options;
    const startedAtMs = performance.now();
    const run: CanaryRun = {
      verified: false,
      startedAt: clock(),
      durationMs: 0,
      detail: '',
      signers: [],
    };
    try {
      await this.#seal(run);
    } catch (error) {
      const told = asAnswer(error);
      run.detail = `it failed: ${told instanceof Error ? told.message : String(told)}`;
      if (error instanceof BrokenInvariant || error instanceof UnknownOutcome) onFatal(error);
      else if (!(told instanceof ServiceError)) logger.error({ err: error }, 'a canary failed');
    }
    run.durationMs = performance.now() - startedAtMs;
    this.#report(run);
    this.#newest = run;
    if (run.verified) {
      this.#verified = run;
      this.#verifiedAtMs = performance.now();
    }
    onRun?.(run);
    this.#scheduleNext(run);
    return run;
  }

  /** Fills in the results as they become available. Throws the error that a client's request would get. */
  async #seal(run: CanaryRun): Promise<void> {
    const { sealer, store, timeoutMs, trust } = this.#options;
    const obstacle = sealer.obstacle();
    if (obstacle !== undefined) throw obstacle;
    const job = this.#job(await this.#hash());
    sealer.submit(job);
    const outcome = await sealer.settled(
      job.id,
      AbortSignal.any([this.#closing.signal, AbortSignal.timeout(timeoutMs)]),
    );
    // If nothing can be sealed, this job does not exist.
    run.jobId = job.id;
    if (outcome === undefined) throw new Error(`it was not sealed within ${timeoutMs / 1000} s`);
    if (outcome.kind === 'failed') {
      throw new ServiceError(outcome.failure.code, outcome.failure.message);
    }
    run.leafIndex = outcome.leafIndex;
    const receipt = await readReceipt(store, job, outcome.leafIndex);
    Object.assign(run, verify(receipt, parseTrust(encodeTrust(trust()))));
  }

  async #hash(): Promise<DocumentDigests> {
    const hasher = this.#options.pool.hasher();
    await hasher.update(DOCUMENT);
    return { ...(await hasher.digest()), bytes: DOCUMENT.length };
  }

  #job(document: DocumentDigests): ReceivedJob {
    return {
      id: newJobId(),
      clientId: CANARY_CLIENT,
      organization: CANARY_CLIENT,
      traceId: randomIdBytes(16).toString('hex'),
      mode: 'blocking',
      visibility: 'private',
      preserveMetadata: false,
      source: 'canary',
      content: { document, scan: { verdict: 'not_scanned' } },
      capabilities: [],
      acceptedAt: this.#options.clock(),
      since: this.#options.store.serviceTime.now(),
    };
  }

  /** Logs a failure once, and the recovery once. */
  #report({ verified, detail, jobId }: CanaryRun): void {
    const { logger } = this.#options;
    if (verified && this.#newest?.verified === false) {
      logger.info({ event: 'canary_back' }, 'the canary verifies again');
    }
    if (verified || detail === this.#newest?.detail) return;
    const fields = { event: 'canary_failed', job_id: jobId, detail };
    logger.warn(fields, 'no canary could be sealed and verified');
  }
}

/** Verifies as a client would: with the receipt as served, and the document. */
function verify(receipt: Receipt, trust: TrustFile): Pick<CanaryRun, 'verified' | 'detail' | 'signers'> {
  const received = parseUniqueJson(encodeReceipt(receipt));
  // The clock has its own alarm.
  const verifier = createVerifier(trust, { judgesDates: false });
  const verdict = verifier({ document: DIGESTS, receipt: received, subject: 'canary' });
  const wrong = verdict.checks.find(({ outcome }) => isOpen(outcome));
  return {
    verified: verdict.outcome === 'good',
    detail: wrong ? `its receipt does not verify: ${wrong.name}: ${wrong.detail}` : 'sealed and verified',
    signers: signersIn(receipt, trust),
  };
}

function signersIn({ evidence, sealed_at }: Receipt, trust: TrustFile): string[] {
  const opened = openCheckpoint(evidence.checkpoint);
  const log = trust.logs.find(({ origin }) => origin === evidence.log_origin);
  const epoch = log && epochOf(log, Date.parse(sealed_at));
  return opened && epoch ? signersOf(opened.note, log.origin, epoch.keys).keys.map(kmsKeyId) : [];
}
