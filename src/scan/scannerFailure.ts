/** Why there is no verdict. `unfit` waits for an administrator; the others may pass by themselves. */
export type ScannerTrouble =
  | 'unreachable'
  | 'timed_out'
  | 'closed'
  | 'garbled'
  | 'refused'
  | 'size_limit'
  | 'busy'
  | 'unfit';

/**
 * clamd gave no clear answer. The message is for logs and administrators and holds nothing of a document; callers of the
 * service are told `scanner_unavailable` and no more.
 */
export class ScannerFailure extends Error {
  readonly trouble: ScannerTrouble;

  constructor(trouble: ScannerTrouble, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'ScannerFailure';
    this.trouble = trouble;
  }
}
