import type { Logger } from 'pino';
import { type DatagramAddon, openDatagramAddon } from '../base/journal.ts';

export interface SupervisionOptions {
  /** The socket of the service manager (NOTIFY_SOCKET of sd_notify(3)); undefined without a service manager. */
  socket: string | undefined;
  /** How long this process may be silent before it is ended; undefined without a watchdog. */
  watchdogMs: number | undefined;
  /** One line of status for `systemctl status`. */
  status(): string;
  logger: Logger;
}

/** The status line is refreshed without a watchdog too. */
const STATUS_INTERVAL_MS = 10_000;
/** How long the service manager waits for the next notification of a long start: some may be late. */
const EXTENSION_US = 12 * STATUS_INTERVAL_MS * 1000;
/** sd_watchdog_enabled(3) recommends half of the time at most. */
const WATCHDOG_SHARE = 3;

/**
 * Sends the states of sd_notify(3) to the service manager: EXTEND_TIMEOUT_USEC, READY, STATUS, WATCHDOG, STOPPING. The event loop feeds the
 * watchdog, so a hanging loop triggers it. Does nothing without a service manager.
 */
export class Supervision {
  readonly #options: SupervisionOptions;
  readonly #addon: Pick<DatagramAddon, 'notify'> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #toldAt = performance.now();
  /** The status until requests are answered. */
  #waitsFor: string | undefined;

  /** Throws if there is a service manager but the add-on was not built: the service manager would wait in vain. */
  constructor(options: SupervisionOptions) {
    this.#options = options;
    if (options.socket !== undefined) this.#addon = openDatagramAddon();
  }

  /** A step of the start takes long. Called repeatedly; notifies the log and the service manager occasionally. */
  starting(status: string): void {
    if (this.#waitsFor !== undefined) this.#waitsFor = status;
    if (performance.now() - this.#toldAt < STATUS_INTERVAL_MS) return;
    this.#toldAt = performance.now();
    this.#options.logger.info(`still starting: ${status}`);
    this.#tell(`EXTEND_TIMEOUT_USEC=${EXTENSION_US}`, status);
  }

  /** This daemon waits to take over from another: for the service manager it has started, possibly for hours or years. */
  standby(status: string): void {
    const isNew = this.#waitsFor === undefined;
    this.#waitsFor = status;
    if (isNew) this.#started();
  }

  /** From now on requests are answered and the watchdog is fed. */
  ready(): void {
    this.#waitsFor = undefined;
    this.#started();
  }

  #started(): void {
    const intervalMs = Math.min((this.#options.watchdogMs ?? Infinity) / WATCHDOG_SHARE, STATUS_INTERVAL_MS);
    this.#timer ??= setInterval(() => this.#tell('WATCHDOG=1', this.#status()), intervalMs).unref();
    this.#tell('READY=1', this.#status());
  }

  #status(): string {
    return this.#waitsFor ?? this.#options.status();
  }

  /** The stop has begun. The watchdog is still fed, because draining takes time. */
  stopping(): void {
    this.#tell('STOPPING=1', 'finishing requests under way');
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
      // If this persists, the service manager restarts the daemon. Until then requests are served.
      logger.error({ err }, 'the service manager could not be notified');
    }
  }
}
