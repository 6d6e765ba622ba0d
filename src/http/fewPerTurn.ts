import type { Middleware } from './requestContext.ts';

/** How many requests begin in one turn of the event loop. */
const BEGUN_MAX = 8;

/**
 * Begins a few requests in each turn of the event loop, and the others in the next turns, in their order. The answers to the clients of one
 * batch bring as many new requests at the same time. If all of these began at once, the signatures and the commit of the next batch, for
 * which other clients wait, would be noticed only after them.
 */
export function beginFewPerTurn(): Middleware {
  const waiting: (() => void)[] = [];
  let begun = 0;
  const nextTurn = () => {
    const next = waiting.splice(0, BEGUN_MAX);
    begun = next.length;
    if (begun > 0) setImmediate(nextTurn);
    for (const begin of next) begin();
  };
  return async (_, next) => {
    if (begun === BEGUN_MAX) await new Promise<void>((resolve) => waiting.push(resolve));
    else if (++begun === 1) setImmediate(nextTurn);
    return next();
  };
}
