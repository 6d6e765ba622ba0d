import type { Logger } from 'pino';
import { type Clock, systemClock } from '../base/clock.ts';
import { OperatorError } from '../base/errors.ts';
import type { ClamdVersion } from './clamdReply.ts';
import { ConnectionPool, type ConnectionPoolOptions } from './connectionPool.ts';
import { DocumentScan, type DocumentScanOptions, type Scan, unavailable } from './documentScan.ts';
import { ScannerFailure, type ScannerTrouble } from './scannerFailure.ts';
import { type ClamdAddress, takesStreamOf } from './session.ts';

export interface ScannerOptions
  extends Omit<ConnectionPoolOptions, 'address' | 'onVersion'>,
    Omit<DocumentScanOptions, 'connections'> {
  clamd: ClamdAddress;
  logger: Logger;
  /** Interval between checks of clamd: normally, and while clamd is not available. */
  intervalMs?: number;
  retryMs?: number;
  clock?: Clock;
}

export interface ScannerHealth {
  /** Undefined while documents are scanned. */
  trouble?: ScannerTrouble;
  /** The state in words, for the administrator. */
  detail: string;
  /** The version that clamd last reported. */
  version?: ClamdVersion;
  /** When clamd last reported it, milliseconds since the epoch. */
  answeredAt?: number;
  connections: number;
  connectionsInUse: number;
  connectionsMax: number;
  /** Documents that wait for a connection. */
  documentsWaiting: number;
}

const INTERVAL_MS = 10_000;
const RETRY_MS = 1_000;

/**
 * Checks that clamd answers and passes the tests. If clamd does not answer, this is logged and the check is repeated; until it succeeds, no
 * document is scanned or accepted. Throws OperatorError if clamd answers but fails a test.
 */
export async function openScanner(options: ScannerOptions): Promise<Scanner> {
  const scanner = new Scanner(options);
  await scanner.look();
  const { trouble, detail } = scanner.health();
  if (trouble === 'unfit') {
    scanner.close();
    throw new OperatorError(`scan.clamd: ${detail}`);
  }
  return scanner;
}

/** Watches clamd: the version that it last reported, and whether documents can be scanned. */
export class Scanner {
  readonly #options: ScannerOptions;
  readonly #connections: ConnectionPool;
  readonly #clock: Clock;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;
  #version: ClamdVersion | undefined;
  #answeredAt: number | undefined;
  #failure: ScannerFailure | undefined = new ScannerFailure('unreachable', 'clamd has not been asked yet');
  /** Whether clamd's limit for streams was checked since clamd was last unavailable. */
  #limitsKnown = false;

  /** Use {@link openScanner}. */
  constructor(options: ScannerOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    const onVersion = (version: ClamdVersion) => {
      this.#version = version;
      this.#answeredAt = this.#clock();
    };
    this.#connections = new ConnectionPool({ ...options, address: options.clamd, onVersion });
  }

  /** Throws ServiceError `scanner_unavailable` while no document can be scanned. */
  admit(): void {
    if (this.#failure) throw unavailable(this.#failure);
  }

  scan(): Scan {
    return new DocumentScan({ ...this.#options, connections: this.#connections });
  }

  health(): ScannerHealth {
    const { count, idleCount, waitingCount } = this.#connections;
    const { engine = 'clamd', signatures } = this.#version ?? {};
    return {
      trouble: this.#failure?.trouble,
      detail:
        this.#failure?.message ??
        `${engine}, ${signatures ? `signatures ${signatures}` : 'no daily signatures'}`,
      version: this.#version,
      answeredAt: this.#answeredAt,
      connections: count,
      connectionsInUse: count - idleCount,
      connectionsMax: this.#options.connectionsMax,
      documentsWaiting: waitingCount,
    };
  }

  /** Checks clamd now. Never rejects. Only the timer and tests call it. */
  async look(): Promise<void> {
    clearTimeout(this.#timer);
    try {
      if (!this.#limitsKnown) await this.#requireStreams();
      await this.#connections.refresh();
      this.#report(undefined);
    } catch (error) {
      // After an unexpected error, nothing is scanned until a later check succeeds.
      const unforeseen = `clamd could not be asked (${String(error)})`;
      this.#report(
        error instanceof ScannerFailure
          ? error
          : new ScannerFailure('unreachable', unforeseen, { cause: error }),
      );
    }
    if (this.#closed) return;
    const { intervalMs = INTERVAL_MS, retryMs = RETRY_MS } = this.#options;
    this.#timer = setTimeout(() => void this.look(), this.#failure ? retryMs : intervalMs);
  }

  /** Scans in progress continue until their users end them. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#connections.close();
  }

  async #requireStreams(): Promise<void> {
    const { documentBytesMax, clamd, timeoutMs } = this.#options;
    this.#limitsKnown = await takesStreamOf(documentBytesMax, clamd, timeoutMs);
    if (this.#limitsKnown) return;
    const message =
      'clamd does not accept documents as large as limits.document_bytes_max: lower that limit, or raise StreamMaxLength in clamd.conf';
    throw new ScannerFailure('unfit', message);
  }

  /** Logs once when scanning stops, and once when it works again. */
  #report(failure: ScannerFailure | undefined): void {
    const before = this.#failure;
    this.#failure = failure;
    if (failure) this.#limitsKnown = false;
    if (failure?.message === before?.message) return;
    const { logger } = this.#options;
    if (failure) {
      const { trouble, message: detail } = failure;
      const fields = { event: 'scanner_lost', trouble, detail };
      logger.error(fields, 'the virus scanner is not available: no document is accepted');
    } else {
      const { engine, signatures } = this.#version ?? {};
      logger.info({ event: 'scanner_back', engine, signatures }, 'the virus scanner is available');
    }
  }
}
