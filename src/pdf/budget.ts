import { NotStrippable } from './notStrippable.ts';

/** What the filters of a small document may make, and what else may be done with that, bytes. */
const WORK_BYTES_MIN = 2 * 2 ** 30;
/** The same for each byte of a document. */
const WORK_PER_BYTE = 128;

/**
 * The work that one document may be, in bytes: each that is read, decoded or searched counts, as often as it is. Documents
 * attached to it share it.
 */
export class Budget {
  #left: number;

  constructor(left: number) {
    this.#left = left;
  }

  /** For a document of so many bytes. */
  static for(documentBytes: number): Budget {
    return new Budget(WORK_BYTES_MIN + WORK_PER_BYTE * documentBytes);
  }

  /** Throws NotStrippable when there is none left. */
  spend(bytes: number): void {
    this.#left -= bytes;
    if (this.#left < 0) throw new NotStrippable('its streams expand to more than any document needs');
  }
}
