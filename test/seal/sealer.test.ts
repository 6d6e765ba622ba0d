import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { newJobId } from '../../src/job/id.ts';
import type { Job, Outcome, ReceivedJob } from '../../src/job/job.ts';
import { belowQuorum } from '../../src/kms/partitions.ts';
import { encodeReceipt } from '../../src/manifest/receipt.ts';
import type { TrustFile } from '../../src/manifest/trustFile.ts';
import { readReceipt } from '../../src/prove/trail/receipts.ts';
import { verifyReceipt } from '../../src/prove/verify/verify.ts';
import type { SealedJobs } from '../../src/seal/observer.ts';
import { openSealer } from '../../src/seal/openSealer.ts';
import type { Sealer, SealerOptions } from '../../src/seal/sealer.ts';
import type { Signing } from '../../src/seal/signing.ts';
import { actOfProcess } from '../../src/store/acts.ts';
import { createStore, openStore } from '../../src/store/lmdb/open.ts';
import { type IdempotencyEntry, type Store, UnknownOutcome } from '../../src/store/store.ts';
import { makeSite, NEVER } from '../support/partitions.ts';
import { firstEpoch, makeJob, oneEpoch } from '../support/sealing.ts';
import { takeToken } from '../support/tamper.ts';
import { until } from '../support/until.ts';

const ORIGIN = 'seal.example.com/test/2026';
const HOUR_MS = 3_600_000;

/** Two partitions, a store made for their keys, and sealers opened on them; all of it real. */
async function makeHouse(t: Test, epoch: Parameters<typeof firstEpoch>[1] = {}) {
  const site = await makeSite(t, 'ed25519', 'ecdsa-p256');
  const path = join(t.testdirName, 'store');
  const identity = { environment: 'test', logOrigin: ORIGIN, createdAt: Date.now() };
  await createStore({ path, identity, epoch: firstEpoch(site.keys, epoch) });
  let now = Date.parse('2026-03-04T05:06:07.008Z');
  let elapsed = 0;
  const openOwn = () => openStore({ path, clock: () => now, monotonicMs: () => elapsed });
  const own = await openOwn();
  t.teardown(() => own.close());
  const signing = await site.openSigning(own, { clock: () => now });
  const fatal: unknown[] = [];
  const open = async (options: Partial<SealerOptions> = {}) => {
    const store = options.store ?? (await openOwn());
    const sealer = await openSealer({
      store,
      signing,
      requireRecord: async () => undefined,
      queueJobsMax: 1000,
      batchJobsMax: 100,
      giveUpAfterMs: 3_600_000,
      clock: () => now,
      logger: pino({ level: 'silent' }),
      onFatal: (error) => fatal.push(error),
      ...options,
    });
    t.teardown(() => sealer.close());
    return { sealer, store };
  };
  const trust: TrustFile = {
    timestampAuthorities: [],
    logs: [oneEpoch({ origin: ORIGIN, environment: 'env_test', keys: site.keys })],
  };
  return {
    site,
    path,
    signing,
    open,
    openOwn,
    fatal,
    trust,
    /** Sets the date, as an administrator or chrony does. */
    setTime: (ms: number) => (now = ms),
    pass: (ms: number) => (elapsed += ms),
  };
}

function jobs(count: number, overrides: Partial<Job> = {}): Job[] {
  return Array.from({ length: count }, () => makeJob(newJobId(), { mode: 'async', ...overrides }));
}

function entryOf(job: Job): IdempotencyEntry {
  return {
    clientId: job.clientId,
    operation: 'createSealJob',
    key: `key-of-${job.id}`,
    fingerprint: 'f'.repeat(64),
    jobId: job.id,
    answer: '{}',
    acceptedAt: Date.now(),
  };
}

/** A part of the real store, but for these methods. */
function withFault<Part extends object>(part: Part, faults: Partial<Part>): Part {
  const bound = (target: Part, name: string | symbol) => {
    const found = Reflect.get(target, name, target);
    return typeof found === 'function' ? found.bind(target) : found;
  };
  return new Proxy(part, { get: (target, name) => Reflect.get(faults, name) ?? bound(target, name) });
}

