import { type Greed, type Target, WAYS } from '../journeys/greedy.ts';

export interface GreedOrder {
  /** Undefined: stop. */
  way: string | undefined;
  target: Target;
}

let greed: Greed | undefined;

/** The greedy client lives in a process of its own; an order in, a word out when it is followed. */
process.on('message', async ({ way, target }: GreedOrder) => {
  await greed?.stop();
  greed = way === undefined ? undefined : WAYS[way]?.(target);
  process.send?.('done');
});
process.on('disconnect', () => process.exit());
