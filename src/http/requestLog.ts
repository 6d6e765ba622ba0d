import type { Logger } from 'pino';
import { BoundedCounts } from '../base/bounded.ts';
import { addressKey } from '../web/connectionLimits.ts';

/** Log lines per address and window for requests without a valid API key. */
const LINES_MAX = 20;
const WINDOW_MS = 60_000;
/** Addresses with their own count; all other addresses share one count. */
const ADDRESSES_MAX = 1_000;
const LOCAL = 'local';
const OTHERS = 'others';

/**
 * Writes the log lines of requests. Requests without a valid API key cost their sender nothing, so only the first ones of each address are
 * written. The rest are counted, and one line at the end of the window states their number.
 */
export class RequestLog {
  readonly #logger: Pick<Logger, 'info'>;
  readonly #onUnlogged: () => void;
  readonly #lines = new BoundedCounts({ max: ADDRESSES_MAX, others: OTHERS });
  #unlogged = 0;
  #window: NodeJS.Timeout | undefined;

  /** `onUnlogged` is called for each request that is only counted. */
  constructor(logger: Pick<Logger, 'info'>, onUnlogged: () => void = () => {}) {
    this.#logger = logger;
    this.#onUnlogged = onUnlogged;
  }

  /** Logs a request of a client. */
  write(fields: object): void {
    this.#logger.info(fields, 'request');
  }

  /** Logs a request without a valid API key. */
  writeStranger(fields: object, remoteAddress: string | undefined): void {
    this.#window ??= setTimeout(() => this.#endWindow(), WINDOW_MS).unref();
    if (this.#lines.add(addressKey(remoteAddress) ?? LOCAL) > LINES_MAX) {
      this.#unlogged += 1;
      this.#onUnlogged();
      return;
    }
    this.write(fields);
  }

  #endWindow(): void {
    const requests = this.#unlogged;
    const addresses = [...this.#lines].filter(([, lines]) => lines >= LINES_MAX).length;
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
