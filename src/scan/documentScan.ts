import { ServiceError } from '../base/errors.ts';
import type { ScanResult } from '../job/job.ts';
import { parseScanAnswer, type ScanAnswer } from './clamdReply.ts';
import type { Connection, ConnectionPool } from './connectionPool.ts';
import { ScannerFailure } from './scannerFailure.ts';

/** Policy for documents that the scanner cannot read: refuse them, or seal them with the verdict `encrypted`. */
export type EncryptedPolicy = 'refuse' | 'record';

export interface DocumentScanOptions {
  connections: Pick<ConnectionPool, 'take' | 'release'>;
  encrypted: EncryptedPolicy;
  /** Called with every answer and its duration, counted from the document's last byte. Must not throw. */
  onScan?(answer: ScanAnswer['kind'], durationMs: number): void;
}

/** Scans one document while it arrives. The interface is that of a Hasher, which gets the same bytes. */
export type Scan = Pick<DocumentScan, 'update' | 'result' | 'abort'>;

/** Scans one document over its own connection. The first bytes are kept until the connection is available. */
export class DocumentScan {
  readonly #options: DocumentScanOptions;
  readonly #begun: Promise<void>;
  #connection: Connection | undefined;
  #waiting: Uint8Array[] = [];
  #state: 'open' | 'answered' | 'aborted' = 'open';

  constructor(options: DocumentScanOptions) {
    this.#options = options;
    this.#begun = this.#begin();
    // The promise can reject before it is awaited. A later `await` still gets the error.
    this.#begun.catch(() => {});
  }

  /**
   * Takes the next bytes. The caller must not change them afterwards. If this returns a promise, the caller must wait for it before sending
   * more. Throws, and the promise rejects, with ServiceError `scanner_unavailable`.
   */
  update(chunk: Uint8Array): Promise<void> | undefined {
    if (this.#connection === undefined) {
      this.#waiting.push(chunk);
      return this.#begun;
    }
    try {
      return this.#connection.session.write(chunk)?.catch((error) => explain(error));
    } catch (error) {
      return explain(error);
    }
  }

  /**
   * Ends the document and returns the verdict. Rejects with ServiceError: `virus_scan_failed` for a document that must not be accepted,
   * `scanner_unavailable` if there is no clear answer.
   */
  async result(): Promise<ScanResult> {
    await this.#begun;
    const connection = this.#connection;
    if (connection === undefined) throw unavailable(new ScannerFailure('closed', 'the scan was cancelled'));
    const answer = await this.#answer(connection);
    this.#state = 'answered';
    this.#options.connections.release(connection);
    return this.#judge(answer, connection);
  }

  async #answer({ session }: Connection): Promise<ScanAnswer> {
    const startedAtMs = performance.now();
    let kind: ScanAnswer['kind'] = 'error';
    try {
      const answer = parseScanAnswer(await session.end());
      kind = answer.kind;
      return answer;
    } catch (error) {
      return explain(error);
    } finally {
      this.#options.onScan?.(kind, performance.now() - startedAtMs);
    }
  }

  /** Drops the document at once. Has no effect after {@link result}. */
  abort(): void {
    if (this.#state !== 'open') return;
    this.#state = 'aborted';
    this.#waiting = [];
    // Only a closed connection makes clamd drop an unfinished document.
    this.#connection?.session.close();
  }

  async #begin(): Promise<void> {
    const { connections } = this.#options;
    const connection = await connections.take().catch((error) => explain(error));
    if (this.#state === 'aborted') return connections.release(connection);
    this.#connection = connection;
    try {
      connection.session.begin();
      const rooms = this.#waiting.splice(0).map((chunk) => connection.session.write(chunk));
      await Promise.all(rooms);
    } catch (error) {
      explain(error);
    }
  }

  #judge(answer: ScanAnswer, { version }: Connection): ScanResult {
    const { engine, signatures } = version;
    const scanner = { engine, signatures };
    switch (answer.kind) {
      case 'clean':
        return { verdict: 'clean', ...scanner };
      case 'encrypted':
        if (this.#options.encrypted === 'record') return { verdict: 'encrypted', ...scanner };
        throw refused(
          'The document, or a file inside it, is encrypted: the virus scanner cannot look into it. Send it without a password.',
          answer.name,
        );
      case 'found':
        throw refused(
          `The virus scanner found ${answer.name} in the document. Nothing was recorded: purge your copy.`,
          answer.name,
        );
      case 'incomplete':
        throw refused(
          'The document exceeds what the virus scanner can scan completely. Nothing was recorded.',
          answer.name,
        );
      case 'error':
        throw unavailable(new ScannerFailure('refused', `clamd answered "${answer.text}"`));
    }
  }
}

/** The cause passes the scanner's name for the virus to the administrator's log. */
function refused(message: string, name: string): ServiceError {
  return new ServiceError('virus_scan_failed', message, { cause: new Error(`clamd found ${name}`) });
}

function explain(error: unknown): never {
  throw error instanceof ScannerFailure ? unavailable(error) : error;
}

const RETRY_AFTER_SECONDS = 5;

/** The error that clients get for any failure of the scanner. The failure itself goes to the log. */
export function unavailable(failure: ScannerFailure): ServiceError {
  return new ServiceError(
    'scanner_unavailable',
    'The virus scanner gives no clear answer at the moment, so nothing was recorded. Repeat the request later.',
    { retryAfterSeconds: RETRY_AFTER_SECONDS, cause: failure },
  );
}
