import * as z from 'zod';
import { toRfc3339 } from '../../base/clock.ts';
import { type ClientUsage, Limits, type Standing } from '../../limits/limits.ts';
import type { LimitPolicies } from '../../limits/policies.ts';
import type { Store } from '../../store/store.ts';
import { WIRE } from './section.ts';

const { count, seconds, time } = WIRE;

const limit = { limit: count, window_seconds: seconds, used: count, resets_at: time };
export const quotasSchema = z.object({
  clients: z.array(
    z.object({
      client_id: z.string(),
      rate: z.object(limit).optional().describe('Absent without a limit.'),
      quotas: z.array(z.object({ name: z.string(), ...limit })),
    }),
  ),
});
export type AdminQuotas = z.infer<typeof quotasSchema>;
export type PresentedLimit = NonNullable<AdminQuotas['clients'][number]['rate']>;

export function presentQuotas(usage: ClientUsage[], now: number): AdminQuotas {
  return {
    clients: usage.map(({ clientId, standings }) => {
      const rate = standings.find(({ kind }) => kind === 'rate');
      const quotas = standings.filter(({ kind }) => kind === 'quota');
      return {
        client_id: clientId,
        ...(rate && { rate: presentLimit(rate, now) }),
        quotas: quotas.map((one) => ({ name: one.name ?? '', ...presentLimit(one, now) })),
      };
    }),
  };
}

/**
 * The use of its quotas by every client with a key, as the store counts them: also the jobs that other nodes accepted, and no job that
 * is still being received. Only a daemon counts requests, so every rate is unused here.
 */
export async function storedQuotas(
  store: Pick<Store, 'jobs' | 'credentials'>,
  policies: LimitPolicies,
  now: number,
): Promise<AdminQuotas['clients']> {
  const limits = new Limits(policies, await store.jobs.quotaCounts(), () => now);
  const known = (await store.credentials.all()).map(({ clientId }) => clientId);
  return presentQuotas(limits.usage(known), now).clients;
}

function presentLimit({ limit, windowMs, remaining, resetMs }: Standing, now: number): PresentedLimit {
  return {
    limit,
    window_seconds: windowMs / 1000,
    used: limit - remaining,
    resets_at: toRfc3339(now + resetMs),
  };
}
