/** The table of findings: each is made true and false here, and everybody who shows what is wrong shows it. */
import t from 'tap';
import { concernsOf } from '../../src/console/concerns.ts';
import type { Facts } from '../../src/health/facts.ts';
import { findingSchema } from '../../src/health/finding.ts';
import { FINDINGS, findingsOf } from '../../src/health/findings.ts';
import { STATUS_METRICS } from '../../src/health/statusSchema.ts';
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
  sealing: { active: true, node: 'process 7 on a', scans: false, ...sealing },
});
const contradicting = {
  name: 'w',
  state: 'contradiction',
  tree_size: 7,
  detail: 'another tree of 7 leaves',
} as const;
const least = well.store.disk_free_bytes_min;

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
  scanner_down: { holds: change('scanner', { trouble: 'scanner_away' }), silent: [{}] },
  queue_full: {
    holds: change('queue', { queued: 49_999 }),
    silent: [change('queue', { queued: 49_998 })],
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

t.test('each finding is in status, readiness, console and metrics', async (t) => {
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
    const level = severity === 'critical' ? 'bad' : 'warning';
    t.ok(
      concernsOf(status, NOW).some((one) => one.level === level && one.remedy === remedy),
      `${id} is a concern`,
    );
    t.match(
      metric?.samples(status).filter(({ labels }) => labels?.finding === id),
      [{ labels: { severity, subject }, value: 1 }],
      id,
    );
    t.match(
      metric?.samples(well).filter(({ labels }) => labels?.finding === id),
      [{ labels: { severity, subject: '' }, value: 0 }],
    );
    t.ok(known.has(raw), `${id}: ${raw}`);
  }
});
