import { type Clock, systemClock } from '../../src/base/clock.ts';
import { Timekeeping } from '../../src/seal/timekeeping.ts';
import type { Store } from '../../src/store/store.ts';

/** Time as a daemon keeps it whose clock is believed as it is, and for which nobody vouches. */
export function timeOf({ serviceTime }: Pick<Store, 'serviceTime'>, clock: Clock = systemClock): Timekeeping {
  return new Timekeeping(serviceTime, { date: clock, vouched: () => undefined }, clock);
}
