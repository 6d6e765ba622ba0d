import { fromUtf8, toBase64 } from '../base/bytes.ts';
import type { Slots } from '../base/slots.ts';
import type { Limits, Standing } from '../limits/limits.ts';
import { callerOf, type Middleware, type RequestContext } from './requestContext.ts';

/** Names of the policies in the headers, as Strings of RFC 9651. The partition key of a quota is its own name. */
const POLICIES = { rate: '"client"', quota: '"purpose"' } as const;

/**
 * Sets `RateLimit-Policy` and `RateLimit` of an answer (draft-ietf-httpapi-ratelimit-headers-11), if a policy applies. The partition
 * key of a quota is its name in UTF-8.
 */
export function setRateLimit(ctx: RequestContext, standings: Standing[]): void {
  if (standings.length === 0) return;
  const policies = standings.map((one) => {
    const seconds = Math.ceil(one.windowMs / 1000);
    return `${POLICIES[one.kind]};q=${one.limit};w=${seconds}${partitionOf(one)}`;
  });
  const remainders = standings.map((one) => {
    const seconds = Math.ceil(one.resetMs / 1000);
    return `${POLICIES[one.kind]};r=${one.remaining};t=${seconds}${partitionOf(one)}`;
  });
  ctx.res.setHeader('RateLimit-Policy', policies.join(', '));
  ctx.res.setHeader('RateLimit', remainders.join(', '));
}

function partitionOf({ name }: Standing): string {
  return name === undefined ? '' : `;pk=:${toBase64(fromUtf8(name))}:`;
}

/** Counts a request that does not create a job against the rate of its client. */
export function limitRate(limits: Limits): Middleware {
  return async (ctx, next) => {
    const { clientId } = callerOf(ctx).viewer;
    try {
      limits.takeRequest(clientId);
      await next();
    } finally {
      const rate = limits.rate(clientId);
      setRateLimit(ctx, rate ? [rate] : []);
    }
  };
}

/** Limits how many short requests, without large bodies, are in progress at once. */
export function limitAtOnce(slots: Slots): Middleware {
  return async (ctx, next) => {
    using held = new DisposableStack();
    held.defer(slots.take(callerOf(ctx).viewer.clientId));
    await next();
  };
}
