import * as z from 'zod';
import type { Timestamping } from '../../seal/timestamping.ts';
import { by, plain, type StatusMetric, showAs, WIRE } from './section.ts';

const { count } = WIRE;

export const timestampsSchema = z
  .object({
    can_stamp: z.boolean(),
    clock: z.object({
      trust: z.string(),
      trouble: z.string().optional(),
      detail: z.string(),
      error_bound_ms: z.number().optional(),
    }),
    authorities: z
      .array(z.object({ name: z.string(), tokens: count, failures: count, trouble: z.string().optional() }))
      .describe('In the order of preference.'),
    units: z
      .array(
        z.object({
          subject: z.string(),
          ready: z.boolean(),
          revoked: z.literal(true).optional().describe('The certificate that the daemon holds was revoked.'),
        }),
      )
      .describe('The keys of the built-in authority.'),
  })
  .describe('Absent where receipts carry no time-stamp.');
type PresentedTimestamps = z.infer<typeof timestampsSchema>;

export function presentTimestamps(timestamping: Timestamping): PresentedTimestamps {
  const { clock, authorities, units } = timestamping.status();
  const { errorBoundMs, ...others } = clock;
  return {
    can_stamp: timestamping.canStamp(),
    clock: { ...others, error_bound_ms: errorBoundMs },
    authorities: authorities.map(({ notAfter: _, ...authority }) => authority),
    units: units.map(({ authority: subject, ready, isRevoked }) => ({
      ...{ subject, ready },
      ...(isRevoked && { revoked: isRevoked }),
    })),
  };
}

function ofAuthority(
  name: string,
  help: string,
  value: (authority: PresentedTimestamps['authorities'][number]) => number | boolean,
): StatusMetric<PresentedTimestamps> {
  return by('authority', name, help, ({ authorities }) => authorities.map((one) => [one.name, value(one)]));
}

showAs(timestampsSchema, [
  plain(
    'pdfseal_clock_trusted',
    '1 while the clock is believed; absent without time-stamps',
    ({ clock }) => clock.trouble === undefined,
  ),
  plain(
    'pdfseal_clock_error_bound_seconds',
    'Largest possible error of the clock; absent if its source does not report one',
    ({ clock: { error_bound_ms: boundMs } }) => (boundMs === undefined ? undefined : boundMs / 1000),
  ),
  ofAuthority(
    'pdfseal_authority_up',
    '1 unless the newest request to this time-stamp authority failed',
    ({ trouble }) => trouble === undefined,
  ),
  ofAuthority(
    'pdfseal_authority_tokens_total',
    'Verified time-stamps of this authority',
    ({ tokens }) => tokens,
  ),
  ofAuthority(
    'pdfseal_authority_failures_total',
    'Requests to this authority that gave no good time-stamp',
    ({ failures }) => failures,
  ),
]);
