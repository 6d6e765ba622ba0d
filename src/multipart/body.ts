import type { IncomingMessage } from 'node:http';
import { ServiceError } from '../base/errors.ts';

/** Reads a request's body at the pace of its consumer, and no slower than its sender may be. */
export class RequestBody {
  readonly #req: IncomingMessage;
  readonly #idleTimeoutMs: number;
  readonly #outcome = Promise.withResolvers<void>();
  #holds = 0;
  #ended = false;

  constructor(req: IncomingMessage, idleTimeoutMs: number) {
    this.#req = req;
    this.#idleTimeoutMs = idleTimeoutMs;
  }

  /**
   * Resolves after the last byte. Rejects with what {@link fail} was given, with the signal's reason, or with ServiceError:
   * `body_timeout` when nothing arrived for the idle time, `incomplete_body` when the client went away. The request is left
   * paused then, neither drained nor destroyed.
   */
  async read(take: (chunk: Buffer) => void, signal?: AbortSignal): Promise<void> {
    const req = this.#req;
    const idle = setTimeout(() => this.#expire(idle), this.#idleTimeoutMs);
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
      signal?.removeEventListener('abort', onAbort);
      req.off('data', onData).off('end', onEnd).off('close', onClose).off('error', onClose);
    }
  }

  /** Stops reading until the promise resolves; several may hold at once. A rejection fails the body. */
  hold(until: Promise<void>): void {
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
    if (this.#holds === 0 && !this.#ended) this.#req.resume();
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
}
