/** What holds the pages of a store, and that the daemon's own reads do not. */
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { Commits } from '../../src/store/lmdb/commits.ts';
import { openDatabases } from '../../src/store/lmdb/databases.ts';
import { createStore, openStore } from '../../src/store/lmdb/open.ts';
import { PageUse } from '../../src/store/lmdb/pageUse.ts';
import { epoch, identity, sampleEndpoint, sampleEntry, sampleJobs } from './samples.ts';

t.test('a reader of an old state keeps pages in use, and is reported with its age', async (t) => {
  const path = t.testdir();
  const databases = await openDatabases(path, { readOnly: false });
  t.teardown(() => databases.close());
  const commits = new Commits(databases);
  let now = 1_000_000;
  const pages = new PageUse(databases, () => now);
  const { root, copies: database } = databases;
  const write = (value: number) =>
    commits.write({ changes: [{ database, key: Buffer.of(1), value: Buffer.alloc(100_000, value) }] });
  const fileBytes = () => statSync(join(path, 'data.mdb')).size;

  await write(0);
  await write(1);
  const { freeBytes } = pages.read();
  t.ok(freeBytes >= 100_000 && freeBytes < 200_000, `${freeBytes} bytes are free after one change`);
  for (let n = 0; n < 50; n++) await write(n);
  t.ok(fileBytes() < 1_000_000, 'they are used again');

  const reading = root.useReadTransaction();
  const copies = root.openDB<Buffer, Uint8Array>({
    name: 'copies',
    keyEncoding: 'binary',
    encoding: 'binary',
  });
  copies.get(Buffer.of(1), { transaction: reading });
  now += 60_000;
  t.notOk(pages.read().oldestReader, 'it reads what is newest, however long');
  await write(2);
  t.match(pages.read().oldestReader, { pid: process.pid, ageMs: 0 });
  for (let n = 0; n < 50; n++) await write(n);
  now += 60_000;
  t.match(pages.read().oldestReader, { pid: process.pid, ageMs: 60_000 });
  t.ok(fileBytes() > 4_000_000, 'nothing is used again meanwhile');
  reading.done();
  await sleep(1);
  t.notOk(pages.read().oldestReader);
  t.ok(pages.read().freeBytes > 4_000_000);
});

t.test('no read of the daemon lasts longer than a turn of the event loop', async (t) => {
  const path = join(t.testdir(), 'store');
  await createStore({ path, identity, epoch });
  const store = await openStore({ path });
  t.teardown(() => store.close());
  await Promise.all(
    sampleJobs(1200).map((job, n) =>
      store.jobs.accept(job, { idempotency: sampleEntry(job, { key: `key-number-${n}` }) }),
    ),
  );
  const scans: Record<string, () => AsyncIterable<unknown>> = {
    jobs: () => store.jobs.all(),
    references: () => store.jobs.references(),
  };
  for (const [name, scan] of Object.entries(scans)) {
    let seen = 0;
    for await (const _ of scan()) {
      seen += 1;
      if (seen % 100 !== 50) continue;
      await store.webhooks.endpoints.add(sampleEndpoint(), 100, null);
      await sleep(1);
      t.notOk(store.pages?.read().oldestReader, `${name}, after ${seen}`);
    }
    t.equal(seen, 1200, name);
  }
});
