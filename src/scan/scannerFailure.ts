/** Why there is no verdict. An administrator must repair `unfit`; the other reasons can pass by themselves. */
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
 * clamd gave no clear answer. The message is for logs and administrators, and does not contain any part of a document. Clients of the
 * service only get `scanner_unavailable`.
 */
export class ScannerFailure extends Error {
  readonly trouble: ScannerTrouble;

  constructor(trouble: ScannerTrouble, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'ScannerFailure';
    this.trouble = trouble;
  }
}
