import * as z from 'zod';
import type { Timestamping } from '../../seal/timestamping.ts';
import { by, type HealthPart, healthPart, plain, type StatusMetric, WIRE } from './section.ts';

const { count } = WIRE;

export const timestampsSchema = z
  .object({
    can_stamp: z.boolean(),
    clock: z.object({
      trust: z.string(),
      trouble: z.string().exactOptional(),
      detail: z.string(),
      error_bound_ms: z.number().exactOptional(),
    }),
    authorities: z
      .array(
        z.object({ name: z.string(), tokens: count, failures: count, trouble: z.string().exactOptional() }),
      )
      .describe('In the order of preference.'),
    units: z
      .array(z.object({ subject: z.string(), ready: z.boolean() }))
      .describe('The keys of the built-in authority.'),
  })
  .describe('Absent where receipts carry no time-stamp.');
type PresentedTimestamps = z.infer<typeof timestampsSchema>;

export function presentTimestamps(timestamping: Timestamping): PresentedTimestamps {
  const { clock, authorities, units } = timestamping.status();
  const { errorBoundMs, ...others } = clock;
  return {
    can_stamp: timestamping.canStamp(),
    clock: { ...others, ...(errorBoundMs !== undefined && { error_bound_ms: errorBoundMs }) },
    authorities: authorities.map(({ notAfter: _, ...authority }) => authority),
    units: units.map(({ authority: subject, ready }) => ({ subject, ready })),
  };
}

export function timestampsPart(status: PresentedTimestamps | undefined): HealthPart {
  if (status === undefined) return healthPart('timestamps', true, 'none are configured', '');
  const { clock, authorities, can_stamp } = status;
  if (clock.trouble !== undefined) {
    const detail = `the clock is not trusted (${clock.trouble}): ${clock.detail}`;
    const remedy =
      clock.trouble === 'clock_ahead'
        ? 'if the clock is right, for example after a long stop, run `pdfseal clock accept`; otherwise set it right'
        : 'synchronize the clock; see [clock] and `chronyc tracking`';
    return healthPart('timestamps', false, detail, remedy);
  }
  const troubled = authorities.filter(({ trouble }) => trouble !== undefined);
  const failing = troubled.map(({ name, trouble }) => `${name} fails (${trouble})`);
  const well = authorities.length - troubled.length;
  const detail = [
    `the clock is trusted`,
    `${well} of ${authorities.length} authorities are well`,
    ...failing,
  ];
  return healthPart(
    'timestamps',
    can_stamp,
    detail.join('; '),
    'bring an authority back, or name another in timestamp.authorities',
  );
}

type Section = PresentedTimestamps | undefined;

function ofAuthority(
  name: string,
  help: string,
  value: (authority: PresentedTimestamps['authorities'][number]) => number | boolean,
): StatusMetric<Section> {
  return by('authority', name, help, (timestamps) =>
    (timestamps?.authorities ?? []).map((one) => [one.name, value(one)]),
  );
}

export const TIMESTAMP_METRICS: StatusMetric<Section>[] = [
  plain(
    'pdfseal_clock_trusted',
    '1 while the clock is believed; absent without time-stamps',
    (timestamps) => timestamps && timestamps.clock.trouble === undefined,
  ),
  plain(
    'pdfseal_clock_error_bound_seconds',
    'Largest possible error of the clock; absent if its source does not report one',
    (timestamps) => {
      const boundMs = timestamps?.clock.error_bound_ms;
      return boundMs === undefined ? undefined : boundMs / 1000;
    },
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
];
