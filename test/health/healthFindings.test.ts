/** The table of findings: each is made true and false here, and everybody who shows what is wrong shows it. */
import t from 'tap';
import { toRfc3339 } from '../../src/base/clock.ts';
import { render } from '../../src/cli/daemon/statusReport.ts';
import { judgeCertificates } from '../../src/cli/doctor/certificateDiagnosis.ts';
import { judgeStatus } from '../../src/cli/doctor/daemonDiagnosis.ts';
import { judgeDisk } from '../../src/cli/doctor/storeDiagnosis.ts';
import { judgeUpkeep } from '../../src/cli/doctor/upkeepDiagnosis.ts';
import { concernsOf } from '../../src/console/concerns.ts';
import type { Facts } from '../../src/health/facts.ts';
import { findingSchema } from '../../src/health/healthFinding.ts';
import { FINDINGS, findingsOf } from '../../src/health/healthFindings.ts';
import { type AdminStatus, STATUS_METRICS } from '../../src/health/statusSchema.ts';
import { sampleStatus } from '../console/sampleStatus.ts';

const NOW = Date.UTC(2026, 10, 23, 9);
const well = sampleStatus({}, NOW);

interface Case {
  holds: Partial<Facts>;
  /** Facts with which it nearly holds. */
  silent: Partial<Facts>[];
  /** The other findings that hold with it. */
  along?: string[];
}

/** Members of a section that are unlike those of a daemon that is well. */
function change<Key extends keyof Facts>(section: Key, members: Partial<NonNullable<Facts[Key]>>) {
  return { [section]: { ...(well[section] as object), ...members } } as Partial<Facts>;
}

const clock = (trouble: string) =>
  change('timestamps', { clock: { trust: 'chrony', detail: 'it is not synchronized', trouble } });
const front = (sealing: Partial<NonNullable<Facts['sealing']>>): Partial<Facts> => ({
  sealing: { active: true, node: 'process 7 on a', scans: false, lacks_acceptance_key: false, ...sealing },
});
const contradicting = {
  name: 'w',
  state: 'contradiction',
  tree_size: 7,
  detail: 'another tree of 7 leaves',
} as const;
const least = well.store.disk_free_bytes_min;

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const in_ = (ms: number) => toRfc3339(NOW + ms);
const [partition] = well.partitions.members;
const ofPartitions = (members: object) =>
  change('partitions', { members: [{ ...partition, ...members } as NonNullable<typeof partition>] });
const ofAuthority = (trouble?: string) =>
  change('timestamps', {
    authorities: [{ name: 'acme', tokens: 1, failures: 2, ...(trouble !== undefined && { trouble }) }],
  });
const ofWitness = (members: Partial<NonNullable<Facts['witnesses']>['members'][number]>) =>
  change('witnesses', { members: [{ name: 'w', state: 'cosigning', tree_size: 7, ...members }] });
const witnessed = (ms: number) => change('witnesses', { witnessed: { tree_size: 7, cosigned_at: in_(-ms) } });
const certificate = (urgency: 'none' | 'ahead' | 'soon', authority = 'acme'): Partial<Facts> => ({
  certificates: [
    {
      authority,
      role: 'root',
      state: 'valid',
      subject: 'CN=a',
      not_after: in_(DAY_MS),
      days_left: 1,
      urgency,
    },
  ],
});
const upkeep = (members: Partial<Facts['upkeep']>) => change('upkeep', members);
const endingIn = (days: number) =>
  upkeep({ renewal: { finished_at: in_(0), good: true, holds_until: in_(days * DAY_MS + HOUR_MS) } });

