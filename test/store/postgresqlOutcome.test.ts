/** What a store in PostgreSQL does when the way to the database, or the database itself, is lost. */
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import type { ReceivedJob } from '../../src/job/job.ts';
import { createInPostgresql, openInPostgresql } from '../../src/store/postgresql/postgresqlOpen.ts';
import type { Obstacle, Sequencing } from '../../src/store/postgresql/sequencer.ts';
import type { Store } from '../../src/store/store.ts';
import { startPostgres } from '../support/postgres.ts';
import { type Fate, PostgresProxy } from '../support/postgresProxy.ts';
import { until } from '../support/until.ts';
import { epoch, identity, sampleBatch, sampleJob, sampleJobs } from './samples.ts';

const postgres = await startPostgres(t);
const template = await postgres.createDatabase();
await createInPostgresql({ location: { urls: [postgres.url(template)] }, identity, epoch });
const unknown = { name: 'UnknownOutcome' };
const superseded = { name: 'Superseded', message: /writes nothing more/ };

async function openAs(t: Test, urls: string[], sequencing: Partial<Sequencing> = {}): Promise<Store> {
  const store = await openInPostgresql({
    location: { urls },
    sequencing: { onWait: () => {}, onLost: () => {}, ...sequencing },
    awayMsMax: 120_000, // However busy the machine is.
  });
  t.teardown(() => store.close());
  return store;
}

/** A store behind a proxy, and one that is not. */
async function behindProxy(t: Test) {
  const database = await postgres.createDatabase(template);
  const proxy = await PostgresProxy.start(postgres.dir);
  t.teardown(() => proxy.close());
  const url = postgres.url(database);
  const store = await openAs(t, [url.replace(postgres.dir, proxy.dir)]);
  const aside = await openInPostgresql({ location: { urls: [url] } });
  t.teardown(() => aside.close());
  return { store, aside, proxy, url };
}

/** The fate of the next message that has the text, once. */
function once(proxy: PostgresProxy, text: string, fate: Exclude<Fate, 'forward'>): () => boolean {
  let isDone = false;
  proxy.fate = (sent) => {
    if (isDone || !sent.includes(text)) return 'forward';
    isDone = true;
    return fate;
  };
  return () => isDone;
}

for (const [fate, isThere] of [
  ['cut before', false],
  ['cut after', true],
] as const) {
  t.test(`a connection ${fate} COMMIT: the outcome is unknown until the store is opened again`, async (t) => {
    const { store, aside, proxy, url } = await behindProxy(t);
    const [first, second] = sampleJobs(2) as [ReceivedJob, ReceivedJob];
    await store.jobs.accept(first);
    once(proxy, 'COMMIT', fate);
    await t.rejects(store.jobs.accept(second), unknown);
    await t.rejects(store.jobs.accept(sampleJob()), unknown, 'nor is anything written after it');
    await t.rejects(store.jobs.get(first.id), unknown, 'nor read');
    await store.close();
    const again = await openAs(t, [url]);
    t.same(await again.jobs.get(second.id), isThere ? { job: second } : undefined);
    t.same(await aside.jobs.waiting(9), isThere ? [first, second] : [first]);
  });
}

