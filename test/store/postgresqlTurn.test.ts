/** A daemon takes over only with what standbys have. */
import { readFileSync } from 'node:fs';
import pg from 'pg';
import t from 'tap';
import {
  createInPostgresql,
  makeRolesInPostgresql,
  openInPostgresql,
} from '../../src/store/postgresql/postgresqlOpen.ts';
import type { Obstacle } from '../../src/store/postgresql/sequencer.ts';
import { startPostgres } from '../support/postgres.ts';
import { until } from '../support/until.ts';
import { epoch, identity, sampleJob } from './samples.ts';

t.test(
  'a daemon waits while no standby answers; a commit that standbys may lack is not a turn',
  async (t) => {
    const postgres = await startPostgres(t);
    const location = { urls: [postgres.url(await postgres.createDatabase())] };
    await createInPostgresql({ location, identity, epoch });
    await postgres.setStandbys('nobody');

    const waits: Obstacle[] = [];
    const opening = openInPostgresql({
      location,
      sequencing: { onWait: (wait) => waits.push(wait), onLost: t.fail },
    });
    const waiting = `SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'`;
    const reasons = () => waits.map((wait) => ('unreachable' in wait ? wait.unreachable : ''));
    await until('the commit waits for a standby', async () => (await postgres.query(waiting)).length > 0);
    // What an administrator does who wants to go on without: the server then says that the commit succeeded.
    await postgres.query(`SELECT pg_cancel_backend(pid) FROM (${waiting}) AS waiting`);
    await until('it does not believe that', () => reasons().includes(CANCELLED));
    await until('it gives up on a server that does not answer', () =>
      reasons().includes('Query read timeout'),
    );
    await postgres.setStandbys('');
    const store = await opening;
    t.match(store.identity, identity);
    await store.close();
  },
);

const CANCELLED = 'canceling wait for synchronous replication due to user request';

t.test('a daemon that could not take over reports that before it waits', async (t) => {
  const postgres = await startPostgres(t);
  const database = await postgres.createDatabase();
  const location = { urls: [postgres.url(database)] };
  await createInPostgresql({ location, identity, epoch });
  const onLost = t.fail;
  const onWait = (wait: Obstacle) => t.notMatch(wait, { holder: String }, 'it does not wait');
  const active = await openInPostgresql({ location, sequencing: { onWait, onLost } });
  t.teardown(() => active.close());
  const refused = (message: RegExp, expected = {}) =>
    t.rejects(openInPostgresql({ location, expected, sequencing: { onWait, onLost } }), {
      name: 'OperatorError',
      message,
    });

  await refused(/is for environment "\w+", the configuration says "other"/, { environment: 'other' });
  await refused(/is for log\.origin ".*", the configuration says "other"/, { logOrigin: 'other' });
  await postgres.query('REVOKE DELETE ON pdfseal.outbox FROM pdfseal', database);
  await refused(/the role "pdfseal" may not use the store in the database/);
  await postgres.query('GRANT DELETE ON pdfseal.outbox TO pdfseal', database);
  await postgres.query(`COMMENT ON SCHEMA pdfseal IS 'pdfseal layout 9'`, database);
  await refused(/made by a newer pdfseald/);
  t.equal(await active.log.head(), undefined, 'the active one goes on');
});