const CASES: Record<string, Case> = {
  stopping: { holds: { draining: true }, silent: [{ draining: false }] },
  canary_failed: {
    holds: change('canary', { ready: false, detail: 'it was not sealed' }),
    silent: [change('canary', { ready: true })],
  },
  below_quorum: {
    holds: change('partitions', { signing: 1, needed: 2 }),
    silent: [change('partitions', { signing: 1, needed: 1 })],
  },
  clock_untrusted: { holds: clock('clock_ahead'), silent: [{}] },
  no_authority: {
    holds: change('timestamps', { can_stamp: false }),
    silent: [{ ...change('timestamps', { ...clock('unsynchronized').timestamps, can_stamp: false }) }],
  },
  fork_alarm: {
    holds: change('witnesses', { fork_alarm: true, members: [contradicting] }),
    silent: [change('witnesses', { members: [contradicting] })],
  },
  too_few_witnesses: {
    holds: change('witnesses', { can_cosign: false }),
    silent: [change('witnesses', { can_cosign: false, fork_alarm: true })],
  },
  no_sealer: { holds: front({ active: false }), silent: [front({})] },
  sealer_blocked: {
    holds: front({ obstacle: 'kms_partition_unavailable' }),
    silent: [front({ active: false, obstacle: 'kms_partition_unavailable' })],
  },
  front_without_scanner: {
    holds: { ...front({ scans: true }), scanner: undefined } as unknown as Partial<Facts>,
    silent: [front({ scans: true })],
  },
  front_without_acceptance_key: { holds: front({ lacks_acceptance_key: true }), silent: [front({})] },
  jobs_refused: {
    holds: { acceptance: { keys: [], refused: 1 } },
    silent: [{ acceptance: { keys: ['0123456789abcdef'], refused: 0 } }],
  },
  scanner_down: { holds: change('scanner', { trouble: 'scanner_away' }), silent: [{}] },
  queue_full: {
    holds: change('queue', { queued: 49_999 }),
    silent: [change('queue', { queued: 49_998 })],
    along: ['queue_nearly_full'],
  },
  database_silent: {
    holds: change('store', { answers: false, engine: 'postgresql', full: true }),
    silent: [change('store', { engine: 'postgresql' })],
  },
  disk_full: {
    holds: change('store', { disk_free_bytes: least - 1, full: true }),
    silent: [change('store', { disk_free_bytes: 4 * least })],
  },
  database_full: {
    holds: change('store', { full: true, engine: 'postgresql' }),
    silent: [change('store', { disk_free_bytes: least - 1, full: true })],
  },
  partition_down: {
    holds: ofPartitions({ state: 'key_lost', last_error: 'CKR_KEY_HANDLE_INVALID' }),
    silent: [ofPartitions({ state: 'withdrawn' })],
  },
  partition_withdrawn: {
    holds: ofPartitions({ state: 'withdrawn', returns_at: in_(HOUR_MS) }),
    silent: [ofPartitions({ state: 'unavailable' })],
  },
  signer_refuses: { holds: ofPartitions({ refusals: 1 }), silent: [ofPartitions({ refusals: 0 })] },
  unit_down: {
    holds: change('timestamps', { units: [{ subject: 'CN=Unit', ready: false }] }),
    silent: [change('timestamps', { units: [] })],
  },
  authority_down: { holds: ofAuthority('authority_unreachable'), silent: [ofAuthority()] },
  witness_fails: {
    holds: ofWitness({ state: 'failing', trouble: 'unknown_log', detail: 'it answered 404' }),
    silent: [ofWitness({ state: 'not_asked' }), ofWitness({ state: 'waiting' })],
  },
  not_witnessed: {
    holds: witnessed(3 * HOUR_MS + 1),
    silent: [
      witnessed(3 * HOUR_MS),
      change('witnesses', { ...witnessed(35 * DAY_MS).witnesses, by_hand: true }),
    ],
  },
  last_checkpoint_behind: {
    holds: change('witness', { current_at: in_(-600_001) }),
    silent: [change('witness', { current_at: in_(-600_000) }), { witness: { tree_size: 0 } }],
  },
  egress_down: {
    holds: { egress: { mode: 'child', answers: false, restarts: 2 } },
    silent: [{ egress: { mode: 'unit', answers: true, restarts: 0 } }],
  },
  config_pending: {
    holds: change('config', { pending: ['kms.sessions'] }),
    silent: [change('config', { pending: [] })],
  },
  jobs_wait: {
    holds: change('queue', { oldest_age_seconds: 301 }),
    silent: [change('queue', { oldest_age_seconds: 300 })],
  },
  jobs_stuck: {
    holds: change('queue', { oldest_age_seconds: 1801 }),
    silent: [
      change('queue', { oldest_age_seconds: 1800 }),
      { ...change('queue', { oldest_age_seconds: 9000 }), ...change('sources', { paused: 1 }) },
    ],
    along: ['jobs_wait'],
  },
  queue_nearly_full: {
    holds: change('queue', { queued: 40_000 }),
    silent: [change('queue', { queued: 39_999 })],
  },
  signatures_old: {
    holds: change('scanner', { signatures_built_at: in_(-3 * DAY_MS - 1) }),
    silent: [change('scanner', { signatures_built_at: in_(-3 * DAY_MS) })],
  },
  copies_overdue: {
    holds: change('copies', { oldest_age_seconds: 260_101 }),
    silent: [change('copies', { oldest_age_seconds: 260_100 })],
  },
  copies_nearly_full: {
    holds: change('copies', { bytes: 81, bytes_max: 100 }),
    silent: [change('copies', { bytes: 80, bytes_max: 100 }), change('copies', { bytes: 1e12 })],
  },
  webhooks_fail: { holds: change('webhooks', { failing: 1 }), silent: [change('webhooks', { disabled: 1 })] },
  webhooks_late: {
    holds: change('webhooks', { oldest_due_age_seconds: 901 }),
    silent: [change('webhooks', { oldest_due_age_seconds: 900 })],
  },
  webhooks_given_up: {
    holds: change('webhooks', { dead_letters: 1 }),
    silent: [change('webhooks', { dropped: 1 })],
  },
  certificate_ends: { holds: certificate('ahead'), silent: [certificate('ahead', 'http.tls')] },
  certificate_ends_soon: { holds: certificate('soon'), silent: [certificate('soon', 'console.tls')] },
  tls_certificate_ends: {
    holds: certificate('soon', 'http.tls'),
    silent: [certificate('none', 'http.tls'), certificate('soon')],
  },
  certificate_ends_now: {
    holds: { certificates: [{ authority: 'acme', role: 'root', state: 'missing', urgency: 'urgent' }] },
    silent: [certificate('soon')],
  },
  disk_low: {
    holds: change('store', { disk_free_bytes: 4 * least - 1 }),
    silent: [change('store', { disk_free_bytes: 4 * least })],
  },
  store_held: {
    holds: change('store', { oldest_reader: { pid: 4711, age_seconds: 3600 } }),
    silent: [change('store', { oldest_reader: { pid: 4711, age_seconds: 3599 } })],
  },
  ...Object.fromEntries(
    Object.entries({ backup: 36, check: 72, restore_drill: 2400, renewal: 72 }).flatMap(([chore, hours]) => {
      const noted = (change: object, at = NOW) =>
        upkeep({ [chore]: { finished_at: toRfc3339(at), good: true, ...change } });
      const { [chore as 'check']: _, ...others } = well.upkeep;
      return Object.entries<Case>({
        missing: {
          holds: { upkeep: others },
          silent: [{ upkeep: { ...others, chores: well.upkeep.chores.filter((one) => one !== chore) } }],
        },
        failed: {
          holds: noted({ good: false, undecided: 'page 7 is torn' }),
          silent: [noted({ undecided: 'page 7 is torn' })],
        },
        old: {
          holds: noted({}, NOW - hours * HOUR_MS - 1),
          silent: [
            noted({}, NOW - hours * HOUR_MS),
            upkeep({ ...noted({}, NOW - hours * HOUR_MS - 1).upkeep, chores: [] }),
          ],
        },
        undated: { holds: noted({}, NOW + 300_001), silent: [noted({}, NOW + 300_000)] },
      }).map(([how, one]) => [`${chore}_${how}`, one]);
    }),
  ),
  timestamps_end_soon: { holds: endingIn(89), silent: [endingIn(90), endingIn(29)] },
  timestamps_end_now: { holds: endingIn(29), silent: [endingIn(30)] },
};

