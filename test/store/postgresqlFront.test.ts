/** What a front accepts, and what it sees of the daemon that seals. */
import pg from 'pg';
import t from 'tap';
import type { Job, ReceivedJob } from '../../src/job/job.ts';
import { encodeJob } from '../../src/store/jobCodec.ts';
import { openInPostgresql } from '../../src/store/postgresql/postgresqlOpen.ts';
import { RunningTime } from '../../src/store/serviceTime.ts';
import type { Store } from '../../src/store/store.ts';
import { StoreError } from '../../src/store/storeError.ts';
import { startPostgres } from '../support/postgres.ts';
import { until } from '../support/until.ts';
import { openNodes } from './openNodes.ts';
import { sampleJob as anyJob, sampleBatch, sampleEntry, sampleUrlJob } from './samples.ts';

const postgres = await startPostgres(t);

/** As a front accepts it now. */
const sampleJob = (fields: Partial<ReceivedJob> = {}) =>
  anyJob({ acceptedAt: Date.now(), since: 1, ...fields });
const nobody = () => false;
const LOOK_MAX = 1000;
const arrivals = async (store: Store) => (await store.arrivals?.look(nobody, LOOK_MAX)) ?? [];

t.test('the sealing daemon is notified of accepted jobs, and the front of their outcome', async (t) => {
  const { active, openFront } = await openNodes(t, postgres);
  const front = await openFront();
  let accepted = 0;
  let ended = 0;
  active.arrivals?.onNotice(() => accepted++);
  front.sealing?.onNotice(() => ended++);
  const jobs = [sampleJob(), sampleJob(), sampleUrlJob({ acceptedAt: Date.now(), since: 1 })] as [
    Job,
    Job,
    Job,
  ];
  await front.jobs.accept(jobs[0], { idempotency: sampleEntry(jobs[0]) });
  await front.jobs.accept(jobs[1]);
  await front.jobs.accept(jobs[2], { sourceUrl: 'https://example.com/a.pdf' });
  await until('the daemon hears of it', () => accepted > 0);
  t.strictSame(
    (await arrivals(active)).map(({ job }) => job?.id),
    jobs.map(({ id }) => id).toSorted(),
  );
  t.strictSame(await active.jobs.waiting(10), [], 'nothing is sealed unseen');
  t.equal(await active.jobs.waitingCount(), 3);
  const { aheadMs, ...node } = (await front.sealing?.node()) ?? {};
  t.ok(Math.abs(aheadMs ?? Infinity) < 60_000, 'one machine has one clock');
  t.strictSame(node, {
    isActive: true,
    scans: false,
    holder: `process ${process.pid} on ${(await import('node:os')).hostname()}`,
    waiting: 3,
    lacksAcceptanceKey: false,
    isPrivileged: false,
  });

  await active.log.commit(sampleBatch(0, [jobs[0]]));
  await active.jobs.fail(jobs[2].id, { code: 'source_unreachable', message: 'no', failedAt: 1 });
  await until('the front hears of it', () => ended > 0);
  const outcomes = await front.sealing?.outcomes(jobs.map(({ id }) => id));
  t.strictSame([...(outcomes?.keys() ?? [])].toSorted(), [jobs[0].id, jobs[2].id].toSorted());
  t.match(await front.jobs.get(jobs[0].id), { job: jobs[0], outcome: { kind: 'sealed', leafIndex: 0 } });
  t.equal((await arrivals(active)).length, 1);
  await active.close();
  t.match(await front.sealing?.node(), { isActive: false, waiting: 1 });
});

t.test('two fronts accept one job per key, and no more than a quota allows', async (t) => {
  const { active, openFront } = await openNodes(t, postgres);
  const fronts = [await openFront(), await openFront()];
  const rounds = Array.from({ length: 10 }, (_, n) => `key-of-round-${n}`);
  for (const key of rounds) {
    const results = await Promise.allSettled(
      fronts.map((front) => {
        const job = sampleJob();
        return front.jobs.accept(job, { idempotency: sampleEntry(job, { key }) });
      }),
    );
    const [refused, ...others] = results.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []));
    t.ok(refused instanceof StoreError && others.length === 0, 'one of them');
    t.match(refused, { code: 'key_taken' });
  }
  const taken = sampleJob();
  const batch = sampleBatch(0, [taken]);
  const newJob = { job: taken, acceptance: { idempotency: sampleEntry(taken, { key: rounds[0] ?? '' }) } };
  const leaves = batch.leaves.map((leaf) => ({ ...leaf, newJob }));
  const conflicts = await active.log.commit({ ...batch, leaves });
  t.match(conflicts, new Map([[taken.id, { code: 'key_taken' }]]), 'nor is another one sealed with it');
  t.equal(await active.log.head(), undefined);

  const quota = { name: 'default', startsAt: 0, endsAt: Date.now() + 60_000 };
  const many = fronts.flatMap((front) =>
    Array.from({ length: 20 }, () => front.jobs.accept(sampleJob({ quota }), { quotaJobsMax: 10 })),
  );
  const kept = (await Promise.allSettled(many)).filter(({ status }) => status === 'fulfilled');
  t.equal(kept.length, 10);
  t.match(await active.jobs.quotaCounts(), [{ jobs: 10 }]);
});