async function settleAll(sealer: Sealer, list: Job[]): Promise<(Outcome | undefined)[]> {
  return Promise.all(list.map(({ id }) => sealer.settled(id, NEVER)));
}

/** Every job sealed once, each with a good receipt. */
async function assertSealed(t: Test, store: Store, list: Job[], trust: TrustFile): Promise<void> {
  const leafIndexes = new Set<number>();
  for (const { id } of list) {
    const record = await store.jobs.get(id);
    if (record?.outcome?.kind !== 'sealed') throw new Error(`${id} is not sealed`);
    leafIndexes.add(record.outcome.leafIndex);
    const text = encodeReceipt(await readReceipt(store, record.job, record.outcome.leafIndex));
    const verdict = verifyReceipt({
      document: record.job.content?.document,
      receipt: JSON.parse(text),
      trust,
    });
    t.match(verdict, { outcome: 'good' }, id);
  }
  t.equal(leafIndexes.size, list.length, 'one leaf each');
}

t.test('the sealer seals accepted jobs once each, in batches of bounded size', async (t) => {
  const { open, trust } = await makeHouse(t);
  const { sealer, store } = await open({ batchJobsMax: 7 });
  const list = jobs(30);
  await Promise.all(list.map((job) => sealer.accept(job)));
  await settleAll(sealer, list);
  await assertSealed(t, store, list, trust);
  t.equal((await store.log.head())?.treeSize, 30);
  const sizes = await Promise.all(list.map(async (_, leaf) => (await store.log.batchOf(leaf))?.treeSize));
  t.ok(new Set(sizes).size >= 5, 'no batch has more than seven leaves');
  t.equal(sealer.waitingCount, 0);
});

t.test('jobs that waited at a crash are sealed once after the next start', async (t) => {
  const { open, path, trust } = await makeHouse(t);
  const store = await openStore({ path });
  const list = jobs(20);
  for (const job of list) await store.jobs.accept(job);
  const first = await open({ store });
  const [job] = list;
  t.equal(job && first.sealer.phase({ job }), 'sealing', 'a phase that was reported never goes back');
  await settleAll(first.sealer, list);
  await first.sealer.close();
  const second = await open({ store });
  t.equal(second.sealer.waitingCount, 0);
  await assertSealed(t, store, list, trust);
  t.equal((await store.log.head())?.treeSize, 20);
});

t.test('audit records are sealed before all others, in their order', async (t) => {
  const { open, openOwn } = await makeHouse(t);
  const store = await openOwn();
  for (const job of jobs(5)) await store.jobs.accept(job);
  const act = actOfProcess('command', 'key.issue', {});
  // Written at once, so that the ids of their jobs are in any order.
  await Promise.all(Array.from({ length: 6 }, () => store.trail.append(act)));
  await open({ store, batchJobsMax: 4 });
  await until('all are sealed', async () => (await store.jobs.waitingCount()) === 0);
  const leaves = await store.log.leaves(0, 12);
  const entries = await store.trail.entries(0, 6);
  t.strictSame(
    leaves.slice(0, 6).map(({ jobId }) => jobId),
    entries.map(({ jobId }) => jobId),
  );
  t.match(
    await store.log.batchOf(0),
    { treeSize: 6 },
    'in one batch, although there are more than it takes of jobs',
  );
});

t.test('sealed_at never goes back, even if the clock does', async (t) => {
  const { open, setTime } = await makeHouse(t);
  const { sealer, store } = await open();
  for (const time of [2000, 1000]) {
    setTime(time);
    const [job] = jobs(1) as [Job];
    await sealer.accept(job);
    await sealer.settled(job.id, NEVER);
  }
  t.equal((await store.log.batchOf(0))?.sealedAt, 2000);
  t.equal((await store.log.batchOf(1))?.sealedAt, 2000);
});