const idsOf = (facts: Partial<Facts>) => [
  ...new Set(findingsOf(sampleStatus(facts, NOW), NOW).map(({ id }) => id)),
];

t.test('a daemon that is well has no findings', async (t) => {
  t.strictSame(findingsOf(well, NOW), []);
  t.strictSame(findingsOf({}, NOW), [], 'facts that are not known are not wrong');
  t.ok(well.ready);
});

t.test('each finding holds alone for its fault, and for nothing that is nearly one', async (t) => {
  t.strictSame(Object.keys(CASES).sort(), FINDINGS.map(({ id }) => id).sort(), 'each has a case');
  for (const [id, { holds, silent, along = [] }] of Object.entries(CASES)) {
    t.strictSame(idsOf(holds).sort(), [id, ...along].sort(), id);
    for (const facts of silent) t.notOk(idsOf(facts).includes(id), `${id}: ${JSON.stringify(facts)}`);
  }
});

t.test('each finding is in status, readiness, doctor, console and metrics', async (t) => {
  const known = new Set(STATUS_METRICS.map(({ name }) => name));
  const metric = STATUS_METRICS.find(({ name }) => name === 'pdfseal_finding');
  for (const { id, severity, part, metric: raw } of FINDINGS) {
    const status = sampleStatus(CASES[id]?.holds, NOW);
    const found = status.findings.find((one) => one.id === id);
    if (found === undefined) throw new Error(id);
    const { subject, detail, remedy } = found;
    t.strictSame(findingSchema.parse(found), found, id);
    t.ok(detail.length > 0 && remedy.length > 0, `${id}: ${detail} → ${remedy}`);
    t.equal(status.ready, !status.findings.some((one) => one.part !== undefined));
    if (part !== undefined)
      t.strictSame(
        status.parts.find(({ name }) => name === part),
        { name: part, ready: false, detail, remedy },
        id,
      );
    const printed = render([{ file: 'x.toml', status, trouble: undefined }], NOW).join('\n');
    const mark = severity === 'critical' ? '✗' : '!';
    t.ok(printed.includes(`${detail}\n`) && printed.includes(`→ ${remedy}`), printed);
    t.ok(
      printed.split('\n').some((line) => line.startsWith(mark)),
      `${id} is marked ${mark}`,
    );
    const diagnoses = [
      ...judgeStatus(status),
      ...judgeCertificates(status.certificates, NOW),
      ...judgeUpkeep(status.upkeep, NOW),
      ...judgeDisk(status.store),
    ];
    const level = severity === 'critical' ? 'bad' : 'warning';
    t.match(
      diagnoses.filter((one) => one.remedy === remedy && one.detail === detail),
      [{ verdict: level }],
      `${id} is a diagnosis`,
    );
    t.match(
      concernsOf(status).filter((one) => one.remedy === remedy && one.detail === detail),
      [{ level }],
      `${id} is a concern`,
    );
    const samples = (of: typeof status) => metric?.samples(of).filter(({ labels }) => labels?.finding === id);
    t.strictSame(samples(status), [{ labels: { finding: id, severity, subject }, value: 1 }]);
    t.strictSame(samples(well), [{ labels: { finding: id, severity, subject: '' }, value: 0 }]);
    t.ok(known.has(raw), `${id}: ${raw}`);
  }
});

