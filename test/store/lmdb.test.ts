import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import type { Clock } from '../../src/base/clock.ts';
import { Commits } from '../../src/store/lmdb/commits.ts';
import { openDatabases } from '../../src/store/lmdb/databases.ts';
import { beginWalk } from '../../src/store/lmdb/dataFile.ts';
import { createStore, openStore } from '../../src/store/lmdb/open.ts';
import { encodeRecord } from '../../src/store/records.ts';
import { tamper } from '../support/wholeStore.ts';
import { Child } from './child.ts';
import { storeContract } from './contract.ts';
import {
  billing,
  epoch,
  identity,
  putCredentials,
  START_MS,
  sampleBatch,
  sampleContent,
  sampleCredential,
  sampleJob,
  sampleJobs,
} from './samples.ts';

let made = 0;
const makeStore = async (t: Test, clock: Clock = Date.now, options: { backlogMax?: number } = {}) => {
  made += 1;
  const path = join(t.testdir(), `store-${made}`);
  await createStore({ path, identity, epoch });
  let store = await openStore({ path, clock, monotonicMs: clock, ...options });
  t.teardown(async () => store.close());
  const reopen = async (meanwhile = () => {}) => {
    await store.serviceTime.keep(clock());
    await store.close();
    meanwhile();
    store = await openStore({ path, clock, monotonicMs: clock, ...options });
    return store;
  };
  return { store, reopen, path };
};

storeContract(t, makeStore);

t.test('a daemon takes salts of an earlier version out of the records of keys', async (t) => {
  const { store, path } = await makeStore(t);
  const replaced = sampleCredential({ serviceEnd: 7, boundTo: 'ab'.repeat(32) });
  const former = { ...replaced, successorSalt: 'c2FsdA==' };
  await putCredentials(store, [former, sampleCredential({ id: 'key_2' })]);
  await store.close();
  const daemon = await openStore({ path, onMigration: t.fail });
  t.teardown(() => daemon.close());
  t.strictSame(await daemon.credentials.get(replaced.keyHash), replaced);
  t.equal(await daemon.credentials.saltOf(replaced.keyHash), 'c2FsdA==', 'a repeat still gets its answer');
  t.equal(await daemon.credentials.sweepSalts(7, 10), 1);
});

