/** A day of a busy service, in a history. */
import type { History } from '../../src/console/loadHistory.ts';
import { random } from '../support/seed.ts';

const MINUTE_MS = 60_000;

/** The clock of the history reads `clock.now`. What is told of a moment is in the slot of that moment. */
export function fillHistory(history: History, clock: { now: number }, minutes = 1440): void {
  const end = clock.now;
  for (let ago = minutes; ago >= 0; ago -= 1) {
    for (let n = 0; n < 6; n += 1) {
      clock.now = end - ago * MINUTE_MS + n * 10_000;
      if (clock.now > end) break;
      const jobs = Math.round(20 + 15 * Math.sin(ago / 90) + 10 * random());
      for (let job = 0; job < jobs; job += 1)
        history.sealed(8 + 30 * random() ** 6 + (ago % 37 === 0 ? 90 : 0));
      if (ago % 41 === 0) history.failed('document_too_large');
      if (ago % 17 === 0) history.failed('invalid_api_key');
      if (ago % 173 === 0) history.failed('kms_partition_unavailable');
    }
  }
  clock.now = end;
}