t.test(
  'below the quorum, jobs in memory are dropped at once, and others wait and are sealed later',
  async (t) => {
    const { open, site, signing, trust } = await makeHouse(t);
    const { sealer, store } = await open();
    const returnTokens = site.tokens.map(takeToken);
    const [waiting] = jobs(1) as [Job];
    const [dropped] = jobs(1, { mode: 'blocking' }) as [ReceivedJob];
    await sealer.accept(waiting, { idempotency: entryOf(waiting) });
    sealer.submit(dropped, { idempotency: entryOf(dropped) });
    await t.rejects(sealer.settled(dropped.id, NEVER), { code: 'kms_partition_unavailable' });
    t.equal(await store.jobs.get(dropped.id), undefined, 'it never was');
    t.equal(await store.jobs.idempotency(entryOf(dropped)), undefined, 'its idempotency key is free');
    await t.rejects(sealer.settled(dropped.id, NEVER), { code: 'kms_partition_unavailable' }, 'later, too');
    t.equal(sealer.phase({ job: waiting }), 'sealing');
    await until('the loss is noticed', () => !signing.canSign());
    t.throws(() => sealer.admit('blocking'), { code: 'kms_partition_unavailable' });
    t.doesNotThrow(() => sealer.admit('async'));
    for (const giveBack of returnTokens) giveBack();
    await sealer.settled(waiting.id, NEVER);
    await assertSealed(t, store, [waiting], trust);
    t.ok(await store.jobs.idempotency(entryOf(waiting)), 'the key of a job that waits is kept');
  },
);

t.test(
  'after a fork alarm, a signed batch is not committed, and no key signs anything more for it',
  async (t) => {
    const { open, signing } = await makeHouse(t);
    let isForked = false;
    let signed = 0;
    const { sealer, store } = await open({
      isForked: () => isForked,
      signing: withFault(signing, {
        sign: async (...sent) => {
          const signatures = await signing.sign(...sent);
          signed += 1;
          isForked = signed === 2;
          return signatures;
        },
      }),
    });
    const [before, waiting] = jobs(2) as [Job, Job];
    const [dropped, late] = jobs(2, { mode: 'blocking' }) as [ReceivedJob, ReceivedJob];
    await sealer.accept(before);
    await sealer.settled(before.id, NEVER);
    t.equal(signed, 1);
    sealer.submit(dropped);
    await t.rejects(sealer.settled(dropped.id, NEVER), { code: 'fork_alarm' });
    await sealer.accept(waiting);
    sealer.submit(late);
    await t.rejects(sealer.settled(late.id, NEVER), { code: 'fork_alarm' });
    t.throws(() => sealer.admit('blocking'), { code: 'fork_alarm', retryAfterSeconds: 600 });
    t.doesNotThrow(() => sealer.admit('async'));
    t.equal((await store.log.head())?.treeSize, 1);
    t.equal(signed, 2, 'and no key signs anything more');
    t.equal(sealer.phase({ job: waiting }), 'queued');
  },
);

t.test('a batch drafted as an epoch with time-stamps begins waits for an authority', async (t) => {
  const { open, signing, fatal } = await makeHouse(t, { timestamps: 'required' });
  const before = { ...signing.epoch, timestamps: 'none' } as const;
  const { sealer } = await open({ signing: withFault(signing, { epoch: before }) });
  const [job] = jobs(1, { mode: 'blocking' }) as [ReceivedJob];
  sealer.submit(job);
  await t.rejects(sealer.settled(job.id, NEVER), { code: 'timestamp_unavailable' });
  t.strictSame(fatal, []);
});

t.test('while another daemon signs with the keys, no create is accepted', async (t) => {
  const { open, signing } = await makeHouse(t);
  let areTaken = true;
  const { sealer } = await open({
    signing: withFault(signing, { canSign: () => !areTaken, areTaken: () => areTaken }),
  });
  for (const mode of ['async', 'blocking'] as const)
    t.throws(() => sealer.admit(mode), { code: 'kms_partition_unavailable' }, mode);
  areTaken = false;
  for (const mode of ['async', 'blocking'] as const) t.doesNotThrow(() => sealer.admit(mode), mode);
});

