/** For each promise, histories in which it is broken: the checker names that promise. */
import { createHash } from 'node:crypto';
import t from 'tap';
import { leafHash, merkleRoot } from '../../src/log/tree.ts';
import { encodeCanonical } from '../../src/manifest/jcs.ts';
import { brokenPromises, PROMISES, type PromiseName, rootsOf } from './checker.ts';
import { emptyHistory, type FinalState, goBack, type History, type Terms } from './history.ts';

const BEGUN = Date.UTC(2026, 0, 1);
const TERMS: Terms = { listener: 'loud', limited: { client: 'small', jobs: 2 }, vouchedFrom: BEGUN };
const JOBS = 6;

interface Tale {
  history: History;
  final: FinalState;
}

/** All is well: four jobs of one client, two of another, each in a batch of its own, and one record of the audit trail. */
function goodTale(): Tale {
  const history = emptyHistory();
  const ids = [...Array.from({ length: JOBS }, (_, n) => `job_${n}`), 'job_audit'];
  const manifests = ids.map((job_id) => ({ job_id }));
  const data = manifests.map((manifest) => createHash('sha512').update(encodeCanonical(manifest)).digest());
  const roots = rootsOf(data);
  const noteOf = (size: number) => `origin\n${size}\n${roots[size]}\n\n— origin signature\n`;
  const clientOf = (n: number) => (n < 4 ? TERMS.listener : n < JOBS ? TERMS.limited.client : '_audit');
  const final: FinalState = {
    jobs: ids.map((id, n) => ({
      id,
      client: clientOf(n),
      document: `document ${n}`,
      outcome: 'sealed',
      leafIndex: n,
      ...(clientOf(n) === TERMS.limited.client && { window: BEGUN }),
    })),
    leaves: ids.map((jobId, n) => ({ jobId, data: data[n]?.toString('hex') ?? '' })),
    receipts: {},
    sealedPdfs: {},
    unverified: [],
    wrongSignatures: [],
    checkpoint: noteOf(ids.length),
    trail: [
      { number: 1, jobId: 'job_audit', text: '{"act":"key.issue","object":{"client":"loud"}}' },
      { number: 2, jobId: 'job_audit', text: '{"act":"epoch.begin","from":"2026-01-01T00:00:05Z"}' },
    ],
    quotaCounts: [{ client: TERMS.limited.client, window: BEGUN, jobs: TERMS.limited.jobs }],
    check: { status: 0, output: 'good' },
    readAt: Date.UTC(2026, 0, 2),
    late: [],
  };
  final.witness = { held: noteOf(ids.length), refusals: [] };
  const { jobs, leaves, check } = final;
  final.backup = { jobs: jobs.slice(0, 3), leaves: leaves.slice(0, 3), check: { ...check } };
  history.backups.push({
    folder: 'made',
    checkpoints: 0,
    acts: 0,
    told: [],
    acknowledged: ids.slice(0, 3).map((jobId) => ({ jobId, phase: 'completed' })),
  });
  for (const [n, id] of ids.slice(0, JOBS).entries()) {
    const sealedAt = { sealed_at: `2026-01-01T00:00:0${n}.000Z`, kms_key_id: n < 5 ? 'eu/key' : 'eu/key-e2' };
    const text = JSON.stringify({
      manifest: manifests[n],
      ...sealedAt,
      evidence: { checkpoint: noteOf(n + 1), timestamps: [] },
    });
    final.receipts[id] = text;
    history.receipts.push({ jobId: id, text });
    history.tries.push({
      client: clientOf(n),
      document: `document ${n}`,
      key: `key ${n}`,
      answer: { status: 202, jobId: id },
      ...(n === 0 && { attaches: true }),
    });
    if (n === 0) final.sealedPdfs[id] = { document: `document ${n}`, receipt: text, isWhole: true };
    if (n < 4) history.messages.push({ webhookId: `msg_${n}`, body: id });
  }
  history.tries.push({ client: 'loud', document: 'never answered' });
  history.checkpoints.push(noteOf(3));
  history.epochs.push({ from: Date.UTC(2026, 0, 1, 0, 0, 5), suffix: 'e2' });
  history.acts.push({ act: 'key.issue', word: 'loud' });
  return { history, final };
}

