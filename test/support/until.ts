import { setTimeout as sleep } from 'node:timers/promises';

/** Waits for what happens by itself; throws, naming it, when it has not within 15 s. */
export async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  const giveUpAt = Date.now() + 15_000;
  while (!(await holds())) {
    if (Date.now() > giveUpAt) throw new Error(`waited in vain: ${what}`);
    await sleep(20);
  }
}
