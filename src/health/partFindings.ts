/** Findings that block sealing: while one of them holds, its part is not ready. */
import { formatBytes } from '../base/units.ts';
import type { Facts } from './facts.ts';
import { type Found, finding, type HealthFinding, type HealthPart, type PartName } from './healthFinding.ts';
import { ageSeconds } from './sections/section.ts';

const PART_READY = 'pdfseal_part_ready';

/** The first finding of a part that holds is shown with it. */
export const PART_FINDINGS: readonly HealthFinding[] = [
  finding('draining', {
    ...{ id: 'stopping', severity: 'critical', part: 'service', metric: PART_READY },
    when: (draining) => draining,
    says: 'it is being stopped',
    remedy: 'start it again',
  }),
  finding('canary', {
    ...{ id: 'canary_failed', severity: 'critical', part: 'canary' },
    metric: 'pdfseal_canary_verified_timestamp_seconds',
    when: ({ ready }) => !ready,
    says: (canary) =>
      `${canary.detail}${canary.last_verified ? '; the last verified one' : ''}${ageOfCanary(canary)}`,
    remedy: 'repair what the other parts name; if they are well, the log says what failed',
  }),
  finding('partitions', {
    ...{ id: 'below_quorum', severity: 'critical', part: 'partitions', metric: 'pdfseal_quorum_signers' },
    when: ({ signing, needed }) => signing < needed,
    says: describePartitions,
    remedy: 'bring their tokens back; `pdfseal doctor` says what is wrong with each',
  }),
  finding('timestamps', {
    ...{ id: 'clock_untrusted', severity: 'critical', part: 'timestamps', metric: 'pdfseal_clock_trusted' },
    when: ({ clock }) => clock.trouble !== undefined,
    says: ({ clock }) => `the clock is not trusted (${clock.trouble}): ${clock.detail}`,
    remedy: ({ clock }) =>
      clock.trouble === 'clock_ahead'
        ? 'if the clock is right, for example after a long stop, run `pdfseal clock accept`; otherwise set it right'
        : 'synchronize the clock; see [clock] and `chronyc tracking`',
  }),
  finding('timestamps', {
    ...{ id: 'no_authority', severity: 'critical', part: 'timestamps', metric: 'pdfseal_authority_up' },
    when: ({ clock, can_stamp }) => clock.trouble === undefined && !can_stamp,
    says: describeAuthorities,
    remedy: 'bring an authority back, or name another in timestamp.authorities',
  }),
  finding('witnesses', {
    ...{ id: 'fork_alarm', severity: 'critical', part: 'witnesses', metric: 'pdfseal_fork_alarm' },
    when: ({ fork_alarm }) => fork_alarm,
    says: ({ members }) =>
      members
        .filter(({ state }) => state === 'contradiction')
        .map(({ name, detail }) => `${name} holds another history of the log: ${detail}`)
        .join('; '),
    remedy:
      'nothing is sealed until you have looked into it: see "Witnesses" in the manual, "The fork alarm"',
  }),
  finding('witnesses', {
    ...{ id: 'too_few_witnesses', severity: 'critical', part: 'witnesses', metric: 'pdfseal_cosigner_up' },
    when: ({ fork_alarm, can_cosign }) => !fork_alarm && !can_cosign,
    says: describeWitnesses,
    remedy: 'bring witnesses back: nothing is sealed without their quorum, because witness.required is true',
  }),
  finding('sealing', {
    ...{ id: 'no_sealer', severity: 'critical', part: 'sealing', metric: 'pdfseal_sealing_active' },
    when: ({ active }) => !active,
    says: (sealing, now) => `no daemon that seals is active; ${lastCommit(sealing, now)}`,
    remedy: 'start a daemon that has partitions; until then jobs are accepted and wait',
  }),
  finding('sealing', {
    ...{ id: 'sealer_blocked', severity: 'critical', part: 'sealing', metric: PART_READY },
    when: ({ active, obstacle }) => active && obstacle !== undefined,
    says: (sealing, now) =>
      `${sealing.node} is active and cannot seal: ${sealing.obstacle}; ${lastCommit(sealing, now)}`,
    remedy: 'run `pdfseal status` where that daemon runs',
  }),
  finding('sealing', {
    ...{ id: 'front_without_scanner', severity: 'critical', part: 'scanner', metric: PART_READY },
    when: ({ scans }, { scanner }) => scans && scanner === undefined,
    says: 'the daemon that seals scans, and this front does not',
    remedy:
      'set scan.clamd in the configuration of this front, and restart it; until then it refuses documents',
  }),
  finding('sealing', {
    ...{ id: 'front_without_acceptance_key', severity: 'critical', part: 'sealing', metric: PART_READY },
    when: ({ lacks_acceptance_key: lacksKey }) => lacksKey,
    says: 'the daemon that seals demands an acceptance key that this front does not have',
    remedy:
      'copy the file with the key from that machine, set store.acceptance_key_credential, and restart this front; until then it accepts nothing',
  }),
  finding('scanner', {
    ...{ id: 'scanner_down', severity: 'critical', part: 'scanner', metric: 'pdfseal_scanner_up' },
    when: ({ trouble }) => trouble !== undefined,
    says: ({ detail }) => detail,
    remedy: 'look after clamd: nothing is accepted unscanned',
  }),
  finding('queue', {
    ...{ id: 'queue_full', severity: 'critical', part: 'queue', metric: 'pdfseal_jobs' },
    when: (queue) => waitingJobs(queue) >= queue.jobs_max,
    says: describeQueue,
    remedy: 'it empties by itself once sealing goes on',
  }),
  finding('store', {
    ...{ id: 'database_silent', severity: 'critical', part: 'store', metric: PART_READY },
    when: ({ answers }) => !answers,
    says: 'the database does not answer',
    remedy: 'bring the database back',
  }),
  finding('store', {
    ...{ id: 'disk_full', severity: 'critical', part: 'store', subject: 'disk' },
    metric: 'pdfseal_store_full',
    when: ({ answers, disk_free_bytes, disk_free_bytes_min }) =>
      answers && disk_free_bytes < disk_free_bytes_min,
    says: describeFree,
    remedy: 'make room: below storage.free_bytes_min no job is accepted',
  }),
  finding('store', {
    ...{ id: 'database_full', severity: 'critical', part: 'store', metric: 'pdfseal_store_full' },
    when: ({ answers, full, disk_free_bytes, disk_free_bytes_min }) =>
      answers && full && disk_free_bytes >= disk_free_bytes_min,
    says: 'the disk of the database is full',
    remedy: 'make room on it: until then no job is accepted',
  }),
];

