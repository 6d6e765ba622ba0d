import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import t from 'tap';
import { openCopies, recordOf } from '../../src/copy/copies.ts';
import { Timekeeping } from '../../src/seal/timekeeping.ts';
import { actOfProcess } from '../../src/store/acts.ts';
import { DiskSpace } from '../../src/store/diskSpace.ts';
import { expiryKey, idempotencyKey } from '../../src/store/lmdb/keyLayout.ts';
import { createStore, openStore } from '../../src/store/lmdb/open.ts';
import { encodeRecord } from '../../src/store/records.ts';
import { startSweeping, sweep } from '../../src/watch/sweep.ts';
import {
  collected,
  epoch,
  identity,
  START_MS,
  sampleBatch,
  sampleContent,
  sampleCredential,
  sampleEntry,
  sampleJob,
} from '../store/samples.ts';
import { timeOf } from '../support/clocks.ts';
import { until } from '../support/until.ts';
import { tamper } from '../support/wholeStore.ts';

const HOUR_MS = 3_600_000;
const digests = sampleContent().document;

t.test('expired entries are removed on time, even if they expired during a stop', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'pdfseal-sweep-'));
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  let now = START_MS;
  const clock = () => now;
  const [storePath, path] = [join(dir, 'store'), join(dir, 'documents')];
  await createStore({ path: storePath, identity, epoch });
  const store = await openStore({ path: storePath, clock, monotonicMs: clock });
  t.teardown(() => store.close());
  const copies = await openCopies({ path, freeBytesMin: 0, workers: 1 }, []);
  t.teardown(() => copies.close());
  const jobs = [0, 1, 2].map((n) =>
    sampleJob({
      acceptedAt: START_MS + n * HOUR_MS,
      since: START_MS + n * HOUR_MS,
      content: { ...sampleContent(), sealedDocument: digests },
    }),
  );
  for (const job of jobs) {
    const spool = copies.spool();
    void spool.update(Buffer.from('a document'));
    await store.jobs.accept(job, { idempotency: sampleEntry(job), copy: recordOf(await spool.end()) });
  }
  const replaced = sampleCredential();
  const salt = { keyHash: replaced.keyHash, salt: 'c2FsdA==', endsAt: START_MS + 24 * HOUR_MS + 1 };
  const act = actOfProcess('command', 'key.rotate', { key: replaced.id });
  await store.credentials.change(() => ({ credentials: [replaced], salts: [salt], act }));
  const kept = async () => (await collected(store.copies.all())).map(({ jobId }) => jobId);
  const ids = jobs.map(({ id }) => id);
  const onFatal = (error: unknown) => t.fail(String(error));
  const logger = pino({ level: 'silent' });
  const options = { store, copies, documentRetentionMs: 24 * HOUR_MS, time: timeOf(store, clock), logger };

  let looks = 0;
  const pages = { read: () => ({ freeBytes: looks++ }) };
  await sweep({ ...options, store: { ...store, pages } });
  t.equal(looks, 1, 'killed readers of the store are forgotten');

  now = START_MS + 24 * HOUR_MS;
  await sweep(options);
  t.same(await kept(), ids, 'the last millisecond is still theirs');
  t.equal(copies.usage.documents, 3);
  t.ok(await store.credentials.saltOf(replaced.keyHash));

  now += 1;
  await sweep(options);
  t.equal(await store.credentials.saltOf(replaced.keyHash), undefined, 'the salt of a key that has ended');
  t.same(await kept(), ids.slice(1));
  t.equal(copies.usage.documents, 2);
  t.ok(await store.jobs.get(ids[0] ?? ''), 'the job stays');

  now += HOUR_MS;
  const stop = startSweeping({ ...options, onFatal, intervalMs: 20 });
  await until('the second is swept', async () => (await kept()).length === 1);
  now += 48 * HOUR_MS;
  await until('the last is swept', async () => (await kept()).length === 0);
  await until('their file is gone', () => readdirSync(path).length === 0);
  await stop();
  t.same(await collected(store.jobs.references()), [], 'idempotency entries, too');

  const unremovable = { remove: () => Promise.reject(new Error('no')) };
  const last = sampleJob({ content: { ...sampleContent(), sealedDocument: digests } });
  await store.jobs.accept(last, { copy: { file: 'a-file', key: 'a2V5' } });
  await sweep({ ...options, copies: unremovable });
  t.same(await kept(), [], 'a file that cannot be removed is noise, and stops nothing');
});

const EXPIRED = 50_000;
/** Of one step: an entry and its time, for each of 500 keys. */
const STEP_CHANGES_MAX = 1000;

/** Hears how many changes each transaction has. */
class Heard extends DiskSpace {
  readonly transactions: number[] = [];