t.test('the sealer gives up only jobs that waited too long', async (t) => {
  const { open, site, signing, pass } = await makeHouse(t);
  const returnTokens = site.tokens.map(takeToken);
  const { sealer, store } = await open({ giveUpAfterMs: 1000 });
  const [old] = jobs(1, { since: store.serviceTime.now() }) as [Job];
  pass(600);
  const [young] = jobs(1, { since: store.serviceTime.now() }) as [Job];
  const [record] = jobs(1, { source: 'audit' }) as [Job];
  // As another process writes it.
  await store.jobs.accept(record);
  for (let times = 0; times < 2; times++) await sealer.adopt(record.id);
  await sealer.accept(young);
  await sealer.accept(old);
  await until('the loss is noticed', () => !signing.canSign());
  pass(400);
  const [wake] = jobs(1, { since: store.serviceTime.now() }) as [Job];
  await sealer.accept(wake);
  t.match(await sealer.settled(old.id, NEVER), {
    kind: 'failed',
    failure: { code: 'kms_partition_unavailable' },
  });
  t.equal(sealer.waitingCount, 2);
  t.equal(sealer.waiting.auditRecords, 1);
  for (const giveBack of returnTokens) giveBack();
  t.match(await sealer.settled(young.id, NEVER), { kind: 'sealed' });
  t.match(
    await sealer.settled(record.id, NEVER),
    { kind: 'sealed' },
    'what administrators did is sealed however late',
  );
});

t.test('a date that jumps does not age a job, whether the daemon runs or not', async (t) => {
  const { open, openOwn, site, signing, setTime, pass } = await makeHouse(t);
  const returnTokens = site.tokens.map(takeToken);
  const giveUpAfterMs = 24 * HOUR_MS;
  const before = await openOwn();
  await before.serviceTime.keep(0);
  const [job, unstamped] = jobs(2) as [Job, Job];
  const { since: _, ...old } = unstamped;
  await before.jobs.accept({ ...job, since: before.serviceTime.now() });
  await before.jobs.accept(old);
  pass(HOUR_MS);
  await before.serviceTime.keep(0);
  await before.close();
  setTime(Date.parse('2027-06-07T00:00:00Z'));

  const { sealer, store } = await open({ giveUpAfterMs });
  t.equal(store.serviceTime.since(store.serviceTime.begunAt), HOUR_MS, 'as long as it was at work');
  await until('the loss is noticed', () => !signing.canSign());
  const wake = async () => sealer.accept(jobs(1, { since: store.serviceTime.now() })[0] as Job);
  for (const date of ['2027-06-08T02:00:00Z', '2020-01-01T00:00:00Z', '2028-01-01T00:00:00Z']) {
    setTime(Date.parse(date));
    await wake();
    t.equal(await sealer.settled(job.id, AbortSignal.timeout(20)), undefined, date);
  }
  pass(22 * HOUR_MS);
  await wake();
  t.equal(await sealer.settled(job.id, AbortSignal.timeout(20)), undefined, '23 of 24 hours');
  for (const giveBack of returnTokens) giveBack();
  t.match(await sealer.settled(job.id, NEVER), { kind: 'sealed' });
  t.match(await sealer.settled(unstamped.id, NEVER), { kind: 'sealed' }, 'without a stamp, too');
});

t.test('a caller that stops waiting gets no outcome, and the job goes on', async (t) => {
  const { open, site, trust } = await makeHouse(t);
  const { sealer, store } = await open();
  const [job] = jobs(1, { mode: 'blocking' }) as [ReceivedJob];
  sealer.submit(job);
  t.equal(await sealer.settled(job.id, AbortSignal.abort()), undefined);
  t.ok(await store.jobs.get(job.id), 'it is durable before its caller is told');
  await until('it is sealed', () => sealer.waitingCount === 0);
  await assertSealed(t, store, [job], trust);
  t.match(await sealer.settled(job.id, NEVER), { kind: 'sealed' }, 'an outcome of the past is told too');
  t.equal(site.tokens.length, 2);
});

