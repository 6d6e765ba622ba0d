import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { type Change, Commits } from '../../src/store/lmdb/commits.ts';
import { openDatabases } from '../../src/store/lmdb/databases.ts';
import { lmdbStore } from '../../src/store/lmdb/lmdbStore.ts';
import { createStore, openStore } from '../../src/store/lmdb/open.ts';
import { Child } from './child.ts';
import {
  billing,
  epoch,
  identity,
  START_MS,
  sampleCredential,
  sampleEndpoint,
  sampleJob,
} from './samples.ts';

async function open(t: Test) {
  const path = t.testdir();
  const databases = await openDatabases(path, { readOnly: false });
  t.teardown(() => databases.close());
  const put = (key: string, value = key): Change => ({
    database: databases.tiles,
    key: Buffer.from(key),
    value: Buffer.from(value),
  });
  const get = (key: string) => databases.tiles.getBinary(Buffer.from(key))?.toString();
  const transactions = () => databases.tiles.getStats().lastTxnId ?? 0;
  return { path, databases, commits: new Commits(databases), put, get, transactions };
}

t.test('writes of one turn share one transaction', async (t) => {
  const { commits, put, get, transactions } = await open(t);
  const before = transactions();
  const writes = Array.from({ length: 1000 }, (_, n) =>
    commits.write({ changes: [put(`${n}`), put(`${n}b`)] }),
  );
  t.same(await Promise.all(writes), Array(1000).fill(true));
  t.equal(transactions(), before + 1);
  t.equal(get('999b'), '999b');
});

t.test('writes during a transaction share the next one', async (t) => {
  const { commits, put, get, transactions } = await open(t);
  const before = transactions();
  const first = commits.write({ changes: [put('first')] });
  await new Promise((resolve) => setImmediate(resolve));
  await new Promise((resolve) => setImmediate(resolve));
  const later = ['a', 'b', 'c'].map((key) => commits.write({ changes: [put(key)] }));
  await Promise.all([first, ...later]);
  t.equal(transactions(), before + 2);
  t.equal(get('c'), 'c');
});

t.test('a write whose condition fails changes nothing, and its neighbours are not touched', async (t) => {
  const { databases, commits, put, get } = await open(t);
  const unless = (...keys: string[]) =>
    keys.map((key) => ({ database: databases.tiles, key: Buffer.from(key) }));
  await commits.write({ changes: [put('taken', 'old')] });
  const results = await Promise.all([
    commits.write({ changes: [put('before')] }),
    commits.write({ changes: [put('x'), put('taken', 'new')], unless: unless('taken') }),
    commits.write({ changes: [put('y')], unless: unless('free') }),
    commits.write({ changes: [put('z')], unless: unless('y') }), // sees the write before it
    commits.write({ changes: [put('x')], unless: unless('free', 'taken') }),
    commits.write({ changes: [put('x')], unless: unless('taken', 'free') }),
    commits.write({ changes: [put('both')], unless: unless('free', 'vacant') }),
    commits.write({ changes: [{ database: databases.tiles, key: Buffer.from('before') }] }),
    commits.write({ changes: [{ database: databases.tiles, key: Buffer.from('never there') }] }),
  ]);
  t.same(results, [true, false, true, false, false, false, true, true, true]);
  const found = ['before', 'x', 'y', 'z', 'taken', 'both'].map(get);
  t.same(found, [undefined, undefined, 'y', undefined, 'old', 'both']);
});

t.test('many changes are split between transactions, but a single write never is', async (t) => {
  const { commits, put, get, transactions } = await open(t);
  const before = transactions();
  const changes = (name: string) => Array.from({ length: 30_000 }, (_, n) => put(`${name}${n}`));
  await Promise.all(['a', 'b', 'c'].map((name) => commits.write({ changes: changes(name) })));
  t.equal(transactions(), before + 3);
  t.equal(get('c29999'), 'c29999');
});

t.test('opening the store waits for a commit, and a commit for an opening', async (t) => {
  const { path, commits, put, get, transactions } = await open(t);
  /** A process that has the lock of the folder until it is let go. */
  const hold = async (kind: string) => {
    const child = spawn('flock', [`--${kind}`, path, 'sh', '-c', 'echo held; cat'], {
      stdio: ['pipe', 'pipe', 'ignore'],
    });
    t.teardown(() => child.kill());
    await once(child.stdout, 'data');
    return () => child.stdin.end();
  };
  // Whoever did not wait is done by then.
  const soon = (done: Promise<unknown>) => Promise.race([done.then(() => 'done'), sleep(300, 'waits')]);

  const opened = await hold('exclusive');
  const before = transactions();
  const written = commits.write({ changes: [put('a')] });
  t.equal(await soon(written), 'waits');
  t.equal(transactions(), before);
  opened();
  t.equal(await written, true);
  t.equal(get('a'), 'a');

  const committed = await hold('shared');
  t.equal(await commits.write({ changes: [put('b')] }), true, 'commits share the lock');
  const opening = openDatabases(path, { readOnly: true });
  t.equal(await soon(opening), 'waits');
  committed();
  await (await opening).close();
});