t.test('a job that no request could have made is found, and does not stop others', async (t) => {
  const { database, active } = await openNodes(t, postgres);
  const add = async (job: Job, record = encodeJob(job)) => {
    await postgres.query(
      `INSERT INTO pdfseal.jobs (id, client_id, organization, visibility, document_sha256, record)
        VALUES ('${job.id.slice(4)}', 'billing', 'acme', 'private', '', '\\x${record.toString('hex')}');
       INSERT INTO pdfseal.arrivals VALUES ('${job.id.slice(4)}')`,
      database,
    );
    const [found] = await arrivals(active);
    await active.jobs.fail(job.id, { code: 'internal_error', message: 'no', failedAt: 1 });
    return found?.fault;
  };
  const job = () => sampleJob();
  t.match(await add(job(), Buffer.from('garbage')), /its checksum is wrong/);
  t.match(await add({ ...job(), source: 'audit' }), /source/);
  t.match(await add({ ...job(), clientId: '_canary' }), /clientId/);
  t.match(await add({ ...job(), mode: 'whatever' as Job['mode'] }), /mode/);
  t.match(
    await add({ ...sampleUrlJob({ acceptedAt: Date.now(), since: 1 }) }),
    /either its content or the URL/,
  );
  t.match(
    await add({ ...job(), acceptedAt: Date.UTC(2001, 0) }),
    /it says 2001-01-01T.*, but it arrived at 20/,
  );
  t.match(await add({ ...job(), customerReference: 'a' }), /would not be found by it/);
  t.equal(await add(job()), undefined, 'as it should be');
});

t.test('a job that waited for days is honest, also one whose arrival is not known', async (t) => {
  const { database, active } = await openNodes(t, postgres);
  const acceptedAt = Date.now() - 3 * 86_400_000;
  const add = async (arrivedAt: string) => {
    const job = sampleJob({ acceptedAt });
    await postgres.query(
      `INSERT INTO pdfseal.jobs (id, client_id, organization, visibility, document_sha256, record)
        VALUES ('${job.id.slice(4)}', 'billing', 'acme', 'private', '', '\\x${encodeJob(job).toString('hex')}');
       INSERT INTO pdfseal.arrivals (job_id, arrived_at) VALUES ('${job.id.slice(4)}', ${arrivedAt})`,
      database,
    );
    const found = await arrivals(active);
    return found.find(({ jobId }) => jobId === job.id)?.fault;
  };
  t.equal(await add(`to_timestamp(${acceptedAt / 1000})`), undefined);
  t.equal(await add('NULL'), undefined);
  t.match(await add('now()'), /but it arrived at/);
});

t.test('a backlog of one front does not delay another', async (t) => {
  const { database, active, openFront } = await openNodes(t, postgres);
  const piling = await openFront();
  const other = await openInPostgresql({ location: { urls: [postgres.url(database)] }, front: true });
  t.teardown(() => other.close());
  const [many, few] = [5, 2].map((count) =>
    Array.from({ length: count }, (_, n) => sampleJob({ acceptedAt: Date.now() + n })),
  );
  for (const job of many ?? []) await piling.jobs.accept(job);
  for (const job of few ?? []) await other.jobs.accept(job);
  const [a = '', b = '', c = '', d = ''] = (many ?? []).map(({ id }) => id);
  const [x = '', y = ''] = (few ?? []).map(({ id }) => id);
  const found = async (known: string[]) => {
    const arrived = await active.arrivals?.look((id) => known.includes(id), 3);
    return arrived?.map(({ jobId }) => jobId);
  };
  t.match(await piling.sealing?.node(), { waiting: 5 });
  t.match(await other.sealing?.node(), { waiting: 2 }, 'nor its queue full');
  t.same(new Set((await found([]))?.slice(0, 2)), new Set([a, x]), 'each front has its turn');
  t.same(new Set(await found([])), new Set([a, b, c, x, y]), 'and so many jobs at most');
  t.same(new Set(await found([a, b, c])), new Set([x, y]), 'until these have ended');
  await active.log.commit(sampleBatch(0, (many ?? []).slice(0, 1)));
  t.same(new Set(await found([b, c])), new Set([d, x, y]));
});