t.test('rows of a commit are not returned before its outcome is known', async (t) => {
  const { store, aside, proxy, url } = await behindProxy(t);
  const job = sampleJob();
  await store.jobs.get(job.id); // It has a connection.
  const isSent = once(proxy, 'COMMIT', 'silence');
  const accepted = store.jobs.accept(job).catch((error) => error.name);
  await until('the server has it', async () => isSent() && (await aside.jobs.get(job.id)) !== undefined);
  const told = store.jobs.get(job.id).then(
    () => 'told',
    (error) => error.name,
  );
  await store.credentials.get('0'.repeat(64)); // What is asked afterwards is answered, and told to nobody.
  const session = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'COMMIT' AND state = 'idle' AND datname = $`;
  await postgres.query(session.replace('$', `'${new URL(url).pathname.slice(1)}'`));
  t.strictSame(await Promise.all([accepted, told]), ['UnknownOutcome', 'UnknownOutcome']);
});

t.test('a connection that is cut before a COMMIT is sent loses nothing, and repeats nothing', async (t) => {
  const { store, proxy } = await behindProxy(t);
  const quota = { name: 'default', startsAt: 0, endsAt: 2 ** 45 };
  for (const [n, text] of ['BEGIN', 'insert_jobs', 'insert_waiting'].entries())
    for (const fate of ['cut before', 'cut after'] as const) {
      const isDone = once(proxy, text, fate);
      const job = sampleJob({ quota });
      await store.jobs.accept(job);
      t.ok(isDone(), `${text}: ${fate}`);
      t.same(await store.jobs.get(job.id), { job });
      t.match(await store.jobs.quotaCounts(), [{ jobs: 2 * n + (fate === 'cut before' ? 1 : 2) }]);
    }
  const isDone = once(proxy, 'get_job', 'cut after');
  const job = sampleJob();
  await store.jobs.accept(job);
  t.same(await store.jobs.get(job.id), { job }, 'nor is a read lost');
  t.ok(isDone());
});

t.test('reads and writes continue after a crash of the server', async (t) => {
  const store = await openAs(t, [postgres.url(await postgres.createDatabase(template))]);
  const jobs = [sampleJob(), sampleJob()] as const;
  await store.jobs.accept(jobs[0]);
  await postgres.stop('SIGQUIT');
  const accepted = store.jobs.accept(jobs[1]);
  const read = store.jobs.get(jobs[0].id);
  await postgres.start();
  await accepted;
  t.same(await read, { job: jobs[0] });
  t.equal(await store.log.commit(sampleBatch(0, [...jobs])), true);
});

t.test('a COMMIT that may not have reached the standbys is not a success', async (t) => {
  const database = await postgres.createDatabase(template);
  await postgres.query(`ALTER DATABASE ${database} SET client_min_messages = error`); // That is no way out.
  const store = await openAs(t, [postgres.url(database)]);
  await postgres.setStandbys('nobody');
  t.teardown(() => postgres.setStandbys(''));
  const job = sampleJob();
  const accepted = store.jobs.accept(job);
  const rejected = t.rejects(accepted, unknown);
  const waiting = `SELECT pg_cancel_backend(pid) FROM pg_stat_activity
    WHERE datname = '${database}' AND wait_event = 'SyncRep'`;
  await until('the commit waits', async () => (await postgres.query(waiting)).length === 1);
  await rejected;
  const seen = await postgres.query('SELECT count(*) FROM pdfseal.jobs', database);
  t.same(seen, [{ count: '1' }], 'although this server has it');
  await t.rejects(store.jobs.get(job.id), unknown);
});

t.test('rows that were unreported at a restart are read once standbys have them', async (t) => {
  const alone = await startPostgres(t);
  const database = await alone.createDatabase();
  const url = alone.url(database);
  await createInPostgresql({ location: { urls: [url] }, identity, epoch });
  const store = await openAs(t, [url]);
  const aside = await openInPostgresql({ location: { urls: [url] } });
  t.teardown(() => aside.close());
  // A process that has not written yet begins with a commit that writes nothing.
  await aside.jobs.accept(sampleJob());
  await alone.setStandbys('nobody');
  const job = sampleJob();
  const accepted = aside.jobs.accept(job).catch((error) => error.name);
  const waiting = `SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query = 'COMMIT'`;
  await until('the commit waits for a standby', async () => (await alone.query(waiting)).length > 0);
  await alone.stop('SIGQUIT');
  t.equal(await accepted, 'UnknownOutcome');
  await alone.start();
  t.same(await alone.query('SELECT count(*)::int FROM pdfseal.jobs', database), [{ count: 2 }], 'it has it');
  let isTold = false;
  const reading = store.jobs.get(job.id).then((record) => {
    isTold = true;
    return record;
  });
  await until('a barrier waits for a standby', async () => (await alone.query(waiting)).length > 0);
  t.notOk(isTold);
  await alone.setStandbys('');
  t.same(await reading, { job });
});

t.test('only one daemon is active at a time', async (t) => {
  const database = await postgres.createDatabase(template);
  const url = postgres.url(database);
  const ended: Error[] = [];
  const first = await openAs(t, [url], { onLost: (error) => ended.push(error) });
  await first.jobs.accept(sampleJob());
  const waits: Obstacle[] = [];
  const opening = openAs(t, [url], { onWait: (wait) => waits.push(wait) });
  await until('the second waits', () =>
    waits.some((wait) => 'holder' in wait && /^process \d+ on .+$/.test(wait.holder)),
  );
  // As by a network that drops the session: the first daemon does not know yet.
  const holder = 'SELECT pg_terminate_backend(session) FROM pdfseal.life';
  await postgres.query(holder, database);
  const second = await opening;
  const late = sampleJob();
  await t.rejects(first.jobs.accept(late), superseded);
  t.equal(await second.jobs.get(late.id), undefined);
  await until('the first is told', () => ended.length === 1);
  t.match(ended[0], { name: 'Superseded' });
  await second.jobs.accept(late);

  const withdrawn = new AbortController();
  const third = openAs(t, [url], { onWait: () => withdrawn.abort(), signal: withdrawn.signal });
  await t.rejects(third, { name: 'AbortError' }, 'who waits can be told to end');
});

t.test('a transaction of the former daemon that is under way ends first', async (t) => {
  const { store, proxy, url } = await behindProxy(t);
  const database = new URL(url).pathname.slice(1);
  const job = sampleJob();
  const reached = new Promise<void>((resolve) => {
    proxy.fate = (sent) => {
      if (sent.includes('insert_waiting')) resolve();
      return 'forward';
    };
  });
  const accepted = store.jobs.accept(job);
  await reached;
  await postgres.query('SELECT pg_terminate_backend(session) FROM pdfseal.life', database);
  const next = await openAs(t, [url]);
  const [isWritten] = await Promise.allSettled([accepted]);
  const found = await next.jobs.get(job.id);
  t.equal(
    found !== undefined,
    isWritten.status === 'fulfilled',
    'what is acknowledged is there, and nothing else',
  );
});

t.test('a daemon does not read from a server that has not seen its turn', async (t) => {
  const [former, current] = [
    await postgres.createDatabase(template),
    await postgres.createDatabase(template),
  ];
  const proxy = await PostgresProxy.start(postgres.dir);
  t.teardown(() => proxy.close());
  const job = sampleJob();
  const there = await openInPostgresql({ location: { urls: [postgres.url(former)] } });
  await there.jobs.accept(job);
  await there.close();
  proxy.fate = () => 'cut before'; // The former primary is away while the turn is taken …
  const urls = [postgres.url(former).replace(postgres.dir, proxy.dir), postgres.url(current)];
  const store = await openAs(t, urls);
  proxy.fate = () => 'forward'; // … and comes back.
  t.equal(await store.jobs.get(job.id), undefined);
  const other = sampleJob();
  await store.jobs.accept(other);
  t.same(await postgres.query('SELECT count(*)::int FROM pdfseal.jobs', current), [{ count: 1 }]);
});

t.test('a spare tries the next server if the first cannot acknowledge its turn', async (t) => {
  const alone = await startPostgres(t);
  const former = alone.url(await alone.createDatabase());
  await createInPostgresql({ location: { urls: [former] }, identity, epoch });
  await alone.setStandbys('nobody');
  const current = await postgres.createDatabase(template);
  const store = await openAs(t, [former, postgres.url(current)]);
  await store.jobs.accept(sampleJob());
  t.same(await postgres.query('SELECT count(*)::int FROM pdfseal.jobs', current), [{ count: 1 }]);
});

t.test('a server that refuses connections is skipped if another one accepts them', async (t) => {
  const database = await postgres.createDatabase(template);
  const closed = postgres.url(database, 'stranger'); // As a standby that was set up otherwise, or has not heard of the role yet.
  const proxy = await PostgresProxy.start(postgres.dir);
  t.teardown(() => proxy.close());
  const open = postgres.url(database).replace(postgres.dir, proxy.dir);
  const store = await openAs(t, [closed, open]);
  const [first, second] = [sampleJob(), sampleJob({ id: 'job_0199f3a07c8870008000000000000002' })];
  await store.jobs.accept(first);
  const wasCut = once(proxy, 'BEGIN', 'cut before');
  await store.jobs.accept(second);
  t.ok(wasCut());
  t.same(await store.jobs.get(first.id), { job: first });
  t.same(await store.jobs.get(second.id), { job: second });

  const refused = { name: 'OperatorError', message: /cannot be used: / };
  await t.rejects(openInPostgresql({ location: { urls: [closed, closed] } }), refused);
  const away = await openInPostgresql({ location: { urls: [open, closed] } });
  t.teardown(() => away.close());
  await postgres.query('ALTER ROLE pdfseal NOLOGIN');
  t.teardown(() => postgres.query('ALTER ROLE pdfseal LOGIN'));
  await postgres.query(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${database}'`,
  );
  await t.rejects(away.jobs.get(first.id), { code: /^28/ }, 'nobody lets it in');
});