/** The sentence for a part that is well; undefined if this daemon lacks the part. */
const WELL: Readonly<Record<PartName, (facts: Facts, now: number) => string | undefined>> = {
  service: () => 'it takes requests',
  canary: ({ canary, sealing }) => {
    if (sealing !== undefined) return undefined;
    return canary.interval_seconds === undefined
      ? 'none is sealed: health.canary_interval is off'
      : `sealed, stamped and verified end to end${ageOfCanary(canary)}`;
  },
  partitions: ({ partitions, sealing }) => (sealing ? undefined : describePartitions(partitions)),
  timestamps: ({ timestamps, sealing }) => {
    if (sealing !== undefined) return undefined;
    return timestamps === undefined ? 'none are configured' : describeAuthorities(timestamps);
  },
  sealing: ({ sealing }, now) => sealing && `${sealing.node} is active; ${lastCommit(sealing, now)}`,
  witnesses: ({ witnesses }) => witnesses && describeWitnesses(witnesses),
  scanner: ({ scanner }) => scanner?.detail ?? 'none is configured',
  queue: ({ queue }) => describeQueue(queue),
  store: ({ store }) => describeDisk(store),
};

/** Every part, ready or not. The canary proves that sealing works; the other parts say why it does not. */
export function partsOf(facts: Facts, findings: readonly Found[], now: number): HealthPart[] {
  return (Object.keys(WELL) as PartName[]).flatMap((name): HealthPart[] => {
    const bad = findings.find(({ part }) => part === name);
    if (bad) return [{ name, ready: false, detail: bad.detail, remedy: bad.remedy }];
    const detail = WELL[name](facts, now);
    return detail === undefined ? [] : [{ name, ready: true, detail }];
  });
}

function ageOfCanary({ last_verified: last }: Facts['canary']): string {
  return last ? `, ${last.age_seconds} s ago` : '; none was verified since the start';
}

function describePartitions({ members, quorum }: Facts['partitions']): string {
  const others = members.filter(({ state }) => state !== 'ready');
  return [
    `${members.length - others.length} of ${members.length} partitions available; ${quorum} required`,
    ...others.map(({ name, state, last_error: error }) => `${name} is ${state}${error ? ` (${error})` : ''}`),
  ].join('; ');
}

function describeAuthorities({ authorities }: NonNullable<Facts['timestamps']>): string {
  const failing = authorities.filter(({ trouble }) => trouble !== undefined);
  return [
    'the clock is trusted',
    `${authorities.length - failing.length} of ${authorities.length} authorities are well`,
    ...failing.map(({ name, trouble }) => `${name} fails (${trouble})`),
  ].join('; ');
}

function describeWitnesses({ members, witnessed }: NonNullable<Facts['witnesses']>): string {
  const those = (wanted: string) => members.filter(({ state }) => state === wanted).length;
  const byHand = those('not_asked');
  const asked = members.length - byHand;
  const how = [
    ...(asked > 0 || byHand === 0 ? [`${those('cosigning')} of ${asked} cosign`] : []),
    ...(byHand > 0 ? [`${byHand} asked by hand`] : []),
  ];
  const newest = witnessed
    ? `the newest witnessed checkpoint has ${witnessed.tree_size} leaves, ${witnessed.cosigned_at}`
    : 'no checkpoint is witnessed yet';
  return `${how.join(', ')}; ${newest}`;
}

function lastCommit({ last_commit_at: at }: NonNullable<Facts['sealing']>, now: number): string {
  return at === undefined
    ? 'nothing was sealed yet'
    : `the last commit was ${ageSeconds(Date.parse(at), now)} s ago`;
}

export function waitingJobs({ queued, hashing, sealing }: Facts['queue']): number {
  return queued + hashing + sealing;
}

function describeQueue(queue: Facts['queue']): string {
  return `${waitingJobs(queue)} of at most ${queue.jobs_max} jobs wait`;
}

function describeDisk(store: Facts['store']): string {
  const where = store.engine === 'lmdb' ? '' : ' in the database';
  return `${formatBytes(store.bytes)}${where}, ${describeFree(store)}`;
}

function describeFree({ engine, disk_free_bytes: free }: Facts['store']): string {
  return `${formatBytes(free)} free on ${engine === 'lmdb' ? 'its disk' : 'the disk of state_dir'}`;
}
