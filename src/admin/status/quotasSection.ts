import { z } from 'zod';
import { toRfc3339 } from '../../base/clock.ts';
import type { ClientUsage, Standing } from '../../limits/limits.ts';
import { WIRE } from './section.ts';

const { count, seconds, time } = WIRE;

const limit = { limit: count, window_seconds: seconds, used: count, resets_at: time };
export const quotasSchema = z.object({
  clients: z.array(
    z.object({
      client_id: z.string(),
      rate: z.object(limit).exactOptional().describe('Absent without a limit.'),
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

function presentLimit({ limit, windowMs, remaining, resetMs }: Standing, now: number): PresentedLimit {
  return {
    limit,
    window_seconds: windowMs / 1000,
    used: limit - remaining,
    resets_at: toRfc3339(now + resetMs),
  };
}
