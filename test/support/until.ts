import { setTimeout as sleep } from 'node:timers/promises';

/** Looks again after a part of the time that has passed, so that short waits end at once and long ones cost little. */
const PAUSE_PART = 0.1;
const PAUSE_MS_MIN = 5;
const PAUSE_MS_MAX = 250;

/** Waits until `holds`, for what nothing reports; throws, naming `what`, if it does not hold in time. */
export async function until(
  what: string,
  holds: () => boolean | Promise<boolean>,
  seconds = 120,
): Promise<void> {
  const begunAt = performance.now();
  while (!(await holds())) {
    const passedMs = performance.now() - begunAt;
    if (passedMs > seconds * 1000) throw new Error(`waited in vain: ${what}`);
    await sleep(Math.min(Math.max(passedMs * PAUSE_PART, PAUSE_MS_MIN), PAUSE_MS_MAX));
  }
}