t.test('a daemon of an earlier version, which sends no findings, is shown by its parts', async (t) => {
  const { findings: _, ...others } = sampleStatus(CASES.scanner_down?.holds, NOW);
  const status = others as AdminStatus;
  const printed = render([{ file: 'x.toml', status, trouble: undefined }], NOW).join('\n');
  t.match(printed, /✗ scanner .*\n +→ look after clamd/);
  const diagnoses = judgeStatus(status);
  t.match(
    diagnoses.filter(({ verdict }) => verdict !== 'good'),
    [{ check: 'scanner', verdict: 'bad' }],
  );
  t.notOk(
    diagnoses.some(({ check }) => check.startsWith('partition ')),
    'nor said to be well',
  );
});

t.test('a unit whose certificate was revoked is told apart from one whose token fails', async (t) => {
  const of = (unit: object) =>
    findingsOf(change('timestamps', { units: [{ subject: 'CN=Unit', ready: false, ...unit }] }), NOW);
  t.match(of({}), [{ id: 'unit_down', remedy: /token/ }]);
  t.match(of({ revoked: true }), [{ id: 'unit_down', detail: /was revoked/, remedy: /restart the daemon/ }]);
});

t.test('a token that is locked, or has one attempt left, is not helped by another PIN file', async (t) => {
  const remedyOf = (code: string) =>
    findingsOf(ofPartitions({ state: 'pin_refused', last_error: code }), NOW).map(({ remedy }) => remedy);
  t.match(remedyOf('CKR_PIN_INCORRECT'), [/^write the correct PIN into the PIN file/]);
  t.match(remedyOf('pin_final_try'), [/log in once with the vendor’s tool/]);
  t.match(remedyOf('CKR_PIN_LOCKED'), [/^unlock the PIN/]);
});