t.test('a server whose files are gone is skipped', async (t) => {
  const broken = await startPostgres(t);
  rmSync(join(broken.dir, 'data/global/pg_filenode.map')); // As while a standby is made anew.
  const store = await openAs(t, [
    broken.url('postgres'),
    postgres.url(await postgres.createDatabase(template)),
  ]);
  const job = sampleJob();
  await store.jobs.accept(job);
  t.same(await store.jobs.get(job.id), { job });
});

t.test('a spare names the active daemon, whatever standbys it asks meanwhile', async (t) => {
  const [database, standby] = [
    await postgres.createDatabase(template),
    await postgres.createDatabase(template),
  ];
  await postgres.query(`ALTER DATABASE ${standby} SET default_transaction_read_only = on`);
  const proxy = await PostgresProxy.start(postgres.dir);
  t.teardown(() => proxy.close());
  const url = postgres.url(database);
  await openAs(t, [url]);
  let asked = 0;
  proxy.fate = (sent) => {
    if (sent.includes('pg_is_in_recovery')) asked += 1;
    return 'forward';
  };
  const reasons: Obstacle[] = [];
  const withdrawn = new AbortController();
  const spare = openAs(t, [url, postgres.url(standby).replace(postgres.dir, proxy.dir)], {
    onWait: (reason) => reasons.push(reason),
    signal: withdrawn.signal,
  });
  const rejected = t.rejects(spare, { name: 'AbortError' });
  await until('the standby was asked twice', () => asked >= 2);
  withdrawn.abort();
  await rejected;
  t.same(
    reasons.filter((reason) => 'unreachable' in reason),
    [],
  );
});

