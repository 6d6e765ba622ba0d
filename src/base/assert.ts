/** Thrown when the program contradicts itself. Never handled: the process logs it, exits and is restarted. */
export class BrokenInvariant extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'BrokenInvariant';
  }
}

/** States what must be true at this point. A failure is a bug in pdfseald or damage to its store, never bad input. */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new BrokenInvariant(message);
}