t.test('a silent daemon loses its turn, even while a front holds a lock', async (t) => {
  const postgres = await startPostgres(t);
  await postgres.query('ALTER ROLE pdfseal CREATEROLE');
  const database = await postgres.createDatabase();
  const location = { urls: [postgres.url(database)] };
  await createInPostgresql({ location, identity, epoch });
  await makeRolesInPostgresql(location);
  await postgres.query(`GRANT pdfseal_seal TO node; GRANT CONNECT ON DATABASE ${database} TO node`);
  const former = await openInPostgresql({ location, sequencing: { onWait: t.fail, onLost: t.fail } });
  await former.close();

  const connect = async (user: string, ...statements: string[]) => {
    const settings = { host: postgres.dir, database, application_name: 'pdfseal 1 elsewhere' };
    const client = new pg.Client({ ...settings, user });
    await client.connect();
    t.teardown(() => client.end());
    for (const statement of statements) await client.query(statement);
    return client;
  };
  // As of a daemon that is held: it is connected, in a role whose sessions the next one may not end.
  const silent = await connect('pdfseal', 'UPDATE pdfseal.life SET session = pg_backend_pid()');
  const front = await connect(
    'postgres',
    'SET ROLE pdfseal_front; BEGIN; LOCK TABLE pdfseal.life IN ACCESS SHARE MODE; SELECT pg_advisory_lock(1885628019)',
  );
  await t.rejects(front.query('LOCK TABLE pdfseal.life IN ROW SHARE MODE'), { code: '42501' });
  const waits: Obstacle[] = [];
  const next = await openInPostgresql({
    location: { urls: [postgres.url(database, 'node')] },
    sequencing: { onWait: (wait) => waits.push(wait), onLost: t.fail },
  });
  t.match(waits[0], { holder: /^process \d+ on / }, 'it waited at first');
  t.equal((await silent.query('SELECT')).rowCount, 1);
  await next.close();
});

t.test('a daemon takes over while a front holds every connection that it gets', async (t) => {
  const postgres = await startPostgres(t, { settings: { max_connections: '40' } });
  await postgres.query('ALTER ROLE pdfseal CREATEROLE');
  const database = await postgres.createDatabase();
  const location = { urls: [postgres.url(database)] };
  await createInPostgresql({ location, identity, epoch });
  await makeRolesInPostgresql(location);
  await postgres.query(`GRANT pdfseal_front TO node; GRANT CONNECT ON DATABASE ${database} TO node`);
  const manual = readFileSync(new URL('../../docs/operate/postgresql.md', import.meta.url), 'utf8');
  const [, limit] = /createuser --pwprompt --connection-limit=(\d+) front1/.exec(manual) ?? [];
  await postgres.query(`ALTER ROLE node CONNECTION LIMIT ${limit}`);

  let held = 0;
  const hold = async (): Promise<string> => {
    const client = new pg.Client({ host: postgres.dir, user: 'node', database });
    t.teardown(() => client.end().catch(() => {}));
    return client.connect().then(
      () => {
        held += 1;
        return hold();
      },
      ({ message }) => message,
    );
  };
  t.match(await hold(), /too many connections for role "node"/);
  t.equal(held, Number(limit));
  const active = await openInPostgresql({ location, sequencing: { onWait: t.fail, onLost: t.fail } });
  const job = sampleJob();
  await active.jobs.accept(job);
  t.strictSame(await active.jobs.waiting(10), [job]);
  await active.close();
});

t.test('a daemon goes on while the disk of the server is full', async (t) => {
  const postgres = await startPostgres(t);
  const database = await postgres.createDatabase();
  const location = { urls: [postgres.url(database)] };
  await createInPostgresql({ location, identity, epoch });
  const lost: Error[] = [];
  const active = await openInPostgresql({
    location,
    sequencing: { onWait: t.fail, onLost: (error) => lost.push(error) },
  });
  t.teardown(() => active.close());
  await postgres.query(
    `CREATE SEQUENCE refused; GRANT USAGE ON refused TO pdfseal;
     CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
       $$ BEGIN PERFORM nextval('public.refused'); RAISE EXCEPTION 'no space left' USING ERRCODE = 'disk_full'; END $$;
     CREATE TRIGGER full_disk BEFORE UPDATE ON pdfseal.life EXECUTE FUNCTION refuse()`,
    database,
  );
  await until('two signs of life were refused', async () => {
    const [row] = await postgres.query('SELECT last_value > 1 AS are FROM refused', database);
    return row?.are === true;
  });
  t.strictSame(lost, []);
  t.equal(await active.log.head(), undefined);
});
