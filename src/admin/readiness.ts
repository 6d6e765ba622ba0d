import { formatBytes } from '../base/units.ts';
import type { AdminStatus, HealthPart } from './statusSchema.ts';

type Facts = Pick<
  AdminStatus,
  'draining' | 'canary' | 'queue' | 'partitions' | 'timestamps' | 'scanner' | 'store'
> & {
  can_sign: boolean;
};

/** Every part, ready or not. The canary is what proves; the others say why it cannot. */
export function readinessOf(facts: Facts): HealthPart[] {
  return [service, canary, partitions, timestamps, scanner, queue, store].map((judge) => judge(facts));
}

function service({ draining }: Facts): HealthPart {
  return part('service', !draining, draining ? 'it is being stopped' : 'it takes requests', 'start it again');
}

function canary({ canary: { ready, detail, interval_seconds, last_verified: last } }: Facts): HealthPart {
  if (interval_seconds === undefined)
    return part('canary', true, 'none is sealed: health.canary_interval is off', '');
  const age = last ? `, ${last.age_seconds} s ago` : '; none was verified since the start';
  const said = ready
    ? `sealed, stamped and verified end to end${age}`
    : `${detail}; the last verified one${age}`;
  return part(
    'canary',
    ready,
    ready || last ? said : `${detail}${age}`,
    'mend what the other parts name; if they are well, the log says what failed',
  );
}

function partitions({ can_sign, partitions: { quorum, members } }: Facts): HealthPart {
  const signing = members.filter(({ state }) => state === 'ready').length;
  const others = members
    .filter(({ state }) => state !== 'ready')
    .map(({ name, state, last_error }) => `${name} is ${state}${last_error ? ` (${last_error})` : ''}`);
  const detail = [`${signing} of ${members.length} sign, ${quorum} must`, ...others].join('; ');
  return part(
    'partitions',
    can_sign,
    detail,
    'bring their tokens back; `pdfseal doctor` says what is wrong with each',
  );
}

function timestamps({ timestamps: status }: Facts): HealthPart {
  if (status === undefined) return part('timestamps', true, 'none are configured', '');
  const { clock, authorities, can_stamp } = status;
  if (clock.trouble !== undefined) {
    const detail = `the clock is not trusted (${clock.trouble}): ${clock.detail}`;
    return part('timestamps', false, detail, 'synchronize the clock; see [clock] and `chronyc tracking`');
  }
  const troubled = authorities.filter(({ trouble }) => trouble !== undefined);
  const failing = troubled.map(({ name, trouble }) => `${name} fails (${trouble})`);
  const well = authorities.length - troubled.length;
  const detail = [
    `the clock is trusted`,
    `${well} of ${authorities.length} authorities are well`,
    ...failing,
  ];
  return part(
    'timestamps',
    can_stamp,
    detail.join('; '),
    'bring an authority back, or name another in timestamp.authorities',
  );
}

function scanner({ scanner: status }: Facts): HealthPart {
  if (status === undefined) return part('scanner', true, 'none is configured', '');
  return part(
    'scanner',
    status.trouble === undefined,
    status.detail,
    'look after clamd: nothing is accepted unscanned',
  );
}

function queue({ queue: { queued, hashing, sealing, jobs_max } }: Facts): HealthPart {
  const waiting = queued + hashing + sealing;
  const detail = `${waiting} of at most ${jobs_max} jobs wait`;
  return part('queue', waiting < jobs_max, detail, 'it empties by itself once sealing goes on');
}

function store({ store: { bytes, disk_free_bytes, disk_free_bytes_min } }: Facts): HealthPart {
  const detail = `${formatBytes(bytes)}, ${formatBytes(disk_free_bytes)} free on its disk`;
  return part(
    'store',
    disk_free_bytes >= disk_free_bytes_min,
    detail,
    'make room: below storage.free_bytes_min no job is accepted',
  );
}

function part(name: HealthPart['name'], ready: boolean, detail: string, remedy: string): HealthPart {
  return { name, ready, detail, ...(!ready && { remedy }) };
}
