import { NotStrippable } from './notStrippable.ts';

/** How many bytes of work any document may cause, however small it is. */
const WORK_BYTES_MIN = 2 * 2 ** 30;
/** How many further bytes of work each byte of a document may cause. */
const WORK_PER_BYTE = 128;

/**
 * The work that one document may cause, in bytes. Each byte that is read, decoded or searched counts every time.
 * Attached documents share the budget.
 */
export class Budget {
  #left: number;

  constructor(left: number) {
    this.#left = left;
  }

  /** The budget for a document of `bytes` bytes. */
  static for(documentBytes: number): Budget {
    return new Budget(WORK_BYTES_MIN + WORK_PER_BYTE * documentBytes);
  }

  /** Throws NotStrippable when the budget is spent. */
  spend(bytes: number): void {
    this.#left -= bytes;
    if (this.#left < 0) throw new NotStrippable('its streams expand to more than any document needs');
  }
}
