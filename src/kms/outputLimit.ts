/** Lines passed on in one period. */
const LINES_MAX = 30;
const PERIOD_MS = 60_000;

/**
 * Passes on what a signer and the module in it print, up to a number of lines in a minute: a module may print without end, and the lines go
 * to a log. The number of missing lines is reported with the next line that is passed on.
 */
export class OutputLimit {
  readonly #pass: (line: string) => void;
  readonly #now: () => number;
  #periodBeganAt = Number.NEGATIVE_INFINITY;
  #passed = 0;
  #missing = 0;

  /** `now`: milliseconds of a monotonic clock. */
  constructor(pass: (line: string) => void, now: () => number = () => performance.now()) {
    this.#pass = pass;
    this.#now = now;
  }

  add(line: string): void {
    const at = this.#now();
    if (at - this.#periodBeganAt >= PERIOD_MS) {
      this.#periodBeganAt = at;
      this.#passed = 0;
    }
    if (this.#passed >= LINES_MAX) {
      this.#missing += 1;
      return;
    }
    this.#passed += 1;
    if (this.#missing > 0) this.#pass(`(${this.#missing} lines are missing here)`);
    this.#missing = 0;
    this.#pass(line);
  }
}