t.test(
  'a job in memory becomes durable once: with its receipt, or when its caller stops waiting',
  async (t) => {
    const { open, openOwn, trust } = await makeHouse(t);
    const { sealer, store } = await open({ batchJobsMax: 3 });
    const list = jobs(60, { mode: 'blocking' }) as ReceivedJob[];
    const outcomes = await Promise.all(
      list.map(async (job, n) => {
        sealer.submit(job, { idempotency: entryOf(job) });
        // Time runs out at any moment: before the draft, between draft and commit, during the commit.
        const outcome = await sealer.settled(job.id, n % 2 === 0 ? NEVER : AbortSignal.timeout(n));
        t.ok(await (await openOwn()).jobs.get(job.id), 'what was answered is on disk');
        return outcome;
      }),
    );
    t.ok(outcomes.every((outcome, n) => n % 2 === 1 || outcome?.kind === 'sealed'));
    await until('all are sealed', () => sealer.waitingCount === 0);
    await assertSealed(t, store, list, trust);
    t.equal((await store.log.head())?.treeSize, list.length);
  },
);

t.test('at a stop, jobs in memory whose callers left are written to disk', async (t) => {
  const { open, site, openOwn } = await makeHouse(t);
  site.tokens.forEach(takeToken);
  const { sealer } = await open();
  const patience = new AbortController();
  const list = jobs(5, { mode: 'blocking' }) as ReceivedJob[];
  for (const job of list) sealer.submit(job);
  const told = list.map((job) => sealer.settled(job.id, patience.signal));
  patience.abort();
  await sealer.close();
  t.same(
    await Promise.all(told),
    list.map(() => undefined),
  );
  t.equal(await (await openOwn()).jobs.waitingCount(), list.length);
});

/** Signs when the test says so. */
function makeTurnstile(signing: Signing, sessions: number) {
  const asked: { text: string; go(): void; fail(): void }[] = [];
  const held: SealerOptions['signing'] = {
    get epoch() {
      return signing.epoch;
    },
    sessions,
    term: (sealedAt) => signing.term(sealedAt),
    canSign: () => signing.canSign(),
    areTaken: () => signing.areTaken(),
    recovered: (signal) => signing.recovered(signal),
    async sign(term, text) {
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      asked.push({
        text,
        go: resolve,
        fail: () => reject(belowQuorum()),
      });
      await promise;
      return signing.sign(term, text);
    },
  };
  return { held, asked };
}

const sizeIn = ({ text }: { text: string }) => Number(text.split('\n')[1]);

t.test(
  'each next batch is drafted and signed on the one before, and they are committed in order',
  async (t) => {
    const { open, signing, trust } = await makeHouse(t);
    const { held, asked } = makeTurnstile(signing, 2);
    const { sealer, store } = await open({ signing: held, batchJobsMax: 2 });
    const list = jobs(6);
    await Promise.all(list.map((job) => sealer.accept(job)));
    await until('two batches are at the HSM', () => asked.length === 2);
    t.same(asked.map(sizeIn), [2, 4]);
    asked[1]?.go();
    await sleep(50);
    t.equal(await store.log.head(), undefined, 'the second waits for the first');
    asked[0]?.go();
    await until('the third is at the HSM', () => asked.length === 3);
    asked[2]?.go();
    await settleAll(sealer, list);
    t.same(asked.map(sizeIn), [2, 4, 6], 'each was signed once');
    await assertSealed(t, store, list, trust);
  },
);

t.test('a batch is not dated before the one ahead of it, even if it was signed first', async (t) => {
  const { open, signing } = await makeHouse(t, { timestamps: 'required' });
  const { held, asked } = makeTurnstile(signing, 2);
  const signed: number[] = [];
  const noting: typeof held = withFault(held, {
    sign: async (...order) => {
      const signatures = await held.sign(...order);
      signed.push(performance.now());
      return signatures;
    },
  });
  const observed: SealedJobs[] = [];
  const observer = {
    accepted: () => {},
    failed: () => {},
    sealed: (batch: SealedJobs) => observed.push(batch),
  };
  const dated: number[] = [];
  const timestamping: SealerOptions['timestamping'] = {
    stamp: async (text) => {
      dated.push(sizeIn({ text }));
      return { token: '', certificates: [] };
    },
    sealed: () => {},
    canStamp: () => true,
    recovered: async () => {},
  };
  const { sealer } = await open({ signing: noting, timestamping, observer, batchJobsMax: 2 });
  const list = jobs(4);
  await Promise.all(list.map((job) => sealer.accept(job)));
  await until('two batches are at the HSM', () => asked.length === 2);
  asked[1]?.go();
  await until('the second is signed', () => signed.length === 1);
  await sleep(200);
  t.same(dated, []);
  const waitedMs = performance.now() - (signed[0] ?? 0);
  asked[0]?.go();
  await settleAll(sealer, list);
  t.same(dated, [2, 4]);
  const { commitMs = 0 } = observed[1] ?? {};
  t.ok(commitMs > waitedMs / 2, 'the wait for the first is none of the authority');
});