/** Each breaks the promise it is listed under. */
const LIES: Record<PromiseName, ((tale: Tale) => unknown)[]> = {
  'every answer is one of the API': [({ history }) => history.faults.push('418')],
  'no wrong signature is released': [({ final }) => final.wrongSignatures.push('of eu')],
  'no error is internal': [
    ({ history }) => history.internalErrors.push({ request: 'a batch', isUndisturbed: false }),
  ],
  'a healthy daemon serves': [
    ({ history }) => history.tries.push({ client: 'loud', document: 'unheard', key: 'unheard' }),
    ({ history }) =>
      history.tries.push({
        client: 'loud',
        document: 'refused',
        key: 'refused',
        answer: { status: 503, code: 'queue_full' },
      }),
  ],
  'nothing acknowledged is lost': [
    ({ history }) =>
      history.tries.push({ client: 'loud', document: 'gone', answer: { status: 202, jobId: 'job_gone' } }),
    ({ final }) => Object.assign(final.jobs[0] ?? {}, { document: 'another' }),
    ({ history, final }) => {
      final.jobs.push({
        id: 'job_late',
        client: 'x',
        document: 'late',
        outcome: 'waiting',
      });
      history.tries.push({ client: 'x', document: 'late', answer: { status: 202, jobId: 'job_late' } });
    },
  ],
  'a sealed PDF is its document and its receipt': [
    ({ final }) => Reflect.deleteProperty(final.sealedPdfs, 'job_0'),
    ({ final }) => Object.assign(final.sealedPdfs.job_0 ?? {}, { isWhole: false }),
    ({ final }) => Object.assign(final.sealedPdfs.job_0 ?? {}, { document: 'document 1' }),
    ({ final }) => Object.assign(final.sealedPdfs.job_0 ?? {}, { receipt: final.receipts.job_1 }),
  ],
  'every job is sealed once': [
    ({ final }) => final.leaves.push({ jobId: 'job_0', data: final.leaves[0]?.data ?? '' }),
    ({ final }) => final.leaves.push({ jobId: 'job_of_nobody', data: '00' }),
    ({ final }) =>
      final.jobs.push({
        id: 'job_x',
        client: 'x',
        document: 'x',
        outcome: 'sealed',
        leafIndex: 0,
      }),
    ({ final }) => Object.assign(final.jobs[1] ?? {}, { leafIndex: 0 }),
  ],
  'a receipt never changes': [
    ({ history }) => history.receipts.push({ jobId: 'job_0', text: history.receipts[1]?.text ?? '' }),
    ({ final }) => final.unverified.push('job_0'),
  ],
  'the time of the log never goes back': [
    ({ final }) => Object.assign(final.receipts, { job_3: final.receipts.job_3?.replace(':03.', ':01.') }),
  ],
  'every date is true': [
    ({ final }) => Object.assign(final.receipts, { job_5: final.receipts.job_5?.replace('2026', '2036') }),
    ({ final }) => Object.assign(final.receipts, { job_0: final.receipts.job_0?.replace('2026', '2016') }),
  ],
  'the log only grows': [
    ({ final }) =>
      Object.assign(final.witness ?? {}, { held: 'origin\n8\nZm9ya2Vk\n\n— origin signature\n' }),
    ({ history }) => history.checkpoints.push('origin\n3\nZm9ya2Vk\n\n— origin signature\n'),
    ({ final }) => Object.assign(final, { checkpoint: final.checkpoint.replace('\n7\n', '\n8\n') }),
  ],
  'the witness never refuses the log': [
    ({ final }) => final.witness?.refusals.push('422'),
    ({ final }) => Object.assign(final.witness ?? {}, { held: undefined }),
    ({ history }) =>
      history.tries.push({
        client: 'loud',
        document: 'forked',
        answer: { status: 503, code: 'fork_alarm' },
      }),
  ],
  'a key names one job': [
    ({ history }) =>
      history.tries.push({
        client: 'loud',
        document: 'document 0',
        key: 'key 0',
        answer: { status: 202, jobId: 'job_1' },
      }),
    ({ final }) =>
      final.jobs.push({
        id: 'job_y',
        client: 'x',
        document: 'document 0',
        outcome: 'failed',
      }),
  ],
  'no webhook is lost': [
    ({ history }) => history.messages.pop(),
    ({ history }) => history.messages.push({ webhookId: 'msg_0', body: 'another' }),
    ({ history }) => history.messages.push({ webhookId: 'msg_of_nobody', body: '' }),
  ],
  'quotas are exact': [
    ({ final }) => Object.assign(final, { quotaCounts: [] }),
    ({ final }) => final.quotaCounts.push({ client: 'small', window: BEGUN, jobs: 3 }),
    ({ final }) => Object.assign(final.jobs[4] ?? {}, { window: BEGUN - 1 }),
    ({ final }) =>
      final.jobs.push({ id: 'job_z', client: 'small', document: 'z', outcome: 'failed', window: BEGUN }),
  ],
  'the audit trail is complete': [
    ({ history }) => history.acts.push({ act: 'key.issue', word: 'loud' }),
    ({ final }) => Object.assign(final.trail[0] ?? {}, { number: 2 }),
  ],
  'an epoch begins once, at its time': [
    ({ final }) => final.trail.pop(),
    ({ final }) => final.trail.push({ number: 3, jobId: 'job_audit', text: final.trail[1]?.text ?? '' }),
    ({ final }) => Object.assign(final.receipts, { job_5: final.receipts.job_5?.replace('-e2', '') }),
    ({ final }) => Object.assign(final.receipts, { job_0: final.receipts.job_0?.replace('/key', '/key-e2') }),
  ],
  'a backup has everything': [
    ({ final }) => final.backup?.jobs.pop(),
    ({ history }) => history.backups[0]?.acknowledged.push({ jobId: 'job_5', phase: 'sealing' }),
    ({ history, final }) => {
      Object.assign(final.backup ?? {}, {
        jobs: final.jobs.map((job) => ({ ...job, outcome: job.id === 'job_2' ? 'waiting' : job.outcome })),
      });
      return history;
    },
    ({ final }) => final.backup?.leaves.push({ jobId: 'job_3', data: '00' }),
    ({ final }) => Object.assign(final.backup?.check ?? {}, { status: 1 }),
    ({ final }) => delete final.backup,
  ],
  'the check is good': [({ final }) => Object.assign(final.check, { status: 1 })],
};

