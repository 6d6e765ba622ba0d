import type { Test } from 'tap';
import type { MakeStore } from './contract.ts';
import { START_MS, sampleEntry, sampleJob } from './samples.ts';

const HOUR_MS = 3_600_000;

/** The part of the contract that `src/store/serviceTime.ts` states. */
export async function serviceTime(t: Test, makeStore: MakeStore): Promise<void> {
  t.test('service time goes on while the store is open, and stands still otherwise', async (t) => {
    let now = START_MS;
    const { store, reopen } = await makeStore(t, () => now);
    t.equal(store.serviceTime.now(), START_MS, 'it begins at the date');
    t.equal(store.serviceTime.lastDate, undefined);
    now += HOUR_MS;
    const stamp = store.serviceTime.now();
    t.equal(stamp, START_MS + HOUR_MS);
    await store.serviceTime.keep(now);
    const opened = await reopen(() => (now += 49 * HOUR_MS));
    t.equal(opened.serviceTime.lastDate, START_MS + HOUR_MS);
    t.equal(opened.serviceTime.now(), stamp);
    t.equal(opened.serviceTime.begunAt, START_MS);
    now += 5;
    t.equal(opened.serviceTime.since(stamp), 5);
    t.equal(opened.serviceTime.since(undefined), HOUR_MS + 5);
    t.equal(opened.serviceTime.since(stamp + 1000), 0);
    t.equal(opened.serviceTime.dateOf(stamp), now - 5);
    now -= HOUR_MS;
    t.equal(opened.serviceTime.now(), stamp, 'and never back');
  });

  t.test('no entry is older than the beginning of service time, whatever its stamp', async (t) => {
    let now = START_MS;
    const { store } = await makeStore(t, () => now);
    t.equal(store.serviceTime.since(START_MS - 9000 * HOUR_MS), 0);
    now += HOUR_MS;
    t.equal(store.serviceTime.since(START_MS - 9000 * HOUR_MS), HOUR_MS);
    t.equal(store.serviceTime.before(HOUR_MS + 1), 0);
    t.equal(store.serviceTime.before(HOUR_MS), START_MS);
    const job = sampleJob();
    const old = sampleEntry(job, { acceptedAt: START_MS - 9000 * HOUR_MS });
    await store.jobs.accept(job, { idempotency: old });
    t.same(await store.jobs.idempotency(old), old, 'an entry of a clock that was behind has its 48 hours');
    now += 47 * HOUR_MS - 1;
    t.same(await store.jobs.idempotency(old), old);
    t.equal(await store.jobs.sweepIdempotency(store.serviceTime.before(48 * HOUR_MS), 10), 0);
    now += 1;
    t.equal(await store.jobs.idempotency(old), undefined);
    t.equal(await store.jobs.sweepIdempotency(store.serviceTime.before(48 * HOUR_MS), 10), 1);
  });
}