t.test('a log that changed under a daemon gets no further batch from it', async (t) => {
  const database = await postgres.createDatabase(template);
  const url = postgres.url(database);
  const store = await openAs(t, [url]);
  const jobs = sampleJobs(4);
  await Promise.all(jobs.map((job) => store.jobs.accept(job)));
  t.equal(await store.log.commit(sampleBatch(0, jobs.slice(0, 2))), true);
  // As by a server that came back without its last commits, and went on with others.
  await postgres.query(`UPDATE pdfseal.log_head SET checkpoint_sha256 = sha256('another')`, database);
  const refused = { name: 'BrokenInvariant', message: /not the one that this process wrote/ };
  await t.rejects(store.log.commit(sampleBatch(2, jobs.slice(2))), refused);

  // No fence holds off these two: the head does.
  const [one, other] = await Promise.all([1, 2].map(() => openInPostgresql({ location: { urls: [url] } })));
  if (!one || !other) throw new Error('no store');
  t.teardown(() => Promise.all([one.close(), other.close()]));
  const [third, fourth] = [jobs.slice(2, 3), jobs.slice(3)].map((batch) => sampleBatch(2, batch));
  if (!third || !fourth) throw new Error('no batch');
  const both = await Promise.allSettled([one.log.commit(third), other.log.commit(fourth)]);
  t.same(both.map(({ status }) => status).sort(), ['fulfilled', 'rejected']);
  t.equal((await one.log.head())?.treeSize, 3);
});

