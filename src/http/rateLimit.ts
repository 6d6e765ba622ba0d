import { type List, serializeList } from 'structured-headers';
import type { Slots } from '../base/slots.ts';
import { Allowance } from '../limits/allowance.ts';
import type { Limits, Standing } from '../limits/limits.ts';
import { callerOf, type Middleware, type RequestContext } from './requestContext.ts';

/** Names of the policies in the headers. The partition key of a quota is its own name. */
const POLICIES = { rate: 'client', quota: 'purpose' } as const;

/**
 * Sets `RateLimit-Policy` and `RateLimit` of an answer (draft-ietf-httpapi-ratelimit-headers-11), if a policy applies. The partition
 * key of a quota is its name in UTF-8.
 */
export function setRateLimit(ctx: RequestContext, standings: Standing[]): void {
  if (standings.length === 0) return;
  const policies = standings.map((one) => itemOf(one, { q: one.limit, w: Math.ceil(one.windowMs / 1000) }));
  const remainders = standings.map((one) =>
    itemOf(one, { r: one.remaining, t: Math.ceil(one.resetMs / 1000) }),
  );
  ctx.set('RateLimit-Policy', serializeList(policies));
  ctx.set('RateLimit', serializeList(remainders));
}

function itemOf({ kind, name }: Standing, numbers: Record<string, number>): List[number] {
  const partition = name === undefined ? {} : { pk: Buffer.from(name) };
  return [POLICIES[kind], new Map(Object.entries({ ...numbers, ...partition }))];
}

/** Counts a request that creates no job against the rate of its client. */
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

/** Limits how many short requests, without large bodies, are under way at once. */
export function limitAtOnce(slots: Slots): Middleware {
  return async (ctx, next) => {
    const leave = slots.take(callerOf(ctx).viewer.clientId);
    try {
      await next();
    } finally {
      leave();
    }
  };
}

/** Runs a create with its allowance, and then sets the RateLimit headers, whether the create succeeds or fails. */
export async function withAllowance<T>(
  ctx: RequestContext,
  limits: Limits,
  create: (allowance: Allowance) => Promise<T>,
): Promise<T> {
  const allowance = new Allowance(limits, callerOf(ctx).viewer.clientId);
  try {
    return await create(allowance);
  } finally {
    allowance.close();
    setRateLimit(ctx, allowance.standings());
  }
}
