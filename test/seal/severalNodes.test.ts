/** The daemon that seals, beside fronts that accept in the same store. */
import { EventEmitter, once } from 'node:events';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { newJobId } from '../../src/job/id.ts';
import type { Job, ReceivedJob } from '../../src/job/job.ts';
import { openSealer } from '../../src/seal/openSealer.ts';
import { RefusedJobs } from '../../src/seal/refusedJobs.ts';
import { RemoteSealer } from '../../src/seal/remoteSealer.ts';
import type { Sealer } from '../../src/seal/sealer.ts';
import { createInPostgresql, openInPostgresql } from '../../src/store/postgresql/postgresqlOpen.ts';
import type { Acceptance, Store } from '../../src/store/store.ts';
import { startArrivalFeed } from '../../src/watch/arrivalFeed.ts';
import { putCredentials, sampleCredential, sampleEntry } from '../store/samples.ts';
import { makeSite, NEVER } from '../support/partitions.ts';
import { startPostgres } from '../support/postgres.ts';
import { firstEpoch, makeJob } from '../support/sealing.ts';
import { until } from '../support/until.ts';

const postgres = await startPostgres(t);

async function openNodes(t: Test): Promise<{ store: Store; front: Store; sealer: Sealer; fatal: unknown[] }> {
  const site = await makeSite(t, 'ed25519');
  const location = { urls: [postgres.url(await postgres.createDatabase())] };
  const identity = { environment: 'test', logOrigin: 'seal.example.com/test/2026', createdAt: Date.now() };
  await createInPostgresql({ location, identity, epoch: firstEpoch(site.keys) });
  const store = await openInPostgresql({ location, sequencing: { onWait: t.fail, onLost: t.fail } });
  t.teardown(() => store.close());
  const front = await openInPostgresql({ location, front: true });
  t.teardown(() => front.close());
  const fatal: unknown[] = [];
  const sealer = await openSealer({
    store,
    signing: await site.openSigning(store),
    requireRecord: async () => undefined,
    queueJobsMax: 1000,
    batchJobsMax: 100,
    giveUpAfterMs: 3_600_000,
    clock: Date.now,
    logger: pino({ level: 'silent' }),
    onFatal: (error) => fatal.push(error),
  });
  t.teardown(() => sealer.close());
  return { store, front, sealer, fatal };
}

const newJob = (fields: Partial<Job> = {}) =>
  makeJob(newJobId(), { mode: 'blocking', acceptedAt: Date.now(), since: 1, ...fields }) as ReceivedJob;
const withKey = (job: Job, key: string): Acceptance => ({ idempotency: sampleEntry(job, { key }) });
const outcomeOf = (sealer: Sealer, { id }: Job) =>
  sealer.settled(id, NEVER).then(
    (outcome) => outcome?.kind,
    (error) => error.code,
  );

t.test('a repeat that is refused meanwhile is not given the id of a job that never was', async (t) => {
  const { store, front } = await openNodes(t);
  const taken = newJob();
  await store.jobs.accept(taken, withKey(taken, 'the-same-key'));
  const { sealing } = front;
  if (sealing === undefined) throw new Error('the store is not that of a front');
  const remote = await RemoteSealer.open({
    store: front,
    sealing,
    queueJobsMax: 10,
    logger: pino({ level: 'silent' }),
    onFatal: (error) => t.fail(String(error)),
  });
  t.teardown(() => remote.close());
  const late = newJob();
  remote.submit(late, withKey(late, 'the-same-key'));
  const refused = { code: 'key_taken' };
  await t.rejects(remote.settled(late.id, NEVER), refused);
  const before = { code: 'idempotency_in_progress', message: /was refused/ };
  await t.rejects(remote.settled(late.id, AbortSignal.abort()), before, 'nor is it told that it waits');
});

t.test('a key that a front used first ends one job of a batch, and no other', async (t) => {
  const { front, sealer, fatal } = await openNodes(t);
  const taken = newJob();
  await front.jobs.accept(taken, withKey(taken, 'the-same-key'));
  const [late, other] = [newJob(), newJob()];
  sealer.submit(late, withKey(late, 'the-same-key'));
  sealer.submit(other, withKey(other, 'another-key'));
  t.strictSame(await Promise.all([outcomeOf(sealer, late), outcomeOf(sealer, other)]), [
    'key_taken',
    'sealed',
  ]);
  t.equal(await front.jobs.get(late.id), undefined, 'it never was');
  const durable = newJob({ mode: 'async' });
  await t.rejects(sealer.accept(durable, withKey(durable, 'the-same-key')), {
    code: 'key_taken',
  });
  const impatient = newJob();
  sealer.submit(impatient, withKey(impatient, 'the-same-key'));
  await t.rejects(sealer.settled(impatient.id, AbortSignal.abort()), { code: 'key_taken' });
  const after = newJob();
  sealer.submit(after);
  t.equal(await outcomeOf(sealer, after), 'sealed');
  t.equal(sealer.waitingCount, 0);
  t.strictSame(fatal, []);
});