t.test('a good history breaks no promise', async (t) => {
  const { history, final } = goodTale();
  t.strictSame(brokenPromises(history, final, TERMS), {});
});

t.test('the answer 500 is allowed only while system calls fail', async (t) => {
  for (const [isUndisturbed, broken] of [
    [false, []],
    [true, ['no error is internal']],
  ] as const) {
    const { history, final } = goodTale();
    history.internalErrors.push({ request: 'a create', isUndisturbed });
    t.strictSame(Object.keys(brokenPromises(history, final, { ...TERMS, callsFail: true })), broken);
  }
});

t.test('jobs that a slow machine has not finished are not held against it', async (t) => {
  const { history, final } = goodTale();
  final.jobs.push({ id: 'job_l', client: 'loud', document: 'l', outcome: 'waiting' });
  history.tries.push({ client: 'loud', document: 'l', answer: { status: 202, jobId: 'job_l' } });
  history.messages.pop();
  const broken = () => Object.keys(brokenPromises(history, final, TERMS));
  t.strictSame(broken(), ['nothing acknowledged is lost', 'no webhook is lost']);
  final.late = ['job_l', 'job_3'];
  t.strictSame(broken(), []);
});

t.test('a log that goes back to a backup may lose what came after, and nothing else', async (t) => {
  const { history, final } = goodTale();
  const [backup] = history.backups;
  history.tries.push({ client: 'loud', document: 'lost', answer: { status: 202, jobId: 'job_lost' } });
  history.checkpoints.push('origin\n9\nbG9zdA==\n\n— origin signature\n');
  history.acts.push({ act: 'key.issue', word: 'lost' });
  history.messages = [];
  const acknowledged = final.jobs.map(({ id: jobId }) => ({ jobId, phase: 'completed' }));
  if (backup)
    goBack(history, {
      ...backup,
      acknowledged,
      checkpoints: 1,
      acts: 1,
      told: ['msg_0', 'msg_1', 'msg_2', 'msg_3'],
    });
  const broken = () => Object.keys(brokenPromises(history, final, TERMS));
  t.strictSame(broken(), []);
  final.jobs.shift();
  t.ok(broken().includes('nothing acknowledged is lost'), 'what was acknowledged before');
});

for (const promise of Object.keys(PROMISES) as PromiseName[]) {
  t.test(`caught: ${promise}`, async (t) => {
    for (const lie of LIES[promise]) {
      const tale = goodTale();
      lie(tale);
      const broken = Object.keys(brokenPromises(tale.history, tale.final, TERMS));
      t.ok(broken.includes(promise), `${lie}`);
    }
  });
}

t.test('the checker computes the same roots as the log', async (t) => {
  const leaves = Array.from({ length: 20 }, (_, n) => Buffer.alloc(64, n));
  for (const [size, root] of rootsOf(leaves).entries())
    if (size > 0)
      t.equal(
        root,
        Buffer.from(merkleRoot(Buffer.concat(leaves.slice(0, size).map(leafHash)))).toString('base64'),
      );
});