t.test('a database that cannot hold the store is refused with the reason', async (t) => {
  const database = await postgres.createDatabase();
  const location = { urls: [postgres.url(database)] };
  const refused = (message: RegExp) => ({ name: 'OperatorError', message });
  await t.rejects(
    openInPostgresql({ location }),
    refused(/no store of pdfseald: make one with `pdfseal init`/),
  );
  await t.rejects(
    openInPostgresql({ location: { urls: [postgres.url('absent')] } }),
    refused(/cannot be used: database "absent" does not exist/),
  );
  await postgres.query('CREATE SCHEMA pdfseal', database);
  await t.rejects(createInPostgresql({ location, identity, epoch }), refused(/not of pdfseald/));

  const made = await postgres.createDatabase(template);
  const urls = [postgres.url(made)];
  await t.rejects(createInPostgresql({ location: { urls }, identity, epoch }), refused(/already/));
  await t.rejects(
    openInPostgresql({ location: { urls }, expected: { environment: 'production' } }),
    refused(/for environment "sandbox"/),
  );
  await postgres.query(`COMMENT ON SCHEMA pdfseal IS 'pdfseal layout 9'`, made);
  await t.rejects(openInPostgresql({ location: { urls } }), refused(/newer pdfseald/));
  await postgres.query(`COMMENT ON SCHEMA pdfseal IS 'pdfseal layout 2'`, made);
  await t.rejects(openInPostgresql({ location: { urls } }), refused(/layout 2\): install a later build/));
  await postgres.query(`COMMENT ON SCHEMA pdfseal IS 'pdfseal layout 3'`, made);
  await postgres.query(`ALTER DATABASE ${made} SET default_transaction_read_only = on`);
  await t.rejects(openInPostgresql({ location: { urls } }), refused(/no server is a primary/));
  const other = await postgres.createDatabase(template);
  const both = await openInPostgresql({ location: { urls: [...urls, postgres.url(other)] } });
  t.teardown(() => both.close());
  t.same(await both.log.head(), undefined, 'the one that is a primary is used');

  for (const setting of ['fsync', 'full_page_writes']) {
    const careless = await startPostgres(t, { settings: { [setting]: 'off' } });
    const urls = [careless.url(await careless.createDatabase())];
    await t.rejects(
      createInPostgresql({ location: { urls }, identity, epoch }),
      refused(new RegExp(`${setting} off`)),
    );
  }
});

t.test('a role can log in with a password', async (t) => {
  const guarded = await startPostgres(t);
  await guarded.query(`CREATE ROLE guarded LOGIN PASSWORD 'correct: +&=%20 é'`);
  await guarded.query('CREATE DATABASE guarded OWNER guarded TEMPLATE template0');
  const hba = join(guarded.dir, 'data', 'pg_hba.conf');
  writeFileSync(hba, `local all guarded scram-sha-256\n${readFileSync(hba, 'utf8')}`);
  await guarded.query('SELECT pg_reload_conf()');
  const urls = [guarded.url('guarded', 'guarded')];
  for (const [password, message] of [
    [undefined, /the server asks for a password, and the configuration names none/],
    ['', /the server asks for a password, and the configuration names none/],
    ['correct: +&=%20 e', /cannot be used: /],
  ] as const)
    await t.rejects(
      createInPostgresql({
        location: { urls, ...(password !== undefined && { password }) },
        identity,
        epoch,
      }),
      { name: 'OperatorError', message, remedy: /store\.password_file/ },
    );
  const location = { urls, password: 'correct: +&=%20 é' };
  await createInPostgresql({ location, identity, epoch });
  const store = await openInPostgresql({ location });
  t.teardown(() => store.close());
  const job = sampleJob();
  await store.jobs.accept(job);
  t.same(await store.jobs.get(job.id), { job });
});
