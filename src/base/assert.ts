/** Thrown if the program contradicts itself. Never handled: the process logs it, exits and is restarted. */
export class BrokenInvariant extends Error {
  /** The administrator's remedy. */
  readonly remedy: string =
    'The store can be damaged. Run `pdfseal check`: if it ends with 1 or 2, restore the newest backup; if it ends with 0, report this bug.';

  constructor(message: string) {
    super(message);
    this.name = 'BrokenInvariant';
  }
}

/** The store returns other bytes than were written to it: not a bug, and only an administrator can repair it. */
export class DamagedRecord extends BrokenInvariant {
  override readonly remedy =
    'Run `pdfseal check`: it says what is damaged. Find the cause (the disk, the memory), and restore the newest backup.';
}

/** States what must be true at this point. A failure is a bug in pdfseald or damage to its store, never bad input. */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new BrokenInvariant(message);
}