t.test(
  'a front whose clock is not that of the database refuses what it cannot date, and says so once',
  async (t) => {
    const { front } = await openNodes(t);
    const { sealing } = front;
    if (sealing === undefined) throw new Error('the store is not that of a front');
    let aheadMs = -3_600_000;
    const told: object[] = [];
    const looks = new EventEmitter();
    const remote = await RemoteSealer.open({
      store: front,
      sealing: {
        ...sealing,
        node: async () => {
          looks.emit('look');
          return { ...(await sealing.node()), aheadMs };
        },
      },
      queueJobsMax: 10,
      logger: pino({ level: 'error' }, { write: (line: string) => void told.push(JSON.parse(line)) }),
      onFatal: (error) => t.fail(String(error)),
    });
    t.teardown(() => remote.close());
    for (const mode of ['async', 'blocking'] as const)
      t.throws(() => remote.admit(mode), { code: 'timestamp_unavailable', message: /clock of this node/ });
    await once(looks, 'look');
    t.match(told, [{ event: 'clock_of_database', ahead_seconds: -3600 }]);
    aheadMs = 1_000;
    await until('its clock was set', () => {
      try {
        remote.admit('async');
        return true;
      } catch {
        return false;
      }
    });
    t.equal(told.length, 1);
  },
);

t.test('a quota counts what all nodes accepted', async (t) => {
  const { front, sealer } = await openNodes(t);
  const quota = { name: 'default', startsAt: 0, endsAt: Date.now() + 60_000 };
  await front.jobs.accept(newJob({ quota }), { quotaJobsMax: 2 });
  const list = [newJob({ quota }), newJob({ quota }), newJob({ quota })];
  for (const job of list) sealer.submit(job, { quotaJobsMax: 2 });
  const outcomes = await Promise.all(list.map((job) => outcomeOf(sealer, job)));
  t.strictSame(outcomes.toSorted(), ['quota_used_up', 'quota_used_up', 'sealed']);
});

t.test('jobs of fronts are sealed, jobs of unknown clients fail, and fronts are notified', async (t) => {
  const { store, front, sealer, fatal } = await openNodes(t);
  const { arrivals } = store;
  if (arrivals === undefined) throw new Error('it hears of no arrivals');
  const good = newJob();
  await putCredentials(store, [
    sampleCredential({ clientId: good.clientId, organization: good.organization }),
  ]);
  const stranger = newJob({ clientId: 'nobody' });
  await front.jobs.accept(good);
  await front.jobs.accept(stranger);
  const repeat = outcomeOf(sealer, good);
  const fetched: Job[] = [];
  const feed = startArrivalFeed({
    store,
    arrivals,
    sealer,
    jobsMax: () => 1000,
    sources: { take: (job) => fetched.push(job) },
    scans: true,
    clock: Date.now,
    refused: new RefusedJobs(pino({ level: 'silent' })),
    onFatal: (error) => fatal.push(error),
  });
  t.teardown(() => feed.close());
  t.equal(await repeat, 'sealed', 'who asked before it was taken');
  t.match(await front.sealing?.node(), { isActive: true, scans: true, obstacle: undefined });
  await arrivals.tell({ obstacle: 'timestamp_unavailable', scans: false });
  t.match(await front.sealing?.node(), {
    isActive: true,
    scans: false,
    obstacle: 'timestamp_unavailable',
    isPrivileged: true,
  });
  await until('the other one failed', async () => (await front.jobs.get(stranger.id))?.outcome !== undefined);
  t.match(await front.jobs.get(stranger.id), {
    outcome: { kind: 'failed', failure: { code: 'internal_error' } },
  });
  const { content: _, ...url } = newJob({ source: 'url', checksumSha256: 'a'.repeat(64) });
  await front.jobs.accept(url, { sourceUrl: 'https://example.com/a.pdf' });
  await until('it is to be fetched', () => fetched.length > 0);
  t.ok(sealer.knows(url.id));
  t.strictSame(fatal, []);
});
