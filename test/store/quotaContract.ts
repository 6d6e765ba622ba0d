import type { Test } from 'tap';
import type { Failure, QuotaWindow } from '../../src/job/job.ts';
import type { QuotaCount } from '../../src/store/store.ts';
import type { MakeStore } from './contract.ts';
import { START_MS, sampleEntry, sampleJob } from './samples.ts';

const HOUR_MS = 3_600_000;

/** The part of the contract that is about counts of quotas. */
export async function quotas(t: Test, makeStore: MakeStore): Promise<void> {
  const DAY_MS = 24 * HOUR_MS;
  const startsAt = START_MS - (START_MS % DAY_MS);
  const today: QuotaWindow = { name: 'invoice "2026"', startsAt, endsAt: startsAt + DAY_MS };
  const tomorrow = { ...today, startsAt: today.endsAt, endsAt: today.endsAt + DAY_MS };
  const failure: Failure = { code: 'timestamp_unavailable', message: 'Later.', failedAt: START_MS };
  const byJobs = (a: QuotaCount, b: QuotaCount) => a.jobs - b.jobs;

  t.test('jobs are counted with their acceptance, by client and window', async (t) => {
    const { store, reopen } = await makeStore(t);
    t.same(await store.jobs.quotaCounts(), []);
    await Promise.all(
      Array.from({ length: 30 }, (_, n) =>
        store.jobs.accept(
          sampleJob({ quota: n % 3 === 0 ? tomorrow : today, ...(n === 1 && { clientId: 'claims' }) }),
        ),
      ),
    );
    await store.jobs.accept(sampleJob());
    const expected = [
      { clientId: 'claims', ...today, jobs: 1 },
      { clientId: 'billing', ...tomorrow, jobs: 10 },
      { clientId: 'billing', ...today, jobs: 19 },
    ];
    for (const open of [async () => store, reopen]) {
      const opened = await open();
      t.same((await opened.jobs.quotaCounts()).sort(byJobs), expected);
      const windows = (await opened.jobs.waiting(31)).map(({ quota }) => quota?.startsAt ?? 0);
      const of = (startsAt: number) => windows.filter((one) => one === startsAt).length;
      t.strictSame([of(today.startsAt), of(tomorrow.startsAt), of(0)], [20, 10, 1]);
    }
  });

  t.test('counting goes on after reopening', async (t) => {
    const { store, reopen } = await makeStore(t);
    await store.jobs.accept(sampleJob({ quota: today }));
    const opened = await reopen();
    await Promise.all([1, 2, 3].map(() => opened.jobs.accept(sampleJob({ quota: today }))));
    t.match(await opened.jobs.quotaCounts(), [{ jobs: 4 }]);
  });

  t.test('a refused job is not counted', async (t) => {
    const { store } = await makeStore(t, () => START_MS);
    const job = sampleJob({ quota: today });
    const idempotency = sampleEntry(job);
    await store.jobs.accept(job, { idempotency });
    const other = sampleJob({ quota: today });
    await t.rejects(store.jobs.accept(other, { idempotency: { ...idempotency, jobId: other.id } }), {
      name: 'StoreError',
      code: 'key_taken',
    });
    t.match(await store.jobs.quotaCounts(), [{ jobs: 1 }]);
  });

  t.test('a failed job counts', async (t) => {
    const { store, reopen } = await makeStore(t);
    const accepted = Array.from({ length: 4 }, () => sampleJob({ quota: today }));
    await Promise.all(accepted.map((job) => store.jobs.accept(job)));
    const [first, second, third] = accepted.map(({ id }) => id) as [string, string, string];
    await store.jobs.fail(first, failure);
    t.match(await store.jobs.quotaCounts(), [{ jobs: 4 }]);
    await Promise.all([
      store.jobs.fail(second, failure),
      store.jobs.accept(sampleJob({ quota: today })),
      store.jobs.fail(third, failure),
    ]);
    for (const open of [async () => store, reopen]) {
      const opened = await open();
      t.match(await opened.jobs.quotaCounts(), [{ jobs: 5 }]);
    }
  });

  t.test('counts of past windows are swept', async (t) => {
    const { store } = await makeStore(t);
    await Promise.all([today, tomorrow].map((quota) => store.jobs.accept(sampleJob({ quota }))));
    await store.jobs.accept(sampleJob({ clientId: 'claims', quota: today }));
    t.equal(await store.jobs.sweepQuotas(today.endsAt, 10), 0);
    t.equal(await store.jobs.sweepQuotas(today.endsAt + 1, 1), 1);
    t.equal(await store.jobs.sweepQuotas(today.endsAt + 1, 10), 1);
    t.equal(await store.jobs.sweepQuotas(today.endsAt + 1, 10), 0);
    t.match(await store.jobs.quotaCounts(), [{ startsAt: tomorrow.startsAt, jobs: 1 }]);
    await store.jobs.accept(sampleJob({ quota: today }));
    t.match(
      (await store.jobs.quotaCounts()).map(({ jobs }) => jobs),
      [1, 1],
      'a swept count begins anew',
    );
  });
}
