import type { Logger } from 'pino';
import { addressKey } from './connectionLimits.ts';

/** Lines that requests without a good API key leave in each window, by address. */
const LINES_MAX = 20;
const WINDOW_MS = 60_000;
/** Addresses told apart; all further ones share their lines. */
const ADDRESSES_MAX = 1_000;
const LOCAL = 'local';
const OTHERS = 'others';

/** What is told of requests. */
export type RequestLines = Pick<RequestLog, 'write' | 'writeStranger'>;

/**
 * The lines that requests leave in the log. Those without a good API key cost their sender nothing: only the first of each address are
 * written, the others are counted, and told of in one line when the window ends.
 */
export class RequestLog {
  readonly #logger: Pick<Logger, 'info'>;
  readonly #onUnlogged: () => void;
  readonly #lines = new Map<string, number>();
  #unlogged = 0;
  #window: NodeJS.Timeout | undefined;

  /** `onUnlogged` is told of each that is only counted. */
  constructor(logger: Pick<Logger, 'info'>, onUnlogged: () => void = () => {}) {
    this.#logger = logger;
    this.#onUnlogged = onUnlogged;
  }

  /** Of a client. */
  write(fields: object): void {
    this.#logger.info(fields, 'request');
  }

  /** Of somebody who showed no good API key. */
  writeStranger(fields: object, remoteAddress: string | undefined): void {
    this.#window ??= setTimeout(() => this.#endWindow(), WINDOW_MS).unref();
    const address = addressKey(remoteAddress) ?? LOCAL;
    const key = this.#lines.has(address) || this.#lines.size < ADDRESSES_MAX ? address : OTHERS;
    const lines = this.#lines.get(key) ?? 0;
    if (lines >= LINES_MAX) {
      this.#unlogged += 1;
      this.#onUnlogged();
      return;
    }
    this.#lines.set(key, lines + 1);
    this.write(fields);
  }

  #endWindow(): void {
    const requests = this.#unlogged;
    const addresses = [...this.#lines.values()].filter((lines) => lines >= LINES_MAX).length;
    this.#window = undefined;
    this.#unlogged = 0;
    this.#lines.clear();
    if (requests === 0) return;
    this.#logger.info(
      { event: 'requests_not_logged', requests, addresses },
      'requests without a good API key were counted, not logged',
    );
  }
}
