import { ServiceError } from '../base/errors.ts';
import type { ScanResult } from '../job/job.ts';
import { parseScanAnswer, type ScanAnswer } from './clamdReply.ts';
import type { Connection, ConnectionPool } from './connectionPool.ts';
import { ScannerFailure } from './scannerFailure.ts';

/** What becomes of documents the scanner cannot look into: refused, or sealed with the verdict `encrypted`. */
export const ENCRYPTED_POLICIES = ['refuse', 'record'] as const;
export type EncryptedPolicy = (typeof ENCRYPTED_POLICIES)[number];

/** Scans one document while it arrives; of the shape of a Hasher, for it gets the same bytes. */
export interface Scan {
  /**
   * Takes the next bytes, which must not be changed afterwards. A promise means: enough for now, go on when it resolves.
   * Throws, and the promise rejects, with ServiceError `scanner_unavailable`.
   */
  update(chunk: Uint8Array): Promise<void> | undefined;
  /**
   * No bytes follow. Rejects with ServiceError: `virus_scan_failed` for a document that must go no further,
   * `scanner_unavailable` for anything but a clear answer.
   */
  result(): Promise<ScanResult>;
  /** Forgets the document at once; harmless after {@link result}. */
  abort(): void;
}

export interface DocumentScanOptions {
  connections: Pick<ConnectionPool, 'take' | 'release'>;
  encrypted: EncryptedPolicy;
  /** Told of every answer, and how long it took from the document's last byte on; must not throw. */
  onScan?(answer: ScanAnswer['kind'], durationMs: number): void;
}

/** One document over a connection of its own, which is waited for while its first bytes are kept. */
export class DocumentScan implements Scan {
  readonly #options: DocumentScanOptions;
  readonly #begun: Promise<void>;
  #connection: Connection | undefined;
  #waiting: Uint8Array[] = [];
  #state: 'open' | 'answered' | 'aborted' = 'open';

  constructor(options: DocumentScanOptions) {
    this.#options = options;
    this.#begun = this.#begin();
    // It can fail while nobody waits for it; who asks later still learns of it.
    this.#begun.catch(() => {});
  }

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

  async result(): Promise<ScanResult> {
    await this.#begun;
    const connection = this.#connection;
    if (connection === undefined) throw unavailable(new ScannerFailure('closed', 'the scan was given up'));
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

  abort(): void {
    if (this.#state !== 'open') return;
    this.#state = 'aborted';
    this.#waiting = [];
    // In the middle of a document there is no other way to make clamd forget it.
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
    const scanner = { engine, ...(signatures !== undefined && { signatures }) };
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

/** What the scanner called it is for the administrator's log too. */
function refused(message: string, name: string): ServiceError {
  return new ServiceError('virus_scan_failed', message, { cause: new Error(`clamd found ${name}`) });
}

function explain(error: unknown): never {
  throw error instanceof ScannerFailure ? unavailable(error) : error;
}

const RETRY_AFTER_SECONDS = 5;

/** What callers are told of any failure of the scanner; the failure itself is for the log. */
export function unavailable(failure: ScannerFailure): ServiceError {
  return new ServiceError(
    'scanner_unavailable',
    'The virus scanner gives no clear answer at the moment, so nothing was recorded. Repeat the request later.',
    { retryAfterSeconds: RETRY_AFTER_SECONDS, cause: failure },
  );
}
