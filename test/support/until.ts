import { setTimeout as sleep } from 'node:timers/promises';

/** Waits for what happens by itself; throws, naming it, when it has not in time. */
export async function until(
  what: string,
  holds: () => boolean | Promise<boolean>,
  seconds = 120,
): Promise<void> {
  const giveUpAt = performance.now() + seconds * 1000;
  while (!(await holds())) {
    if (performance.now() > giveUpAt) throw new Error(`waited in vain: ${what}`);
    await sleep(20);
  }
}
