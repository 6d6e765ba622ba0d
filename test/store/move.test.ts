/** A log moves from one engine to the other, and back, byte for byte. */
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { actOfProcess } from '../../src/store/acts.ts';
import { createStoreAt, openContents, openStoreAt, type StoreLocation } from '../../src/store/engines.ts';
import type { Store } from '../../src/store/store.ts';
import {
  compareContents,
  copyContents,
  SECTIONS,
  type StoreContents,
} from '../../src/store/storeContents.ts';
import { startPostgres } from '../support/postgres.ts';
import { Child } from './child.ts';
import {
  billing,
  collected,
  epoch,
  identity,
  putCredentials,
  START_MS,
  sampleBatch,
  sampleCredential,
  sampleEndpoint,
  sampleEntry,
  sampleJob,
  sampleJobs,
  sampleUrlJob,
} from './samples.ts';

const postgres = await startPostgres(t);
const HOUR_MS = 3_600_000;

let made = 0;
const embedded = (t: Test): StoreLocation => {
  made += 1;
  return { engine: 'lmdb', path: join(t.testdir(), `store-${made}`) };
};
const inDatabase = async (): Promise<StoreLocation> => ({
  engine: 'postgresql',
  urls: [postgres.url(await postgres.createDatabase())],
});

/** Something of everything that a store keeps. */
async function fill(store: Store): Promise<void> {
  const { jobs, log, webhooks, credentials, epochs, trail, renewals, witnessing, serviceTime } = store;
  const act = actOfProcess('command', 'key.issue', { key: 'key_1' });
  const [told, gone, full] = [sampleEndpoint(), sampleEndpoint(), sampleEndpoint({ clientId: 'claims' })];
  for (const endpoint of [told, gone, full]) await webhooks.endpoints.add(endpoint, 9, act);
  const quota = { name: 'default', startsAt: START_MS - 5, endsAt: Date.now() + HOUR_MS };
  const strange = { customerReference: 'R\0\ud83d', purpose: '\ud83d' };
  const own = sampleJobs(700).map((job, n) => ({
    ...job,
    ...(n % 2 === 0 ? { quota, visibility: 'partner' as const } : strange),
  }));
  const others = Array.from({ length: 40 }, () => sampleJob({ clientId: 'claims', acceptedAt: Date.now() }));
  await Promise.all(own.map((job, n) => jobs.accept(job, n < 600 ? { idempotency: sampleEntry(job) } : {})));
  await Promise.all(others.map((job) => jobs.accept(job)));
  const url = sampleUrlJob({ acceptedAt: START_MS + 5000 });
  const fetched = sampleUrlJob({ acceptedAt: START_MS + 5001 });
  for (const job of [url, fetched]) await jobs.accept(job, { sourceUrl: 'https://a.example/\ud800' });
  await jobs.receive(fetched.id, sampleJob().content);
  const digests = sampleJob().content.document;
  const copied = sampleJob({
    acceptedAt: START_MS + 5002,
    content: { ...sampleJob().content, sealedDocument: digests },
  });
  await jobs.accept(copied, { copy: { file: 'a-file', key: 'a2V5' } });
  await jobs.fail(own[0]?.id ?? '', { code: 'internal_error', message: 'x\0', failedAt: START_MS });
  await log.commit(sampleBatch(0, own.slice(1, 300)));
  await log.commit(sampleBatch(299, [...own.slice(300, 500), ...others]));
  const failure = { at: START_MS, reason: 'http_500' };
  const [first, second] = await webhooks.outbox.pending(told.id, { limit: 2 });
  if (first) await webhooks.outbox.settle(first, { kind: 'delivered' });
  if (second) await webhooks.outbox.settle(second, { kind: 'dead', failure });
  await webhooks.endpoints.remove(gone.id, act);
  await credentials.change(() => ({
    credentials: [sampleCredential(), sampleCredential({ id: 'key_2' })],
    act,
  }));
  const replaced = sampleCredential({ id: 'key_3', replacedBy: 'key_2' });
  const salts = [{ keyHash: replaced.keyHash, salt: 'c2FsdA==', endsAt: START_MS + 7 }];
  await credentials.change(() => ({ credentials: [replaced], salts, act }));
  await trail.append(act);
  await epochs.change([epoch, { ...epoch, from: START_MS * 2 }], 0, act);
  await witnessing.put({ witnesses: { 'a+00000001+BA==': { treeSize: 7 } } });
  const run = { number: 1, digest: 'sha512', from: 0, to: 299, path: [] } as const;
  const row = [{ first: 0, root: 'AA==' }];
  await renewals.keepDraft({ ...run, path: [], at: START_MS }, undefined);
  await renewals.addRow({ ...run, path: [] }, 0, row);
  await renewals.commit(
    { ...run, path: [], rows: row, tokens: [{ authority: 'a', token: 't', certificates: [] }] },
    act,
  );
  const draft = { ...run, number: 2, path: [0], from: 299, to: 539, at: START_MS };
  await renewals.keepDraft(draft, undefined);
  await renewals.addRow(draft, 0, row);
  await renewals.keepSurvey({ from: 0, to: 5, groups: [] });
  const waiting = [...own.slice(500, 502)];
  const { leaves, tiles: _, ...announced } = sampleBatch(539, waiting);
  await log.announce({ ...announced, epochsRevision: 1, jobIds: leaves.map(({ jobId }) => jobId) });
  await serviceTime.keep(START_MS);
}

