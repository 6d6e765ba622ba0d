import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import t from 'tap';
import { openCopies } from '../src/copy/copies.ts';
import { createStore, openStore } from '../src/store/lmdb.ts';
import { startSweeping, sweep } from '../src/sweep.ts';
import {
  collected,
  epoch,
  identity,
  START_MS,
  sampleContent,
  sampleEntry,
  sampleJob,
} from './store/samples.ts';
import { until } from './support/until.ts';

const HOUR_MS = 3_600_000;
const digests = sampleContent().document;

t.test('what has expired goes on time, also what expired while nobody ran', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'pdfseal-sweep-'));
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  let now = START_MS;
  const clock = () => now;
  const [storePath, path] = [join(dir, 'store'), join(dir, 'documents')];
  await createStore({ path: storePath, identity, epoch });
  const store = await openStore({ path: storePath, clock });
  t.teardown(() => store.close());
  const copies = await openCopies({ path, freeBytesMin: 0, workers: 1 }, new Set());
  t.teardown(() => copies.close());
  const jobs = [0, 1, 2].map((n) =>
    sampleJob({
      acceptedAt: START_MS + n * HOUR_MS,
      content: { ...sampleContent(), sealedDocument: digests },
    }),
  );
  for (const job of jobs) {
    const spool = copies.spool();
    spool.update(Buffer.from('a document'));
    const { name, key } = await spool.end();
    await store.accept(job, {
      idempotency: sampleEntry(job),
      copy: { file: name, key: key.toString('base64') },
    });
  }
  const kept = async () => (await collected(store.copies())).map(({ jobId }) => jobId);
  const ids = jobs.map(({ id }) => id);
  const onFatal = (error: unknown) => t.fail(String(error));
  const logger = pino({ level: 'silent' });
  const options = { store, copies, documentRetentionMs: 24 * HOUR_MS, clock, logger };

  now = START_MS + 24 * HOUR_MS;
  await sweep(options);
  t.same(await kept(), ids, 'the last millisecond is still theirs');
  t.equal(readdirSync(path).length, 3);

  now += 1;
  await sweep(options);
  t.same(await kept(), ids.slice(1));
  t.equal(readdirSync(path).length, 2);
  t.ok(await store.job(ids[0] ?? ''), 'the job stays');

  now += HOUR_MS;
  const stop = startSweeping({ ...options, onFatal, intervalMs: 20 });
  await until('the second is swept', async () => (await kept()).length === 1);
  now += 48 * HOUR_MS;
  await until('the last is swept', async () => (await kept()).length === 0);
  await until('its file is gone', () => readdirSync(path).length === 0);
  await stop();
  t.same(await collected(store.references()), [], 'idempotency entries, too');

  const unremovable = { remove: () => Promise.reject(new Error('no')) };
  const last = sampleJob({ content: { ...sampleContent(), sealedDocument: digests } });
  await store.accept(last, { copy: { file: 'a-file', key: 'a2V5' } });
  await sweep({ ...options, copies: unremovable });
  t.same(await kept(), [], 'a file that cannot be removed is noise, and stops nothing');
});
