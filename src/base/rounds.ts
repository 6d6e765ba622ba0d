/** Work that is repeated, one round after another: at an interval, and on request. */
export class Rounds {
  readonly #work: (signal: AbortSignal) => Promise<unknown>;
  readonly #onError: (error: unknown) => void;
  readonly #closing = new AbortController();
  readonly #timer: NodeJS.Timeout;
  #last: Promise<void> = Promise.resolve();
  /** The next round, before it begins. */
  #next: Promise<void> | undefined;

  /**
   * Begins the first round after one interval. The signal aborts when the rounds are closed. A failed round is reported to `onError`, and the
   * next one begins all the same.
   */
  constructor(
    work: (signal: AbortSignal) => Promise<unknown>,
    intervalMs: number,
    onError: (error: unknown) => void,
  ) {
    this.#work = work;
    this.#onError = onError;
    this.#timer = setInterval(() => this.now(), intervalMs).unref();
  }

  /** Resolves at the end of a round that began after this call. Never rejects. */
  now(): Promise<void> {
    const begin = async () => {
      this.#next = undefined;
      await this.#work(this.#closing.signal);
    };
    this.#next ??= this.#last.then(begin).catch(this.#onError);
    this.#last = this.#next;
    return this.#next;
  }

  /** From now on, rounds begin only on request. Waits for the one in progress. Never rejects. */
  async close(): Promise<void> {
    this.#closing.abort();
    clearInterval(this.#timer);
    await this.#last;
  }
}
