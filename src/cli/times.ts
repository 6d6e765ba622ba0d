import { systemClock } from '../base/clock.ts';
import { ownProcess } from '../base/env.ts';
import { fromNow } from '../base/phrases.ts';

/** A time (RFC 3339) unchanged; on a terminal, also its distance from now. */
export function forPeople(time: string): string {
  return ownProcess().stdout.isTTY ? `${time} (${fromNow(time, systemClock())})` : time;
}
