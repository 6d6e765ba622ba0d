import type { Logger } from 'pino';
import { type DatagramAddon, openDatagramAddon } from '../base/journal.ts';

export interface SupervisionOptions {
  /** Where the service manager listens (NOTIFY_SOCKET of sd_notify(3)); undefined where nobody does. */
  socket: string | undefined;
  /** How long this process may be silent before it is ended; undefined without a watchdog. */
  watchdogMs: number | undefined;
  /** One line on how things stand, for `systemctl status`. */
  status(): string;
  logger: Logger;
}

/** Without a watchdog the status line is still kept fresh. */
const STATUS_INTERVAL_MS = 10_000;
/** sd_watchdog_enabled(3) asks for half of the time at most. */
const WATCHDOG_SHARE = 3;

/**
 * Tells the service manager what sd_notify(3) has words for: READY, STATUS, WATCHDOG, RELOADING, STOPPING. The watchdog is
 * fed from the event loop, so a loop that hangs starves it. Where nobody listens, nothing is done.
 */
export class Supervision {
  readonly #options: SupervisionOptions;
  readonly #addon: Pick<DatagramAddon, 'notify'> | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** Throws when somebody listens and the add-on was not built: the service manager would wait in vain. */
  constructor(options: SupervisionOptions) {
    this.#options = options;
    if (options.socket !== undefined) this.#addon = openDatagramAddon();
  }

  /** Requests are answered from now on; the watchdog is fed from now on. */
  ready(): void {
    const intervalMs = Math.min((this.#options.watchdogMs ?? Infinity) / WATCHDOG_SHARE, STATUS_INTERVAL_MS);
    this.#timer = setInterval(() => this.#tell('WATCHDOG=1', this.#options.status()), intervalMs).unref();
    this.#tell('READY=1', this.#options.status());
  }

  /** The stop has begun. The watchdog is fed on: what is under way may take until the drain ends. */
  stopping(): void {
    this.#tell('STOPPING=1', 'finishing what is under way');
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #tell(state: string, status: string): void {
    const { socket, logger } = this.#options;
    if (socket === undefined) return;
    try {
      this.#addon?.notify(socket, `${state}\nSTATUS=${status}\n`);
    } catch (err) {
      // Unheard for too long, we are ended and started anew; requests need not fail before.
      logger.error({ err }, 'the service manager could not be told');
    }
  }
}