t.test('a commit is not overwritten while other processes open the store', async (t) => {
  const { path, databases, commits, put, get } = await open(t);
  const openers = Array.from({ length: 3 }, () => new Child('opener.ts', path));
  t.teardown(() => Promise.all(openers.map((opener) => opener.kill())));
  let isOver = false;
  const over = Promise.all(openers.map((opener) => opener.line('done'))).finally(() => {
    isOver = true;
  });
  const written: string[] = [];
  // One commit a turn: the next begins where the one before it has ended.
  while (!isOver) {
    await commits.write({ changes: [put(`${written.length}`)] });
    written.push(`${written.length}`);
  }
  await over;
  databases.root.resetReadTxn();
  t.same(
    written.filter((key) => get(key) === undefined),
    [],
    `of ${written.length}`,
  );
});

t.test('a commit that does not end is given up, and nothing is served after it', async (t) => {
  const { path, databases, put } = await open(t);
  const holder = new Child('transactionHolder.ts', path);
  t.teardown(() => holder.kill());
  await holder.line('holding');
  const commits = new Commits(databases, { commitMsMax: 200 });
  const third = put('c');
  const whole = { schema: 1, ...identity };
  const store = await lmdbStore(databases, whole, {
    clock: () => START_MS,
    monotonicMs: () => 0,
    backlogMax: 1,
  });
  const stuck = commits.write({ changes: [put('a')] });
  const behind = sleep(50).then(() => commits.write({ changes: [put('b')] }));
  const unknown = { name: 'UnknownOutcome', cause: { message: 'a commit took more than 0.2 s' } };
  await Promise.all([t.rejects(stuck, unknown), t.rejects(behind, unknown)]);
  await t.rejects(commits.write({ changes: [third] }), unknown);
  await t.rejects(store.jobs.accept(sampleJob()), unknown);
  const reads: Record<string, () => Promise<unknown>> = {
    'a job': () => store.jobs.get(sampleJob().id),
    'jobs that wait': () => store.jobs.waiting(1),
    'a page without jobs': () => store.jobs.list({ viewer: billing, limit: 1 }),
    quotas: () => store.jobs.quotaCounts(),
    'a sweep of quotas': () => store.jobs.sweepQuotas(START_MS, 1),
    copies: async () => store.copies.all()[Symbol.asyncIterator]().next(),
    'the head': () => store.log.head(),
    leaves: () => store.log.leaves(0, 1),
    'a tile': () => store.log.tile(0, 0),
    epochs: () => store.epochs.newest(),
    credentials: () => store.credentials.all(),
    endpoints: () => store.webhooks.endpoints.all(),
    records: () => store.trail.entries(0, 1),
  };
  for (const [what, read] of Object.entries(reads)) await t.rejects(read(), unknown, what);
  await holder.kill();
});

t.test(
  'without disk space, acts that somebody asks for are refused, and what the daemon writes waits',
  async (t) => {
    const path = join(t.testdir(), 'store');
    await createStore({ path, identity, epoch });
    const space = Promise.withResolvers<void>();
    let isFull = false;
    const diskSpace = { forCommit: () => (isFull ? space.promise : undefined) };
    const store = await openStore({ path, diskSpace });
    t.teardown(() => store.close());
    const { endpoints, outbox } = store.webhooks;
    const object = { sha256: 'ab'.repeat(32) };
    const by = (via: 'api' | 'console' | 'administration' | 'command' | 'daemon') =>
      ({ act: 'trust.export', actor: { via }, object, outcome: 'done' }) as const;
    const endpoint = sampleEndpoint();
    await endpoints.add(endpoint, 16, null);
    const begun = await store.trail.append({ ...by('command'), outcome: 'begun' });
    isFull = true;
    const refused = { name: 'StoreError', code: 'disk_full' };
    const before = await store.trail.newest();
    const check = async () => {
      for (const via of ['api', 'console', 'administration', 'command'] as const) {
        await t.rejects(store.trail.append(by(via)), refused, via);
        await t.rejects(endpoints.add(sampleEndpoint(), 16, by(via)), refused, via);
        await t.rejects(endpoints.remove(endpoint.id, by(via)), refused, via);
        await t.rejects(
          store.credentials.change(() => ({ credentials: [sampleCredential()], act: by(via) })),
          refused,
          via,
        );
      }
      await t.rejects(outbox.test(endpoint.id), refused);
    };
    await check();
    const waiting = [
      store.trail.append(by('daemon')),
      store.trail.append({ ...by('command'), concludes: begun }),
      endpoints.change(endpoint.id, (asItIs) => asItIs, null),
    ];
    await check();
    t.equal(await store.trail.newest(), before);
    isFull = false;
    space.resolve();
    await Promise.all(waiting);
    t.equal(await store.trail.newest(), before + 2);
    await store.trail.append(by('api'));
  },
);
