/** What a page of Find costs in a long log. */
import t from 'tap';
import type { JobQuery, Store } from '../../src/store/store.ts';
import { SEALED_AT } from '../support/wholeStore.ts';
import { askFind } from './askFind.ts';
import { jobOf, openSealedStore } from './sealedStore.ts';
import { openTestConsole } from './testConsole.ts';

t.test('the first page reads no more of 100,000 jobs than of a hundred', async (t) => {
  const { store, evidence } = await openSealedStore(t, ['one', 'two', 'three']);
  for (let n = 0; n < 100_000; n += 5000) {
    const some = Array.from({ length: 5000 }, (_, more) => {
      const clientId = ['one', 'two', 'three'][more % 3] ?? '';
      return jobOf(Buffer.from(`${n + more}`), {
        clientId,
        purpose: 'invoices',
        acceptedAt: SEALED_AT + n + more,
      });
    });
    await Promise.all(some.map((job) => store.jobs.accept(job)));
  }
  const counts = { lists: 0, records: 0, gets: 0 };
  const jobs = {
    async list(query: JobQuery) {
      const page = await store.jobs.list(query);
      counts.lists += 1;
      counts.records += page.records.length;
      return page;
    },
    get(id: string) {
      counts.gets += 1;
      return store.jobs.get(id);
    },
  };
  const counting: Store = { ...store, jobs: Object.assign(Object.create(store.jobs), jobs) };
  const test = await openTestConsole(t, { store: counting, evidence });
  t.equal((await askFind(test, {})).jobs.length, 25);
  t.strictSame(counts, { lists: 3, records: 75, gets: 0 });
  Object.assign(counts, { lists: 0, records: 0, gets: 0 });
  const rare = await askFind(test, { purpose: 'rare' });
  t.match(rare, { jobs: [], text: /Searched back to .*Search further back/s });
  t.ok(rare.before, 'it says where to go on');
  t.ok(counts.records <= 1000 + 25, `${counts.records} records where nothing is found`);
  t.ok(counts.records > 900, 'and not many fewer, or nobody would get anywhere');
});