t.test('with one session, only one batch is under way', async (t) => {
  const { open, signing } = await makeHouse(t);
  const { held, asked } = makeTurnstile(signing, 1);
  const { sealer } = await open({ signing: held, batchJobsMax: 2 });
  const list = jobs(4);
  await Promise.all(list.map((job) => sealer.accept(job)));
  await until('a batch is at the HSM', () => asked.length === 1);
  await sleep(50);
  t.equal(asked.length, 1);
  asked[0]?.go();
  await until('so is the next', () => asked.length === 2);
  asked[1]?.go();
  await settleAll(sealer, list);
});

t.test(
  'a failed batch takes those drafted on it along, and each of their jobs is sealed only once',
  async (t) => {
    const { open, signing, trust } = await makeHouse(t);
    const { held, asked } = makeTurnstile(signing, 3);
    const { sealer, store } = await open({ signing: held, batchJobsMax: 2 });
    const list = jobs(5);
    const [lost, next] = jobs(2, { mode: 'blocking' }) as [ReceivedJob, ReceivedJob];
    await Promise.all(list.map((job) => sealer.accept(job)));
    sealer.submit(lost);
    const told = t.rejects(sealer.settled(lost.id, NEVER), { code: 'kms_partition_unavailable' });
    await until('three batches are at the HSM', () => asked.length === 3);
    asked[1]?.go();
    asked[2]?.go();
    await sleep(20);
    asked[0]?.fail();
    await told;
    t.equal(await store.jobs.get(lost.id), undefined, 'signed in vain, and never seen');
    await until('they are at the HSM again', () => asked.length === 5);
    t.same(asked.slice(3).map(sizeIn), [2, 4]);
    sealer.submit(next);
    await until('so is a third', () => asked.length === 6);
    for (const one of asked.slice(3)) one.go();
    await settleAll(sealer, [...list, next]);
    await assertSealed(t, store, [...list, next], trust);
    t.equal((await store.log.head())?.treeSize, 6);
  },
);

t.test('the time of an abandoned batch does not become the log’s', async (t) => {
  const { open, signing, setTime } = await makeHouse(t);
  const { held, asked } = makeTurnstile(signing, 2);
  const { sealer, store } = await open({ signing: held });
  const [job] = jobs(1) as [Job];
  setTime(9_000_000);
  await sealer.accept(job);
  await until('it is at the HSM', () => asked.length === 1);
  setTime(5000);
  asked[0]?.fail();
  await until('it is there again', () => asked.length === 2);
  asked[1]?.go();
  await sealer.settled(job.id, NEVER);
  t.equal((await store.log.head())?.sealedAt, 5000);
});

t.test('a small batch behind a large one waits for more jobs, or until the large one is done', async (t) => {
  const { open, signing } = await makeHouse(t);
  const { held, asked } = makeTurnstile(signing, 2);
  const { sealer } = await open({ signing: held });
  const list = jobs(7, { mode: 'blocking' }) as ReceivedJob[];
  const submit = (from: number, to: number) => {
    for (const job of list.slice(from, to)) sealer.submit(job);
  };
  submit(0, 3);
  await until('a batch is at the HSM', () => asked.length === 1);
  submit(3, 4);
  await sleep(50);
  t.same(asked.map(sizeIn), [3]);
  submit(4, 6);
  await until('so is the next', () => asked.length === 2);
  submit(6, 7);
  asked[0]?.go();
  asked[1]?.go();
  await until('the last need not wait for others', () => asked.length === 3);
  asked[2]?.go();
  await settleAll(sealer, list);
  t.same(asked.map(sizeIn), [3, 6, 7]);
});

