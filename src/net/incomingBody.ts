import type { IncomingMessage } from 'node:http';
import { ServiceError } from '../base/errors.ts';

/** How slow the sender of a body may be. */
export interface Patience {
  /** How long nothing may arrive, milliseconds. */
  idleTimeoutMs: number;
  /** What must arrive per second on the average of any such time; default 0. */
  bytesPerSecondMin?: number;
}

/** Reads a request's body at the pace of its consumer, and no slower than its sender may be. */
export class IncomingBody {
  readonly #req: IncomingMessage;
  readonly #idleTimeoutMs: number;
  readonly #bytesPerSecondMin: number;
  readonly #outcome = Promise.withResolvers<void>();
  #idle: NodeJS.Timeout | undefined;
  #holds = 0;
  #ended = false;
  /** Of the time since the pace was last looked at: bytes that came, and when it began, as if we had never held. */
  #bytes = 0;
  #since = performance.now();
  #heldAt = 0;

  constructor(req: IncomingMessage, { idleTimeoutMs, bytesPerSecondMin = 0 }: Patience) {
    this.#req = req;
    this.#idleTimeoutMs = idleTimeoutMs;
    this.#bytesPerSecondMin = bytesPerSecondMin;
  }

  /**
   * Resolves after the last byte. Rejects with what {@link fail} was given, with the signal's reason, or with ServiceError:
   * `body_timeout` when nothing, or too little, arrived for the idle time, `incomplete_body` when the client went away. The request is left
   * paused then, neither drained nor destroyed.
   */
  async read(take: (chunk: Buffer) => void, signal?: AbortSignal): Promise<void> {
    const req = this.#req;
    const idle = setTimeout(() => this.#expire(idle), this.#idleTimeoutMs);
    this.#idle = idle;
    const pace = setInterval(() => this.#requirePace(), this.#idleTimeoutMs);
    const onData = (chunk: Buffer) => {
      idle.refresh();
      this.#bytes += chunk.length;
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

  /** Stops reading until the promise resolves; several may hold at once. A rejection fails the body. */
  hold(until: Promise<void>): void {
    if (this.#holds === 0) this.#heldAt = performance.now();
    this.#holds += 1;
    if (!this.#ended) this.#req.pause();
    until.then(
      () => this.#release(),
      (error) => this.fail(error),
    );
  }

  /** Ends {@link read} with this error; without effect after it ended. */
  fail(error: unknown): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#req.pause();
    this.#outcome.reject(error);
  }

  #pass(chunk: Buffer, take: (chunk: Buffer) => void): void {
    if (this.#ended) return;
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
    if (!this.#ended) this.#req.resume();
  }

  #end(): void {
    this.#ended = true;
    this.#outcome.resolve();
  }

  /** Follows every end too; an error is only made when it tells something. */
  #lose(): void {
    if (this.#ended) return;
    this.fail(new ServiceError('incomplete_body', 'The body ended before its announced end. Send it again.'));
  }

  /** While we hold, it is not the client who is slow. */
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

  /** Without this a byte now and then would hold a place among the uploads for ever. */
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
