import type { Logger } from 'pino';
import { type Clock, systemClock } from '../base/clock.ts';
import { OperatorError } from '../base/errors.ts';
import type { ClamdVersion } from './clamdReply.ts';
import { ConnectionPool } from './connectionPool.ts';
import {
  DocumentScan,
  type DocumentScanOptions,
  type EncryptedPolicy,
  type Scan,
  unavailable,
} from './documentScan.ts';
import { ScannerFailure, type ScannerTrouble } from './scannerFailure.ts';
import { type ClamdAddress, takesStreamOf } from './session.ts';

export interface ScannerOptions {
  clamd: ClamdAddress;
  /** How long clamd may be silent while something is expected of it. */
  timeoutMs: number;
  connectionsMax: number;
  /** What becomes of documents clamd cannot look into. */
  encrypted: EncryptedPolicy;
  /** Largest document that will be scanned: clamd's own limits have to allow it. */
  documentBytesMax: number;
  logger: Logger;
  onScan?: DocumentScanOptions['onScan'];
  /** How often clamd is looked after, and how often while it is not available. */
  intervalMs?: number;
  retryMs?: number;
  clock?: Clock;
}

export interface ScannerHealth {
  /** Undefined while documents are scanned. */
  trouble?: ScannerTrouble;
  /** For the administrator. */
  detail: string;
  /** What clamd last said of itself. */
  version?: ClamdVersion;
  /** When it last said so, milliseconds since the epoch. */
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
 * Looks whether clamd is there and fit. One that is not there is reported, and looked for again: nothing is scanned, so
 * nothing accepted, until it is. Throws OperatorError for one that is there and unfit.
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

/** clamd, watched: what it said of itself last, and whether documents can be scanned. */
export class Scanner {
  readonly #options: ScannerOptions;
  readonly #connections: ConnectionPool;
  readonly #clock: Clock;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;
  #version: ClamdVersion | undefined;
  #answeredAt: number | undefined;
  #failure: ScannerFailure | undefined = new ScannerFailure('unreachable', 'clamd was not asked yet');
  /** Whether clamd's limit for streams was looked at since it was last away. */
  #limitsKnown = false;

  /** Use {@link openScanner}. */
  constructor(options: ScannerOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#connections = new ConnectionPool({
      address: options.clamd,
      timeoutMs: options.timeoutMs,
      connectionsMax: options.connectionsMax,
      documentBytesMax: options.documentBytesMax,
      onVersion: (version) => this.#learn(version),
    });
  }

  /** Throws ServiceError `scanner_unavailable` while it is known that no document can be scanned. */
  admit(): void {
    if (this.#failure) throw unavailable(this.#failure);
  }

  scan(): Scan {
    const { encrypted, onScan } = this.#options;
    return new DocumentScan({ connections: this.#connections, encrypted, ...(onScan && { onScan }) });
  }

  health(): ScannerHealth {
    const { count, idleCount, waitingCount } = this.#connections;
    return {
      ...(this.#failure && { trouble: this.#failure.trouble }),
      detail: this.#failure?.message ?? describe(this.#version),
      ...(this.#version && { version: this.#version }),
      ...(this.#answeredAt !== undefined && { answeredAt: this.#answeredAt }),
      connections: count,
      connectionsInUse: count - idleCount,
      connectionsMax: this.#options.connectionsMax,
      documentsWaiting: waitingCount,
    };
  }

  /** Looks now. Never rejects; not for use by others than the timer and tests. */
  async look(): Promise<void> {
    clearTimeout(this.#timer);
    try {
      if (!this.#limitsKnown) await this.#requireStreams();
      await this.#connections.refresh();
      this.#report(undefined);
    } catch (error) {
      this.#report(error instanceof ScannerFailure ? error : unforeseen(error));
    }
    if (this.#closed) return;
    const { intervalMs = INTERVAL_MS, retryMs = RETRY_MS } = this.#options;
    this.#timer = setTimeout(() => void this.look(), this.#failure ? retryMs : intervalMs);
  }

  /** Documents under way go on until their users give them up. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#connections.close();
  }

  #learn(version: ClamdVersion): void {
    this.#version = version;
    this.#answeredAt = this.#clock();
  }

  async #requireStreams(): Promise<void> {
    const { documentBytesMax, clamd, timeoutMs } = this.#options;
    this.#limitsKnown = await takesStreamOf(documentBytesMax, clamd, timeoutMs);
    if (this.#limitsKnown) return;
    const message =
      'clamd takes no documents as large as limits.document_bytes_max: lower that, or raise StreamMaxLength in clamd.conf';
    throw new ScannerFailure('unfit', message);
  }

  /** Says once that nothing is scanned any more, and once that it is again. */
  #report(failure: ScannerFailure | undefined): void {
    const before = this.#failure;
    this.#failure = failure;
    if (failure) this.#limitsKnown = false;
    if (failure?.message === before?.message) return;
    const { logger } = this.#options;
    if (failure) {
      const { trouble, message } = failure;
      logger.error(
        { event: 'scanner_lost', trouble, detail: message },
        'the virus scanner is not available: no document is accepted',
      );
    } else {
      const { engine, signatures } = this.#version ?? {};
      logger.info({ event: 'scanner_back', engine, signatures }, 'the virus scanner is available');
    }
  }
}

/** Whatever it is, nothing is scanned meanwhile, and the next look may find it mended. */
function unforeseen(cause: unknown): ScannerFailure {
  return new ScannerFailure('unreachable', `clamd could not be asked (${String(cause)})`, { cause });
}

function describe(version: ClamdVersion | undefined): string {
  const { engine = 'clamd', signatures } = version ?? {};
  return signatures === undefined
    ? `${engine} with signatures of its own`
    : `${engine}, signatures ${signatures}`;
}