t.test('the sealer refuses jobs past the limit of the queue', async (t) => {
  const { open, site } = await makeHouse(t);
  const { sealer } = await open({ queueJobsMax: 2 });
  const returnTokens = site.tokens.map(takeToken);
  for (const job of jobs(2)) await sealer.accept(job);
  t.throws(() => sealer.admit('async'), { code: 'queue_full', retryAfterSeconds: Number });
  for (const giveBack of returnTokens) giveBack();
  await until('the queue is empty', () => sealer.waitingCount === 0);
  t.doesNotThrow(() => sealer.admit('async'));
});

const FAILURES = [
  { name: 'not persisted', persist: false },
  { name: 'persisted but errored', persist: true },
];
for (const { name, persist } of FAILURES) {
  t.test(
    `a batch commit that fails, ${name}: the process ends, and the next one seals exactly once`,
    async (t) => {
      const { open, path, fatal, trust } = await makeHouse(t);
      const store = await openStore({ path });
      const log = withFault(store.log, {
        commit: async (batch) => {
          if (persist) await store.log.commit(batch);
          throw new UnknownOutcome(new Error('the disk said no'));
        },
      });
      const list = jobs(5);
      const { sealer } = await open({ store: { ...store, log } });
      await Promise.all(list.map((job) => store.jobs.accept(job).then(() => job)));
      const [first] = jobs(1) as [Job];
      await sealer.accept(first);
      await until('it is fatal', () => fatal.length > 0);
      t.ok(fatal[0] instanceof UnknownOutcome);
      const second = await open({ store });
      await settleAll(second.sealer, [...list, first]);
      await assertSealed(t, store, [...list, first], trust);
      t.equal((await store.log.head())?.treeSize, 6);
    },
  );
}

t.test('a failed accept leaves no job behind', async (t) => {
  const { open, path } = await makeHouse(t);
  const store = await openStore({ path });
  const refusing = withFault(store.jobs, { accept: () => Promise.reject(new Error('the disk said no')) });
  const { sealer } = await open({ store: { ...store, jobs: refusing } });
  const [job] = jobs(1) as [Job];
  await t.rejects(sealer.accept(job), { message: 'the disk said no' });
  t.equal(sealer.waitingCount, 0);
});

t.test('a document that arrives later is sealed only once its digests are durable', async (t) => {
  const { open, openOwn, trust } = await makeHouse(t);
  const own = await openOwn();
  const flush = Promise.withResolvers<void>();
  const receive: Store['jobs']['receive'] = async (...received) => {
    await flush.promise;
    await own.jobs.receive(...received);
  };
  const { sealer, store } = await open({ store: { ...own, jobs: withFault(own.jobs, { receive }) } });
  const { content, ...job } = makeJob(newJobId(), { mode: 'async', source: 'url' });
  Object.assign(job, { checksumSha256: content.document.sha256 });
  await sealer.accept(job, { sourceUrl: 'https://example.com/a.pdf' });
  sealer.hashing(job.id);
  const received = sealer.receive(job.id, content);
  t.equal(sealer.phase({ job }), 'hashing', 'before');
  flush.resolve();
  await received;
  await sealer.settled(job.id, NEVER);
  await assertSealed(t, store, [job], trust);
});

t.test('the sealer does not sign on tiles that its checkpoint does not commit to', async (t) => {
  const { open, path } = await makeHouse(t);
  const { sealer, store } = await open();
  const [job] = jobs(1) as [Job];
  await sealer.accept(job);
  await sealer.settled(job.id, NEVER);
  await sealer.close();
  await store.close();
  for (const tile of [new Uint8Array(32), undefined]) {
    const opened = await openStore({ path });
    const log = withFault(opened.log, { tile: () => Promise.resolve(tile) });
    await t.rejects(open({ store: { ...opened, log } }), {
      name: 'OperatorError',
      message: /does not match its newest checkpoint/,
    });
  }
});