t.test('only a complete store of the expected log and environment opens', async (t) => {
  const path = join(t.testdir(), 'state', 'store');
  const refused = (message: RegExp) => ({ name: 'OperatorError', message });

  await t.rejects(openStore({ path }), refused(/pdfseal init/), 'there is no store');
  const beyond = join(t.testdir({ file: '' }), 'file');
  await t.rejects(
    openStore({ path: beyond }),
    refused(/cannot open .*: run this as the user that owns/),
    'a store that cannot be looked at is not called missing',
  );
  mkdirSync(`${path}.new`, { recursive: true }); // what an interrupted creation leaves
  writeFileSync(join(`${path}.new`, 'data.mdb'), 'half a store');
  await createStore({ path, identity, epoch });
  t.equal(statSync(path).mode & 0o777, 0o700);
  await t.rejects(createStore({ path, identity, epoch }), refused(/exists already/));

  const store = await openStore({
    path,
    expected: { environment: 'sandbox', logOrigin: identity.logOrigin },
  });
  t.same(store.identity, { schema: 1, ...identity });
  await store.close();
  await t.rejects(
    openStore({ path, expected: { environment: 'production' } }),
    refused(/environment "sandbox"/),
  );
  await t.rejects(
    openStore({ path, expected: { logOrigin: 'other' } }),
    refused(/is for log\.origin "seal.example.com/),
  );

  await rewriteIdentity(path, { ...identity, schema: 2 });
  await t.rejects(openStore({ path }), refused(/newer pdfseald/));

  for (const content of ['', 'x', 'x'.repeat(9000)]) {
    const garbage = t.testdir({ 'data.mdb': content });
    await t.rejects(openStore({ path: garbage }), refused(/damaged/));
  }
});

t.test('a file that is cut short is refused before LMDB maps it', async (t) => {
  const { store, path } = await makeStore(t);
  const jobs = sampleJobs(200);
  for (const job of jobs) {
    await store.jobs.accept(job);
    beginWalk(join(path, 'data.mdb'))();
  }
  await store.close();
  const whole = readFileSync(join(path, 'data.mdb'));
  const folder = t.testdir();
  const cut = join(folder, 'data.mdb');
  let refused = 0;
  for (let pages = whole.length / 4096 - 1; pages >= 0; pages--) {
    writeFileSync(cut, whole.subarray(0, pages * 4096));
    const isAccepted = refused === 0 && missingPagesMatter(cut) === undefined;
    if (isAccepted) {
      // Then nothing in those pages was in use.
      const reader = await openStore({ path: folder, readOnly: true });
      let count = 0;
      for await (const _ of reader.jobs.all()) count += 1;
      t.equal(count, jobs.length, `${pages} pages`);
      await reader.close();
      continue;
    }
    refused += 1;
    const fault = pages < 2 ? /data\.mdb is damaged or not of LMDB/ : /data\.mdb is cut short: it has .* of /;
    t.throws(() => beginWalk(cut)(), { name: 'OperatorError', message: fault }, `${pages} pages`);
    t.throws(() => beginWalk(cut)(), { message: /restore the newest backup/ });
  }
  t.ok(refused > whole.length / 4096 - 10, `${refused} were refused`);
});

function missingPagesMatter(file: string): unknown {
  try {
    beginWalk(file)();
    return undefined;
  } catch (error) {
    return error;
  }
}

t.test('a file without its last pages is accepted if those pages are free', async (t) => {
  const path = t.testdir();
  const databases = await openDatabases(path, { readOnly: false });
  const { root, jobs } = databases;
  const key = (n: number) => Buffer.from(`key ${String(n).padStart(6, '0')}`);
  let short = 0;
  for (let round = 0; round < 60 && short === 0; round++) {
    // What is put and removed again in one transaction leaves pages at the end that are never written.
    root.transactionSync(() => {
      for (let n = 0; n < 40; n++) void jobs.put(key(round * 1000 + n), Buffer.alloc(200));
      for (let n = 40; n < 300; n++) void jobs.put(key(round * 1000 + n), Buffer.alloc(200));
      for (let n = 299; n >= 40; n--) void jobs.remove(key(round * 1000 + n));
    });
    beginWalk(join(path, 'data.mdb'))();
    if (missingPages(join(path, 'data.mdb')) > 0) short += 1;
  }
  await databases.close();
  t.equal(short, 1, 'there was such a file');
});

/** By how many pages a file is shorter than its newest transaction says. */
function missingPages(file: string): number {
  const bytes = readFileSync(file);
  const metas = [0, 4096].map(
    (at) => [bytes.readBigUInt64LE(at + 152), bytes.readBigUInt64LE(at + 144)] as const,
  );
  const [, lastPage = 0n] = metas.sort(([a], [b]) => Number(b - a))[0] ?? [];
  return Number(lastPage) + 1 - bytes.length / 4096;
}

async function rewriteIdentity(path: string, content: object): Promise<void> {
  const databases = await openDatabases(path, { readOnly: false });
  const value = encodeRecord(content);
  const change = { database: databases.identity, key: Buffer.from('identity'), value };
  await new Commits(databases).write({ changes: [change] });
  await databases.close();
}

t.test('service time that was never kept or is damaged restarts from the log’s newest time', async (t) => {
  const { store, path } = await makeStore(t, () => START_MS);
  const [job] = sampleJobs(1);
  if (job === undefined) throw new Error('no job');
  await store.jobs.accept(job);
  await store.log.commit(sampleBatch(0, [job]));
  const { sealedAt = 0 } = (await store.log.head()) ?? {};
  await store.serviceTime.keep(START_MS);
  await store.close();
  for (const content of [undefined, Buffer.alloc(0), Buffer.from('0123456789')]) {
    await tamper(path, ({ identity }) => {
      const key = Buffer.from('service_time');
      return content === undefined ? identity.remove(key) : identity.put(key, content);
    });
    const behind = await openStore({ path, clock: () => START_MS - 366 * 86_400_000 });
    t.equal(behind.serviceTime.begunAt, sealedAt, 'begins no earlier than the log ends');
    await behind.close();
    const opened = await openStore({ path, clock: () => sealedAt + 5 });
    t.equal(opened.serviceTime.begunAt, sealedAt + 5);
    await opened.close();
  }
});

t.test('a store that is opened for reading refuses writes', async (t) => {
  const { store, path } = await makeStore(t);
  const job = sampleJob();
  await store.jobs.accept(job);
  await store.close();
  const reader = await openStore({ path, readOnly: true });
  t.teardown(() => reader.close());
  t.same(await reader.jobs.get(job.id), { job });
  await t.rejects(reader.jobs.accept(sampleJob()));
});

t.test('two processes with one store see each other’s changes', async (t) => {
  const { store, path } = await makeStore(t);
  const operator = new Child('operator.ts', path);
  t.teardown(() => operator.kill());
  await operator.line('ready');

  for (let round = 0; round < 20; round += 1) {
    const { keyHash } = sampleCredential();
    t.equal(await store.credentials.get(keyHash), undefined); // the snapshot this takes must not be used again
    operator.say(`put ${keyHash}`);
    await operator.line(`did put ${keyHash}`);
    t.equal((await store.credentials.get(keyHash))?.keyHash, keyHash, 'seen by the very next read');
  }

  // Each put has its audit record. The file outgrows the maps the other processes opened it with, many times over.
  const reader = new Child('operator.ts', path, 'read');
  t.teardown(() => reader.kill());
  await reader.line('ready');
  for (const round of [1, 2, 3]) {
    await Promise.all(sampleJobs(3000).map((job) => store.jobs.accept(job)));
    for (const other of [operator, reader]) {
      other.say(`count ${round}`);
      t.equal(await other.line(`counted ${round}`), `counted ${round} ${20 + round * 3000} 20`);
    }
  }
});

t.test('a busy process does not keep another from writing, and neither loses anything', async (t) => {
  const { store, path } = await makeStore(t);
  const operator = new Child('operator.ts', path);
  t.teardown(() => operator.kill());
  await operator.line('ready');
  const hashes = Array.from({ length: 30 }, () => sampleCredential().keyHash);
  for (const keyHash of hashes) operator.say(`put ${keyHash}`);
  let isDone = false;
  void operator.line(`did put ${hashes.at(-1)}`).finally(() => {
    isDone = true;
  });
  let accepted = 0;
  for (; !isDone; accepted += 20) await Promise.all(sampleJobs(20).map((job) => store.jobs.accept(job)));
  t.same(new Set((await store.credentials.all()).map(({ keyHash }) => keyHash)), new Set(hashes));
  t.equal(await store.jobs.waitingCount(), accepted + hashes.length, 'each put has its audit record');
});

t.test('digests and references are found in every generation of the index', async (t) => {
  const { store, reopen } = await makeStore(t);
  const seen = { visibility: 'partner', customerReference: 'R' } as const;
  const jobs = sampleJobs(24_000).map((job) => ({ ...job, ...seen })); // six entries each: two generations
  const [first] = jobs;
  const last = {
    ...sampleJob({ acceptedAt: jobs.length }),
    ...seen,
    content: first?.content ?? sampleContent(),
  };
  await Promise.all(jobs.slice(0, 12_000).map((job) => store.jobs.accept(job)));
  const reopened = await reopen();
  await Promise.all([...jobs.slice(12_000), last].map((job) => reopened.jobs.accept(job)));

  const byDigest = await reopened.jobs.list({
    viewer: billing,
    limit: 10,
    documentSha256: last.content.document.sha256,
  });
  t.same(
    byDigest.records.map(({ job }) => job.id),
    [first?.id, last.id].sort().reverse(),
  );
  const newest = await reopened.jobs.list({ viewer: billing, limit: 300, customerReference: 'R' });
  t.same(
    newest.records.map(({ job }) => job.id),
    jobs
      .slice(-300)
      .map(({ id }) => id)
      .reverse(),
  );
});
