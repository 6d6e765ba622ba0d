/** Who reads waits for a connection, for a lock, or for other clients; and none of that is taken for a server that is lost. */

import pg from 'pg';
import t, { type Test } from 'tap';
import { createInPostgresql, openInPostgresql } from '../../src/store/postgresql/postgresqlOpen.ts';
import { asAnswer } from '../../src/store/storeAnswers.ts';
import { startPostgres } from '../support/postgres.ts';
import { PostgresProxy } from '../support/postgresProxy.ts';
import { until } from '../support/until.ts';
import { collected, epoch, identity, sampleCredential, sampleJob } from './samples.ts';

const postgres = await startPostgres(t);
const template = await postgres.createDatabase();
await createInPostgresql({ location: { urls: [postgres.url(template)] }, identity, epoch });

/** A store behind a proxy that counts what is executed, and an administrator who locks all jobs. */
async function lockable(t: Test, awayMsMax?: number) {
  const database = await postgres.createDatabase(template);
  const proxy = await PostgresProxy.start(postgres.dir);
  t.teardown(() => proxy.close());
  const urls = [postgres.url(database).replace(postgres.dir, proxy.dir)];
  const store = await openInPostgresql({ location: { urls }, ...(awayMsMax && { awayMsMax }) });
  t.teardown(() => store.close());
  const administrator = new pg.Client({ host: postgres.dir, user: 'postgres', database });
  await administrator.connect();
  t.teardown(() => administrator.end());
  const waiting = async (text: string, seconds = 0) => {
    const rows = await postgres.query(
      `SELECT pid FROM pg_stat_activity WHERE datname = '${database}' AND wait_event_type = 'Lock'
        AND strpos(query, '${text}') > 0 AND clock_timestamp() - query_start >= '${seconds} s'`,
    );
    return rows.length;
  };
  return {
    store,
    proxy,
    waiting,
    lock: () => administrator.query('BEGIN; LOCK TABLE pdfseal.jobs IN ACCESS EXCLUSIVE MODE'),
    unlock: () => administrator.query('ROLLBACK'),
  };
}

const viewerOf = (clientId: string) => ({ clientId, organization: 'acme', partnerOf: [] });
/** A text of the statement that lists jobs. */
const LISTING = 'WITH found';

t.test('listings of a client do not delay those of another, nor anything else', async (t) => {
  const { store, waiting, lock, unlock } = await lockable(t);
  const job = sampleJob();
  await store.jobs.accept(job);
  await lock();
  const list = (clientId: string) => store.jobs.list({ viewer: viewerOf(clientId), limit: 10 });
  const many = Promise.allSettled(Array.from({ length: 100 }, () => list('billing')));
  await until('some wait for the lock', async () => (await waiting(LISTING)) === 2);
  const other = Promise.allSettled([list('claims')]);
  await until('so does that of the other', async () => (await waiting(LISTING)) === 3);
  t.equal(await store.credentials.get(sampleCredential().keyHash), undefined);

  const refused = { name: 'ServiceError', code: /^(queue_full|too_many_requests)$/, retryAfterSeconds: 2 };
  for (const result of [...(await many), ...(await other)])
    t.match(result.status === 'rejected' && asAnswer(result.reason), refused);
  await unlock();
  t.same((await list('billing')).records, [{ job }]);
});

t.test('reads wait for a lock as long as necessary, and leave a connection for others', async (t) => {
  const { store, proxy, waiting, lock, unlock } = await lockable(t);
  const job = sampleJob();
  await store.jobs.accept(job);
  let tries = 0;
  proxy.fate = (sent) => {
    if (sent.includes('get_job')) tries += 1;
    return 'forward';
  };
  await lock();
  const reads = Array.from({ length: 30 }, () => store.jobs.get(job.id));
  await until('some wait for the lock', async () => (await waiting('WHERE j.id = $1')) === 4);
  t.equal(await store.credentials.get(sampleCredential().keyHash), undefined);
  await until('the server gave one up, and it is repeated', () => tries > 4);
  await unlock();
  for (const read of reads) t.same(await read, { job });
});

t.test('time in which a server was working does not count as time away', async (t) => {
  const { store, proxy, waiting, lock, unlock } = await lockable(t, 4_000);
  await lock();
  const job = sampleJob();
  const accepted = store.jobs.accept(job);
  await until('it waits for the lock', async () => (await waiting('SELECT id FROM jobs', 4.5)) === 1);
  let isCut = false;
  proxy.fate = (sent) => {
    if (isCut || !sent.includes('insert_waiting')) return 'forward';
    isCut = true;
    return 'cut before';
  };
  await unlock();
  await accepted;
  t.ok(isCut);
  t.same(await store.jobs.get(job.id), { job });
});

t.test('a check that loses its connection at its beginning is begun again', async (t) => {
  const { store, proxy } = await lockable(t);
  await store.jobs.accept(sampleJob());
  let cuts = 0;
  proxy.fate = (sent) => {
    if (!sent.includes('REPEATABLE READ') || cuts === 10) return 'forward';
    cuts += 1;
    return 'cut before';
  };
  t.same(await collected(store.indexes.check()), []);
  t.equal(cuts, 10);
});
