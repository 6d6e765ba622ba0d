interface Waiting {
  isAlone: boolean;
  begin(): void;
}

/**
 * The queue for sessions: tasks begin in the order in which they come, up to `width` at the same time. An `isAlone` task begins when all
 * before it have ended, and holds up those after it.
 */
export class SessionQueue {
  /** Lowering it does not affect running tasks. */
  width = 1;
  #running = 0;
  #isHeld = false;
  readonly #waiting: Waiting[] = [];

  async take<T>(task: () => Promise<T>, { isAlone = false } = {}): Promise<T> {
    await new Promise<void>((begin) => {
      this.#waiting.push({ isAlone, begin });
      this.#beginNext();
    });
    try {
      return await task();
    } finally {
      this.#running -= 1;
      if (isAlone) this.#isHeld = false;
      this.#beginNext();
    }
  }

  #beginNext(): void {
    const [next] = this.#waiting;
    if (next === undefined || this.#isHeld || this.#running >= (next.isAlone ? 1 : this.width)) return;
    this.#waiting.shift();
    this.#running += 1;
    this.#isHeld = next.isAlone;
    next.begin();
    this.#beginNext();
  }
}
