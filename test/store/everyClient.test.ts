/** The list of all clients, held against a filter over all jobs. */
import t, { type Test } from 'tap';
import { listEveryClient } from '../../src/store/everyClient.ts';
import { createStore, openStore } from '../../src/store/lmdb/open.ts';
import type { JobQuery, Store } from '../../src/store/store.ts';
import { fc, tries } from '../support/seed.ts';
import { epoch, identity, putCredentials, START_MS, sampleCredential, sampleJob } from './samples.ts';

async function openWith(t: Test, clients: readonly string[]): Promise<Store> {
  const path = `${t.testdir({})}/store`;
  await createStore({ path, identity, epoch });
  const store = await openStore({ path });
  t.teardown(() => store.close());
  await putCredentials(
    store,
    clients.map((clientId) => sampleCredential({ clientId, id: `key_${clientId}` })),
  );
  return store;
}

t.test('a list of every client equals a filter over all jobs, newest first', async (t) => {
  const names = ['billing', 'claims', 'zeta'];
  const store = await openWith(t, names);
  const anyJob = fc.record({
    clientId: fc.constantFrom(...names),
    minute: fc.integer({ min: 0, max: 300 }),
    customerReference: fc.constantFrom('R', 'S'),
  });
  const drawn = fc.sample(anyJob, 60);
  const jobs = drawn.map(({ minute, ...job }) =>
    sampleJob({ ...job, acceptedAt: START_MS + minute * 60_000 }),
  );
  await Promise.all(jobs.map((job) => store.jobs.accept(job)));
  const anyQuery = fc.record(
    { clientId: fc.constantFrom(...names), customerReference: fc.constantFrom('R', 'S') },
    { requiredKeys: [] },
  );
  await fc.assert(
    fc.asyncProperty(
      anyQuery,
      fc.integer({ min: 1, max: 70 }),
      fc.boolean(),
      async (query, limit, isEven) => {
        const fits = ({ acceptedAt }: { acceptedAt: number }) => !isEven || acceptedAt % 120_000 === 0;
        const found: string[] = [];
        for (let before: string | undefined; ; ) {
          const page = await listEveryClient(store, { ...query, limit, ...(before && { before }) }, fits);
          t.ok(page.records.length <= limit);
          found.push(...page.records.map(({ job }) => job.id));
          if (page.next === undefined) break;
          before = page.next;
        }
        const wanted = jobs.filter(
          ({ clientId, customerReference, acceptedAt }) =>
            fits({ acceptedAt }) &&
            (query.clientId ?? clientId) === clientId &&
            (query.customerReference ?? customerReference) === customerReference,
        );
        t.strictSame(
          found,
          wanted
            .map(({ id }) => id)
            .sort()
            .reverse(),
        );
      },
    ),
    { numRuns: tries(50) },
  );
});

t.test('a page asks each of many clients for few jobs, and still makes progress', async (t) => {
  const names = Array.from({ length: 300 }, (_, n) => `client-${n}`);
  const store = await openWith(t, names);
  const jobs = Array.from({ length: 1500 }, (_, n) =>
    sampleJob({ clientId: names[n % 7 === 0 ? 0 : n % 300] ?? '', acceptedAt: START_MS + n }),
  );
  await Promise.all(jobs.map((job) => store.jobs.accept(job)));
  let read = 0;
  const counting = {
    credentials: store.credentials,
    jobs: Object.assign(Object.create(store.jobs), {
      async list(query: JobQuery) {
        const page = await store.jobs.list(query);
        read += Math.max(1, page.records.length);
        return page;
      },
    }),
  };
  const found: string[] = [];
  for (let before: string | undefined; ; ) {
    read = 0;
    const page = await listEveryClient(counting, { limit: 50, ...(before && { before }) });
    t.ok(read <= 1000 + 3, `${read} records`);
    found.push(...page.records.map(({ job }) => job.id));
    if (page.next === undefined) break;
    t.ok(before === undefined || page.next < before);
    before = page.next;
  }
  t.strictSame(found, jobs.map(({ id }) => id).reverse());
});

for (const busy of [1, 50])
  t.test(
    `an empty page reads a thousand jobs in small steps, even with ${busy} of 50 clients busy`,
    async (t) => {
      const names = Array.from({ length: 50 }, (_, n) => `client-${n}`);
      const store = await openWith(t, names);
      const jobs = Array.from({ length: 3000 }, (_, n) =>
        sampleJob({ clientId: names[n % busy] ?? '', acceptedAt: START_MS + n }),
      );
      await Promise.all(jobs.map((job) => store.jobs.accept(job)));
      const read = { all: 0, mostInTurn: 0 };
      let inTurn = 0;
      const list = async (query: JobQuery) => {
        const page = await store.jobs.list(query);
        read.all += page.records.length;
        inTurn += page.records.length;
        read.mostInTurn = Math.max(read.mostInTurn, inTurn);
        return page;
      };
      const counting = {
        credentials: store.credentials,
        jobs: Object.assign(Object.create(store.jobs), { list }),
      };
      let isOver = false;
      const turn = () => {
        inTurn = 0;
        if (!isOver) setImmediate(turn);
      };
      turn();
      const looked: number[] = [];
      const page = await listEveryClient(counting, { limit: 25 }, ({ acceptedAt }) => {
        looked.push(acceptedAt);
        return false;
      });
      isOver = true;
      t.strictSame(page.records, []);
      t.ok(read.all <= 1000 + 25, `${read.all} records`);
      t.ok(read.mostInTurn <= 100, `${read.mostInTurn} of them in one turn of the event loop`);
      t.ok(looked.length > 900, `${looked.length} jobs looked at`);
      t.equal(looked.at(-1), START_MS + 3000 - looked.length, 'without a gap');
    },
  );
