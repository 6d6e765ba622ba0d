import { systemClock } from '../base/clock.ts';
import { ownProcess } from '../base/env.ts';
import { fromNow } from '../base/phrases.ts';

/** A time (RFC 3339) as it is; on a terminal also how far it is from now. */
export function forPeople(time: string): string {
  return ownProcess().stdout.isTTY ? `${time} (${fromNow(time, systemClock())})` : time;
}
