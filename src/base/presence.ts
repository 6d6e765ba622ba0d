import type { Clock } from './clock.ts';

/** How long a client counts as present after it was noted, in milliseconds. */
const PRESENT_MS = 1_000;

interface Noted {
  clientId: string;
  at: number;
}

/** Remembers whether several clients compete at the same time: a client that is alone may use more at once. */
export class Presence {
  readonly #clock: Clock;
  #last: Noted | undefined;
  /** The last noted client other than `#last`. */
  #before: Noted | undefined;

  /** A monotonic clock, in milliseconds. */
  constructor(clock: Clock = () => performance.now()) {
    this.#clock = clock;
  }

  note(clientId: string): void {
    if (this.#last?.clientId !== clientId) this.#before = this.#last;
    this.#last = { clientId, at: this.#clock() };
  }

  /** Whether another client was noted a moment ago. */
  isBesideOthers(clientId: string): boolean {
    const other = this.#last?.clientId === clientId ? this.#before : this.#last;
    return other !== undefined && this.#clock() - other.at < PRESENT_MS;
  }
}
