import type { Test } from 'tap';
import { ServiceError } from '../../src/base/errors.ts';
import { createLogger } from '../../src/base/logger.ts';
import { openScanner, type Scanner, type ScannerOptions } from '../../src/scan/scanner.ts';
import type { ClamdAddress } from '../../src/scan/session.ts';

export interface TestScanner {
  scanner: Scanner;
  /** The lines logged so far. */
  log(): Record<string, unknown>[];
}

/** A scanner that looks after its clamd all the time; closed with the test. */
export async function startScanner(
  test: Test,
  clamd: ClamdAddress,
  options: Partial<ScannerOptions> = {},
): Promise<TestScanner> {
  const lines: string[] = [];
  const scanner = await openScanner({
    clamd,
    timeoutMs: 60_000,
    connectionsMax: 4,
    encrypted: 'refuse',
    documentBytesMax: 32 * 1024 * 1024,
    logger: createLogger('debug', { write: (line) => void lines.push(line) }),
    intervalMs: 20,
    retryMs: 20,
    ...options,
  });
  test.teardown(() => scanner.close());
  return { scanner, log: () => lines.map((line) => JSON.parse(line) as Record<string, unknown>) };
}

/** The verdict on a document that arrives in pieces, or the code it is refused with. */
export async function scan(scanner: Scanner, document: Buffer, pieceBytes = 64 * 1024): Promise<unknown> {
  const scan = scanner.scan();
  try {
    for (let at = 0; at < document.length; at += pieceBytes) {
      await scan.update(document.subarray(at, at + pieceBytes));
    }
    return await scan.result();
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    return error.code;
  } finally {
    scan.abort();
  }
}

/** What the promise was rejected with. */
export async function failureOf(promise: Promise<unknown>): Promise<ServiceError> {
  const error = await promise.then(
    () => 'not refused',
    (reason: unknown) => reason,
  );
  if (!(error instanceof ServiceError)) throw new Error(String(error));
  return error;
}

export function isAvailable(scanner: Scanner): boolean {
  return scanner.health().trouble === undefined;
}