/** What the contract shows of a store. */
async function shown(store: Store): Promise<unknown> {
  const { jobs, log, webhooks, credentials, epochs, trail, renewals, witnessing, serviceTime } = store;
  const endpoints = await webhooks.endpoints.all();
  const all = { limit: 10_000 };
  const ids = endpoints.map(({ id }) => id);
  const query = { viewer: billing, limit: 500 };
  return {
    jobs: await collected(jobs.all()),
    waiting: [await jobs.waitingCount(), await jobs.waiting(10_000)],
    references: (await collected(jobs.references())).map(({ kind, jobId }) => `${kind} ${jobId}`).sort(),
    listed: [await jobs.list(query), await jobs.list({ ...query, customerReference: 'R\0\ud83d' })],
    quotas: await jobs.quotaCounts(),
    copies: await collected(store.copies.all()),
    log: [
      await log.head(),
      await log.announced(),
      (await log.leaves(0, 10_000)).length,
      await log.batchAt(299),
    ],
    tile: Buffer.from((await log.tile(0, 0)) ?? []).toString('hex'),
    epochs: await epochs.newest(),
    credentials: await credentials.all(),
    salts: await Promise.all((await credentials.all()).map(({ keyHash }) => credentials.saltOf(keyHash))),
    endpoints: [endpoints, await webhooks.endpoints.revision()],
    outbox: await Promise.all(ids.map((id) => webhooks.outbox.pending(id, all))),
    letters: await Promise.all(ids.map((id) => webhooks.outbox.deadLetters(id, all))),
    tallies: await Promise.all(ids.map((id) => webhooks.outbox.tally(id))),
    trail: await trail.entries(0, 1000),
    witnessing: await witnessing.get(),
    renewals: [
      await renewals.runs(),
      await renewals.draft(),
      await renewals.survey(),
      await renewals.row(2, 0),
    ],
    time: [serviceTime.begunAt, serviceTime.lastDate],
  };
}

async function contentsOf<T>(
  from: StoreLocation,
  to: StoreLocation,
  work: (from: StoreContents, to: StoreContents) => Promise<T>,
): Promise<T> {
  const stores = [await openContents(from), await openContents(to)] as const;
  try {
    return await work(...stores);
  } finally {
    for (const store of stores) await store.close();
  }
}