t.test('a lock held by a front delays the sealing daemon, but does not end it', async (t) => {
  const { database, active } = await openNodes(t, postgres);
  const [first, other, repeat] = [sampleJob(), sampleJob(), sampleJob()];
  await active.jobs.accept(first, { idempotency: sampleEntry(first, { key: 'held-by-a-front' }) });
  const front = new pg.Client({ host: postgres.dir, user: 'node', database });
  await front.connect();
  t.teardown(() => front.end());
  await front.query('BEGIN; SELECT FROM pdfseal.idempotency FOR UPDATE');
  const writing = [
    active.jobs.accept(repeat, { idempotency: sampleEntry(repeat, { key: 'held-by-a-front' }) }),
    active.jobs.accept(other),
  ];
  await until('it has waited in vain once', () => /lock timeout/.test(postgres.log));
  await front.query('ROLLBACK');
  const [repeated, written] = await Promise.allSettled(writing);
  t.match(repeated, { reason: { message: /Idempotency-Key/ } });
  t.equal(written?.status, 'fulfilled', 'what it waited for goes on');
  t.match(await active.jobs.get(other.id), { job: other });
});

t.test('a front reports nothing that standbys may lack', async (t) => {
  const { database, openFront } = await openNodes(t, postgres);
  const front = await openFront();
  const job = sampleJob();
  await front.jobs.accept(job);
  await postgres.setStandbys('nobody');
  t.teardown(() => postgres.setStandbys(''));
  await postgres.query(
    `SET synchronous_commit = local; INSERT INTO pdfseal.leaves VALUES (0, '${job.id.slice(4)}', decode(repeat('00', 64), 'hex'))`,
    database,
  );
  let isTold = false;
  const reading = front.jobs.get(job.id).then((record) => {
    isTold = true;
    return record;
  });
  const waiting = `SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query = 'COMMIT'`;
  await until('the barrier waits for a standby', async () => (await postgres.query(waiting)).length > 0);
  t.notOk(isTold);
  await postgres.query(
    `SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query = 'COMMIT'`,
  );
  await until('it waits again', async () => (await postgres.query(waiting)).length > 0);
  t.notOk(isTold, 'nor is it told so where that wait was ended');
  await postgres.setStandbys('');
  t.match(await reading, { outcome: { kind: 'sealed' } });

  await postgres.setStandbys('nobody');
  const late = front.jobs.accept(sampleJob()).catch((error) => error.code);
  await until('its own commit waits', async () => (await postgres.query(waiting)).length > 0);
  await postgres.query(
    `SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query = 'COMMIT'`,
  );
  t.equal(await late, 'database_away', 'it acknowledges nothing that standbys may not have');
  await postgres.setStandbys('');
  const next = sampleJob();
  await front.jobs.accept(next);
  t.match(await front.jobs.get(next.id), { job: next }, 'and goes on');
});

t.test(
  'while standbys are away, a front does not use up the server’s connections with waiting',
  async (t) => {
    const { database } = await openNodes(t, postgres);
    const location = { urls: [postgres.url(database, 'node')] };
    const front = await openInPostgresql({ location, front: true, awayMsMax: 500 });
    t.teardown(() => front.close());
    await postgres.setStandbys('nobody');
    t.teardown(() => postgres.setStandbys(''));
    const since = performance.now();
    while (performance.now() - since < 10_000) {
      const job = sampleJob();
      const asked = [front.jobs.accept(job), ...Array.from({ length: 9 }, () => front.jobs.get(job.id))];
      for (const { status } of await Promise.allSettled(asked)) if (status === 'fulfilled') t.fail(status);
    }
    const waiting = await postgres.query(
      `SELECT FROM pg_stat_activity WHERE datname = '${database}' AND wait_event = 'SyncRep'`,
    );
    t.ok(waiting.length <= 7, `${waiting.length}: of those that read, and two that write`);
  },
);

t.test('the service time of a front is never far ahead of that which is kept', (t) => {
  let elapsed = 0;
  const point = { elapsedMs: 1_000_000, begunAt: 0 };
  const kept = { point, newestSealedAt: 0, keep: async () => {} };
  const time = new RunningTime(kept, { clock: Date.now, monotonicMs: () => elapsed });
  elapsed = 100_000;
  time.follow(point);
  t.equal(time.now(), 1_100_000, 'as far as one that keeps it can be');
  elapsed = 5_000_000;
  time.follow(point);
  t.equal(time.now(), 1_120_000, 'it stood still while nobody kept it');
  elapsed += 5;
  t.equal(time.now(), 1_120_005);
  t.end();
});
