import { NotStrippable } from './notStrippable.ts';

/** Bytes of work that any document may cause, however small it is. */
const WORK_BYTES_MIN = 2 * 2 ** 30;
/** Additional bytes of work for each byte of a document. */
const WORK_PER_BYTE = 128;

/**
 * The work that one document may cause, in bytes. Each byte counts every time it is read, decoded or searched. Attached documents share the
 * budget.
 */
export class Budget {
  #left: number;

  constructor(left: number) {
    this.#left = left;
  }

  static for(documentBytes: number): Budget {
    return new Budget(WORK_BYTES_MIN + WORK_PER_BYTE * documentBytes);
  }

  /** Throws NotStrippable if the budget is exhausted. */
  spend(bytes: number): void {
    this.#left -= bytes;
    if (this.#left < 0) throw new NotStrippable('its streams expand to more than any document needs');
  }
}