async function look<T>(location: StoreLocation, work: (store: Store) => Promise<T>): Promise<T> {
  const store = await openStoreAt(location, { backlogMax: 500 });
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

const flaws = async ({ indexes }: Store) =>
  (await collected(indexes.check())).filter(({ index }) => index !== 'tiles');

t.test('a log moves into a database and back', async (t) => {
  const places = [embedded(t), await inDatabase(), embedded(t), await inDatabase()];
  const [first] = places as [StoreLocation];
  for (const place of places) await createStoreAt(place, { identity, epoch });
  await look(first, fill);
  const before = await look(first, shown);
  for (const [n, place] of places.entries()) {
    const from = places[n - 1];
    if (from === undefined) continue;
    const copied = new Set<string>();
    await contentsOf(from, place, async (from, to) => {
      await copyContents(from, to, (section, entries) => void (entries > 0 && copied.add(section)));
      await compareContents(from, to, () => {});
    });
    t.strictSame([...copied].sort(), SECTIONS.toSorted());
    t.strictSame(await look(place, shown), before, `${n}`);
    t.strictSame(await look(place, flaws), []);
  }
});

t.test('changes after the copy are copied again', async (t) => {
  const places = [embedded(t), await inDatabase(), embedded(t)] as const;
  for (const place of places) await createStoreAt(place, { identity, epoch });
  await look(places[0], fill);
  for (const [from, to] of [
    [places[0], places[1]],
    [places[1], places[2]],
  ] as const) {
    await contentsOf(from, to, (from, to) => copyContents(from, to, () => {}));
    await look(from, async (store) => {
      const [credential] = await store.credentials.all();
      if (credential) await putCredentials(store, [{ ...credential, revokedAt: 5 }]);
      const [job] = await store.jobs.waiting(1);
      await store.jobs.fail(job?.id ?? '', { code: 'internal_error', message: 'late', failedAt: START_MS });
      await store.jobs.accept(sampleJob({ acceptedAt: START_MS - 5 }));
    });
    await contentsOf(from, to, async (from, to) => {
      await copyContents(from, to, () => {});
      await compareContents(from, to, () => {});
    });
    t.strictSame(await look(to, shown), await look(from, shown));
    t.strictSame(await look(to, flaws), []);
  }
});

t.test('a salt in the record of a key, as earlier versions kept it, does not move there', async (t) => {
  const places = [embedded(t), await inDatabase()] as const;
  for (const place of places) await createStoreAt(place, { identity, epoch });
  const replaced = sampleCredential({ serviceEnd: START_MS });
  const former = { ...replaced, successorSalt: 'c2FsdA==' };
  await look(places[0], (store) => putCredentials(store, [former]));
  await contentsOf(...places, async (from, to) => {
    await copyContents(from, to, () => {});
    await compareContents(from, to, () => {});
  });
  await look(places[1], async ({ credentials }) => {
    t.strictSame(await credentials.all(), [replaced]);
    t.equal(await credentials.saltOf(replaced.keyHash), 'c2FsdA==');
    t.equal(await credentials.sweepSalts(START_MS, 10), 1);
  });
});

t.test('a process that has the store open cannot write to it once the log has moved', async (t) => {
  const left = { environment: 'left' };
  const database = await inDatabase();
  const folder = embedded(t);
  for (const place of [database, folder]) await createStoreAt(place, { identity, epoch });

  const late = await openStoreAt(database, {});
  t.teardown(() => late.close());
  const inside = await openContents(database);
  t.teardown(() => inside.close());
  const frozen = await inside.freeze();
  const written = putCredentials(late, [sampleCredential()]).then(
    () => 'written',
    (error) => String(error),
  );
  t.equal(await frozen.leave({ ...(await inside.identity()), ...left }), true);
  await frozen.end();
  t.match(await written, /the log has moved to another store/);

  const path = folder.engine === 'lmdb' ? folder.path : '';
  const operator = new Child('operator.ts', path);
  t.teardown(() => operator.kill());
  await operator.line('ready');
  const { keyHash } = sampleCredential();
  operator.say(`put ${keyHash}`);
  await operator.line(`did put ${keyHash}`);
  const own = await openContents(folder);
  t.teardown(() => own.close());
  await t.rejects(own.freeze(), { name: 'OperatorError', message: /process \d+ has the store open/ });
  await operator.kill();
  const alone = await own.freeze();
  await own.add('credentials', [{ key: Buffer.alloc(32), value: Buffer.alloc(9) }]);
  t.equal(await alone.leave({ ...(await own.identity()), ...left }), false, 'somebody wrote');
  t.equal((await own.identity()).environment, identity.environment);
  t.equal(await (await own.freeze()).leave({ ...(await own.identity()), ...left }), true);
  t.equal((await own.identity()).environment, 'left');
});
