import type { IncomingMessage, ServerResponse } from 'node:http';
import { ServiceError } from '../base/errors.ts';

/** The limits for a slow sender of a body. */
export interface Patience {
  /** Longest time without a byte, milliseconds. */
  idleTimeoutMs: number;
  /** Lowest average of bytes per second over each `idleTimeoutMs`; default 0. */
  bytesPerSecondMin?: number;
}

/** The signal that may end the wait for a body. It is requested only if there is something to wait for. */
export interface Stoppable {
  readonly signal?: AbortSignal | undefined;
}

/** Asks a client that waits with `Expect: 100-continue` to send its body (RFC 9110, section 10.1.1). */
export function askForBody({ req, res }: { req: IncomingMessage; res: ServerResponse }): void {
  if (req.headers.expect?.toLowerCase() === '100-continue' && req.httpVersion === '1.1') res.writeContinue();
}

/** Reads a request's body at the pace of its consumer, and fails when the sender is too slow. */
export class IncomingBody {
  readonly #req: IncomingMessage;
  readonly #idleTimeoutMs: number;
  readonly #bytesPerSecondMin: number;
  readonly #outcome = Promise.withResolvers<void>();
  #idle: NodeJS.Timeout | undefined;
  #holds = 0;
  #isWhole = false;
  #ended = false;
  /** Bytes since the pace was last checked, and the time of that check, moved on by the time of all holds. */
  #bytes = 0;
  #since = performance.now();
  #heldAt = 0;

  constructor(req: IncomingMessage, { idleTimeoutMs, bytesPerSecondMin = 0 }: Patience) {
    this.#req = req;
    this.#idleTimeoutMs = idleTimeoutMs;
    this.#bytesPerSecondMin = bytesPerSecondMin;
  }

  /**
   * Resolves after the last byte. Rejects with the error given to {@link fail}, with the signal's reason, or with
   * ServiceError: `body_timeout` when nothing, or too little, arrives within the idle time, `incomplete_body` when
   * the client disconnects. After a rejection the request stays paused; it is neither drained nor destroyed.
   */
  async read(take: (chunk: Buffer) => void, stop: Stoppable = {}): Promise<void> {
    const req = this.#req;
    // A small body often arrives together with its head: then there is no sender to wait for.
    const isWhole = req.complete && !req.destroyed && req.readableFlowing !== true;
    const whole: Buffer | null = isWhole ? req.read() : null;
    if (whole !== null) {
      this.#pass(whole, take);
      if (!this.#ended) this.#end();
      if (this.#ended) return this.#outcome.promise;
    }
    const { signal } = stop;
    const idle = setTimeout(() => this.#expire(idle), this.#idleTimeoutMs);
    this.#idle = idle;
    const pace = setInterval(() => this.#requirePace(), this.#idleTimeoutMs);
    const onData = (chunk: Buffer) => {
      idle.refresh();
      this.#pass(chunk, take);
    };
    const onEnd = () => this.#end();
    const onClose = () => this.#lose();
    const onAbort = () => this.fail(signal?.reason);
    signal?.addEventListener('abort', onAbort);
    req.on('data', onData).on('end', onEnd).on('close', onClose).on('error', onClose);
    if (signal?.aborted) onAbort();
    else if (req.destroyed) onClose();
    try {
      await this.#outcome.promise;
    } finally {
      clearTimeout(idle);
      clearInterval(pace);
      signal?.removeEventListener('abort', onAbort);
      req.off('data', onData).off('end', onEnd).off('close', onClose).off('error', onClose);
    }
  }

  /** Stops reading until the promise resolves. Several holds can overlap. A rejection fails the body. */
  hold(until: Promise<void>): void {
    if (this.#holds === 0) this.#heldAt = performance.now();
    this.#holds += 1;
    if (!this.#ended) this.#req.pause();
    until.then(
      () => this.#release(),
      (error) => this.fail(error),
    );
  }

  /** Ends {@link read} with this error. Has no effect after `read` ended. */
  fail(error: unknown): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#req.pause();
    this.#outcome.reject(error);
  }

  #pass(chunk: Buffer, take: (chunk: Buffer) => void): void {
    if (this.#ended) return;
    this.#bytes += chunk.length;
    try {
      take(chunk);
    } catch (error) {
      this.fail(error);
    }
  }

  #release(): void {
    this.#holds -= 1;
    if (this.#holds > 0) return;
    this.#since += performance.now() - this.#heldAt;
    this.#idle?.refresh();
    if (this.#ended) return;
    if (this.#isWhole) this.#end();
    else this.#req.resume();
  }

  /** Notes that the last byte came. Holds can still fail. */
  #end(): void {
    this.#isWhole = true;
    if (this.#holds > 0) return;
    this.#ended = true;
    this.#outcome.resolve();
  }

  /** Also runs after a complete body: then there is no error. */
  #lose(): void {
    if (this.#isWhole) return;
    this.fail(new ServiceError('incomplete_body', 'The body ended before its announced end. Send it again.'));
  }

  /** During a hold, the client is not to blame for the silence. */
  #expire(idle: NodeJS.Timeout): void {
    if (this.#holds > 0) {
      idle.refresh();
    } else {
      const seconds = this.#idleTimeoutMs / 1000;
      this.fail(
        new ServiceError('body_timeout', `No byte of the body arrived for ${seconds} s. Send it again.`),
      );
    }
  }

  /** Without this check, a client that sends a byte now and then could occupy an upload for ever. */
  #requirePace(): void {
    const now = this.#holds > 0 ? this.#heldAt : performance.now();
    const bytesMin = (this.#bytesPerSecondMin * (now - this.#since)) / 1000;
    if (this.#bytes < bytesMin) {
      const message = `Less than ${this.#bytesPerSecondMin} bytes per second of the body arrived. Send it again, faster.`;
      this.fail(new ServiceError('body_timeout', message));
    }
    this.#bytes = 0;
    this.#since = now;
  }
}