  override forCommit(changes: number): undefined {
    this.transactions.push(changes);
  }
}

t.test(
  '50,000 expired keys go in small transactions, and no seal waits for more than one of them',
  async (t) => {
    const dir = mkdtempSync(join(tmpdir(), 'pdfseal-sweep-'));
    t.teardown(() => rmSync(dir, { recursive: true, force: true }));
    const path = join(dir, 'store');
    let now = START_MS;
    const clock = () => now;
    await createStore({ path, identity, epoch });
    await tamper(path, ({ root, idempotency, expiry }) =>
      root.transaction(() => {
        const job = sampleJob();
        for (let n = 0; n < EXPIRED; n += 1) {
          const entry = sampleEntry(job, { key: `key-${n}` });
          idempotency.put(idempotencyKey(entry), encodeRecord(entry));
          expiry.put(expiryKey(entry.acceptedAt, idempotencyKey(entry)), Buffer.alloc(0));
        }
      }),
    );
    const logger = pino({ level: 'silent' });
    const diskSpace = new Heard({ path: dir, freeBytesMin: 0, logger });
    const store = await openStore({ path, clock, monotonicMs: clock, diskSpace });
    now += 49 * HOUR_MS;
    t.teardown(() => store.close());
    const { transactions } = diskSpace;

    let isSwept = false;
    const options = {
      store,
      copies: { remove: async () => {} },
      documentRetentionMs: HOUR_MS,
      time: timeOf(store, clock),
      logger,
    };
    const sweeping = sweep(options).then(() => {
      isSwept = true;
    });
    let [seals, longest] = [0, 0];
    const counted = async (write: () => Promise<unknown>) => {
      const before = transactions.length;
      await write();
      longest = Math.max(longest, transactions.length - before);
    };
    for (; !isSwept; seals += 1) {
      const job = sampleJob();
      await counted(() => store.jobs.accept(job, { idempotency: sampleEntry(job, { acceptedAt: clock() }) }));
      await counted(() => store.log.commit(sampleBatch(seals, [job])));
    }
    await sweeping;
    t.equal((await collected(store.jobs.references())).length, seals, 'their keys stay');
    t.ok(seals > 100, `${seals} seals beside it`);
    t.ok(longest <= 3, `a write waited for ${longest} transactions, its own among them`);
    // What is written together with a step is one accept, or one batch of one job.
    const most = Math.max(...transactions);
    t.ok(most <= STEP_CHANGES_MAX + 10, `${most} changes in one transaction`);
    t.ok(transactions.length > EXPIRED / 500, `${transactions.length} transactions`);
  },
);

t.test('copies expire by service time, or by dates that other clocks confirm', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'pdfseal-sweep-'));
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  const path = join(dir, 'store');
  await createStore({ path, identity, epoch });
  let [elapsed, date] = [0, START_MS];
  let isVouched = true;
  let store = await openStore({ path, clock: () => date, monotonicMs: () => elapsed });
  t.teardown(() => store.close());
  const vouched = () => (isVouched ? date : undefined);
  const timeOfNow = () => new Timekeeping(store.serviceTime, { date: () => date, vouched }, () => date);
  const accept = async () => {
    const job = sampleJob({
      ...timeOfNow().stamp(),
      content: { ...sampleContent(), sealedDocument: digests },
    });
    await store.jobs.accept(job, { copy: { file: job.id, key: 'a2V5' } });
    return job.id;
  };
  const kept = async () => {
    const copies = { remove: async () => {} };
    const logger = pino({ level: 'silent' });
    await sweep({ store, copies, documentRetentionMs: 24 * HOUR_MS, time: timeOfNow(), logger });
    return (await collected(store.copies.all())).map(({ jobId }) => jobId);
  };
  const restart = async (offMs: number) => {
    await store.serviceTime.keep(date);
    await store.close();
    date += offMs;
    store = await openStore({ path, clock: () => date, monotonicMs: () => elapsed });
  };

  const dated = await accept();
  isVouched = false;
  date -= 366 * 24 * HOUR_MS;
  const undated = await accept();
  date += 366 * 24 * HOUR_MS + 26 * HOUR_MS;
  t.same((await kept()).sort(), [dated, undated].sort(), 'a clock that nobody vouches for deletes nothing');
  isVouched = true;
  date -= 26 * HOUR_MS;
  t.same((await kept()).length, 2, 'nor does one that is corrected');
  await restart(25 * HOUR_MS);
  t.same(await kept(), [undated], 'what was off for a day for certain is a day older');
  elapsed += 24 * HOUR_MS + 1;
  t.same(await kept(), [], 'and a day at work is one whatever the dates say');
});
