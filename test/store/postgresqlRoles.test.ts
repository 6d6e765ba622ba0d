/** What the database lets each role do, and what not, as that role. */
import { readFileSync } from 'node:fs';
import pg from 'pg';
import t, { type Test } from 'tap';
import { presentJob } from '../../src/http/presentJob.ts';
import { documentSha256, type Job } from '../../src/job/job.ts';
import type { Act } from '../../src/manifest/auditRecord.ts';
import { encodeJob, parseJob } from '../../src/store/jobCodec.ts';
import { referenceSha256 } from '../../src/store/postgresql/jobRows.ts';
import {
  createInPostgresql,
  makeRolesInPostgresql,
  openInPostgresql,
} from '../../src/store/postgresql/postgresqlOpen.ts';
import { encodeRecord } from '../../src/store/records.ts';
import { type Postgres, startPostgres } from '../support/postgres.ts';
import { epoch, identity, sampleCredential, sampleEntry, sampleJob, sampleUrlJob } from './samples.ts';

const postgres = await startPostgres(t);

async function makeStore(): Promise<string> {
  const database = await postgres.createDatabase();
  await createInPostgresql({ location: { urls: [postgres.url(database)] }, identity, epoch });
  return database;
}

/** Runs statements as that role, each rolled back. */
async function actAs(t: Test, server: Postgres, database: string, role: string) {
  const client = new pg.Client({ host: server.dir, user: 'postgres', database });
  await client.connect();
  t.teardown(() => client.end());
  await client.query(`SET search_path = pdfseal; SET ROLE ${role}`);
  return async (sql: string, values: unknown[] = []): Promise<string> => {
    await client.query('BEGIN');
    try {
      const { rowCount } = await client.query(sql, values);
      return `${rowCount} rows`;
    } catch (error) {
      return (error as { code: string }).code;
    } finally {
      await client.query('ROLLBACK');
    }
  };
}

const DENIED = '42501';
const REFUSED = '23514';
const ADD_JOB = `INSERT INTO jobs (id, client_id, organization, visibility, document_sha256, record, reference_sha256)
  VALUES ($1, $2, 'acme', 'private', $3, $4, $5)`;
const now = () => ({ acceptedAt: Date.now() });
const uuidOf = ({ id }: Job) => id.slice('job_'.length);
/** The parameters of a job as a front writes it, or with another record. */
const rowOf = (job: Job, record = encodeJob(job)) => [
  uuidOf(job),
  job.clientId,
  Buffer.from(documentSha256(job), 'hex'),
  record,
  referenceSha256(job.customerReference) ?? null,
];

t.test('roles are made if the user may do so, and otherwise named in the remedy', async (t) => {
  const database = await makeStore();
  const location = { urls: [postgres.url(database)] };
  await t.rejects(makeRolesInPostgresql(location), {
    name: 'OperatorError',
    remedy:
      /CREATE ROLE pdfseal_front NOLOGIN; CREATE ROLE pdfseal_seal NOLOGIN; CREATE ROLE pdfseal_admin NOLOGIN$/,
  });
  await postgres.query('ALTER ROLE pdfseal CREATEROLE');
  await makeRolesInPostgresql(location);
  await postgres.query('ALTER ROLE pdfseal NOCREATEROLE');
  await makeRolesInPostgresql(location);
});

t.test('a front can accept jobs and read what the API shows, and change nothing else', async (t) => {
  const database = await makeStore();
  const store = await openInPostgresql({ location: { urls: [postgres.url(database)] } });
  const old = sampleJob();
  await store.jobs.accept(old, { idempotency: sampleEntry(old) });
  const replaced = sampleCredential({ id: 'key_0123456789abcdef' });
  const salts = [{ keyHash: replaced.keyHash, salt: 'c2FsdHNhbHQ=', endsAt: 5 }];
  const rotation: Act = { act: 'key.rotate', actor: { via: 'command' }, object: {}, outcome: 'done' };
  await store.credentials.change(() => ({ credentials: [replaced], salts, act: rotation }));
  await store.close();
  const act = await actAs(t, postgres, database, 'pdfseal_front');
  const tables = await postgres.query(
    `SELECT relname AS name FROM pg_class WHERE relnamespace = 'pdfseal'::regnamespace AND relkind = 'r'`,
    database,
  );

  const may: Record<string, string[]> = { INSERT: [], UPDATE: [], DELETE: [], TRUNCATE: [], SELECT: [] };
  for (const { name } of tables) {
    if ((await act(`SELECT * FROM ${name}`)) !== DENIED) may.SELECT?.push(String(name));
    if ((await act(`DELETE FROM ${name}`)) !== DENIED) may.DELETE?.push(String(name));
    if ((await act(`TRUNCATE ${name} CASCADE`)) !== DENIED) may.TRUNCATE?.push(String(name));
    if ((await act(`INSERT INTO ${name} DEFAULT VALUES`)) !== DENIED) may.INSERT?.push(String(name));
    const [column] = await postgres.query(
      `SELECT attname AS name FROM pg_attribute WHERE attrelid = 'pdfseal.${name}'::regclass AND attnum = 1`,
      database,
    );
    const set = `UPDATE ${name} SET ${column?.name} = DEFAULT`;
    if ((await act(set)) !== DENIED) may.UPDATE?.push(String(name));
  }
  t.strictSame(may.DELETE, []);
  t.strictSame(may.TRUNCATE, []);
  t.strictSame(may.UPDATE, [], 'no key of a row');
  for (const { name } of tables) t.equal(await act(`LOCK TABLE ${name} IN SHARE MODE`), DENIED, `${name}`);
  t.strictSame(may.SELECT?.toSorted(), [
    'arrivals',
    'batches',
    'contents',
    'copies',
    'credentials',
    'epochs',
    'failures',
    'idempotency',
    'jobs',
    'leaves',
    'life',
    'log_head',
    'notes',
    'quotas',
    'renewal_rows',
    'renewals',
    'revisions',
    'tiles',
    'waiting',
  ]);
  for (const name of ['leaves', 'tiles', 'batches', 'log_head', 'failures', 'contents', 'waiting', 'epochs'])
    t.notOk(may.INSERT?.includes(name), `no row in ${name}`);
  for (const name of ['credentials', 'trail', 'sequencer', 'endpoints', 'outbox', 'notes', 'revisions'])
    t.notOk(may.INSERT?.includes(name), `no row in ${name}`);

  const readable = may.SELECT?.map((name) => `SELECT FROM ${name} AS one WHERE one::text LIKE $1`).join(
    ' UNION ALL ',
  );
  const hexOf = (text: string) => [`%${Buffer.from(text).toString('hex')}%`];
  t.equal(await act(readable ?? '', hexOf(replaced.id)), '1 rows', 'a front reads the key that was replaced');
  t.equal(
    await act(readable ?? '', hexOf('c2FsdHNhbHQ=')),
    '0 rows',
    'but not what makes the next key from it',
  );

  const job = sampleJob(now());
  const uuid = job.id.slice(4);
  t.equal(await act(ADD_JOB, rowOf(job)), '1 rows');
  t.equal(await act(ADD_JOB, rowOf({ ...job, clientId: 'somebody' }, encodeJob(job))), DENIED);
  t.equal(await act(ADD_JOB, rowOf(job, Buffer.from('garbage'))), DENIED);
  const long = { ...job, customerReference: 'x'.repeat(40_000) };
  t.equal(await act(ADD_JOB, rowOf(long)), DENIED, 'nor one that is longer than any request makes');
  for (const source of ['audit', 'canary'] as const)
    t.equal(await act(ADD_JOB, rowOf({ ...job, source })), DENIED, `no ${source}`);
  const minute = 60_000;
  const present = Date.now();
  for (const acceptedAt of [0, present - 6 * minute, present + 6 * minute, Date.UTC(9998, 0)])
    t.equal(await act(ADD_JOB, rowOf({ ...job, acceptedAt })), DENIED, `not dated ${acceptedAt}`);
  for (const acceptedAt of [present - minute, present + minute])
    t.equal(await act(ADD_JOB, rowOf({ ...job, acceptedAt })), '1 rows');
  const referenced = rowOf({ ...job, customerReference: 'a' });
  t.equal(await act(ADD_JOB, referenced), '1 rows');
  const hidden = [...referenced.slice(0, 4), null];
  t.equal(await act(ADD_JOB, hidden), DENIED, 'nor one that is not found by its reference');
  t.equal(await act(ADD_JOB, [...rowOf(job).slice(0, 4), referenced[4]]), DENIED, 'or by that of another');
  const nil = { ...job, id: `job_${''.padEnd(32, '0')}` };
  t.equal(await act(ADD_JOB, rowOf(nil)), REFUSED);
  const source = 'INSERT INTO sources VALUES ($1, $2)';
  t.equal(await act(source, [uuid, encodeRecord('https://example.com/a.pdf')]), '1 rows');
  t.equal(await act(source, [uuid, Buffer.from('x')]), DENIED);
  t.equal(await act('INSERT INTO arrivals VALUES ($1)', [old.id.slice(4)]), '1 rows');
  t.equal(await act('INSERT INTO arrivals VALUES ($1)', [uuid]), '23503', 'of a job that is there');
  const claim = 'INSERT INTO idempotency VALUES ($1, $2, 0, $3)';
  const entry = sampleEntry(old);
  t.equal(await act(claim, [Buffer.of(1), old.id.slice(4), encodeRecord(entry)]), '1 rows');
  t.equal(await act(claim, [Buffer.of(1), uuid, encodeRecord(entry)]), DENIED, 'of another job');
  const missing = encodeRecord(sampleEntry(job));
  t.equal(await act(claim, [Buffer.of(1), uuid, missing]), DENIED, 'of a job that is not there');
  const dated = `INSERT INTO arrivals (job_id, arrived_at) VALUES ($1, '2001-01-01')`;
  t.equal(await act(dated, [old.id.slice(4)]), DENIED, 'nor at another time');
  const login = `INSERT INTO arrivals (job_id, accepted_by) VALUES ($1, 'another')`;
  t.equal(await act(login, [old.id.slice(4)]), DENIED, 'in the name of another front');

  t.equal(await act(`INSERT INTO quotas VALUES ('billing', 'default', 0, 1, 1)`), '1 rows');
  t.equal(await act(`INSERT INTO quotas VALUES ('billing', 'default', 0, 1, -1)`), REFUSED);
  await postgres.query(`INSERT INTO pdfseal.quotas VALUES ('billing', 'default', 0, 1, 5)`, database);
  t.equal(await act('UPDATE quotas SET jobs = 6'), '1 rows');
  t.equal(await act('UPDATE quotas SET jobs = 4'), DENIED, 'nothing is counted less');
  t.equal(await act('UPDATE quotas SET ends_at = 2'), DENIED);
  const seal = await actAs(t, postgres, database, 'pdfseal_seal');
  t.equal(await seal('UPDATE quotas SET jobs = 4'), '1 rows', 'but a repair can');

  t.equal(await act('SELECT * FROM notes'), '1 rows', 'the identity, and no batch that nobody may see yet');
  t.equal(await act('SELECT fence FROM sequencer'), DENIED);
  t.equal(await act('SELECT holder FROM sequencer'), '1 rows');
  t.equal(await act('SELECT holder FROM sequencer FOR KEY SHARE'), DENIED, 'it holds up no take-over');
  t.equal(await act('SELECT FROM life FOR KEY SHARE'), DENIED);
  t.equal(await act('SELECT id, client_id, told FROM endpoints'), '0 rows');
  t.equal(await act('SELECT record FROM endpoints'), DENIED, 'it has the secrets of clients');
  t.equal(await act('SELECT record FROM sources'), DENIED, 'it may have secrets of clients');
  t.equal(await act('CREATE TABLE own ()'), DENIED);
});

t.test('any job that a front can write can be read and shown', async (t) => {
  const database = await makeStore();
  const act = await actAs(t, postgres, database, 'pdfseal_front');
  const quota = { name: 'default', startsAt: 0, endsAt: 86_400_000 };
  const customerReference = `"'\u0001\\u0000 ${'😀'.repeat(400)}`;
  const jobs: Job[] = [
    sampleJob(now()),
    sampleJob({ ...now(), purpose: 'p', customerReference, quota, since: 5, dated: true }),
    sampleUrlJob({ ...now(), quota, since: 5 }),
  ];
  const site = { environment: 'sandbox', publicUrl: 'https://seal.example.com' };
  let accepted = 0;
  for (const job of jobs) {
    t.equal(await act(ADD_JOB, rowOf({ ...job, ...now() })), '1 rows');
    const parsed = JSON.parse(encodeJob(job).subarray(8).toString());
    for (const place of placesIn(parsed)) {
      parsed[4] = Date.now();
      for (const value of [null, true, 9e15, -1, 1.5, 'x', [], [1], {}, undefined]) {
        const record = encodeRecord(withAt(parsed, place, value));
        if ((await act(ADD_JOB, rowOf(job, record))) !== '1 rows') continue;
        accepted += 1;
        const read = parseJob(job.id, record);
        const about = `${place.join('.')}: ${JSON.stringify(value)}`;
        t.doesNotThrow(() => presentJob({ job: read }, 'sealing', site), about);
        t.ok(read.acceptedAt <= Date.UTC(9999, 11, 31, 23, 59, 59, 999), about);
        for (const text of [read.purpose, read.customerReference, read.clientId, read.traceId])
          t.ok(['string', 'undefined'].includes(typeof text), about);
      }
    }
  }
  t.ok(accepted > 20, 'what is examined later');
});

/** Where there is a value in an array or an object, at any depth. */
function placesIn(value: unknown): string[][] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, of]) => [
    [name],
    ...placesIn(of).map((rest) => [name, ...rest]),
  ]);
}

/** A copy with another value there, or with none. */
function withAt(whole: object, place: readonly string[], value: unknown): object {
  const copy = structuredClone(whole);
  const last = place.at(-1) ?? '';
  const at = place.slice(0, -1).reduce((of, name) => of[name] as Tree, copy as Tree);
  if (value === undefined && !Array.isArray(at)) delete at[last];
  else at[last] = value;
  return copy;
}

type Tree = { [name: string]: unknown };

t.test('the sealing role writes rows but not tables, and the role of commands not the log', async (t) => {
  const database = await makeStore();
  const seal = await actAs(t, postgres, database, 'pdfseal_seal');
  t.equal(await seal('UPDATE log_head SET tree_size = 1'), '1 rows');
  t.equal(await seal('SELECT * FROM notes'), '1 rows');
  t.equal(await seal('CREATE TABLE own ()'), DENIED);
  t.equal(await seal('DROP TABLE leaves'), DENIED);
  const admin = await actAs(t, postgres, database, 'pdfseal_admin');
  for (const table of ['leaves', 'tiles', 'batches', 'log_head', 'failures', 'sequencer'])
    t.equal(await admin(`DELETE FROM ${table}`), DENIED, table);
  t.equal(await admin('DELETE FROM credentials'), '0 rows');
  t.equal(await admin('SELECT * FROM leaves'), '0 rows');
});

t.test('daemon and commands work as members of their roles', async (t) => {
  const database = await makeStore();
  await postgres.query('GRANT pdfseal_seal TO node');
  await postgres.query(`GRANT CONNECT ON DATABASE ${database} TO node`);
  const location = { urls: [postgres.url(database, 'node')] };
  const sequencing = { onWait: t.fail, onLost: t.fail };
  const store = await openInPostgresql({ location, sequencing });
  const job = sampleJob();
  await store.jobs.accept(job, { idempotency: sampleEntry(job) });
  t.strictSame(await store.jobs.waiting(10), [job]);
  await store.close();
  await postgres.query('REVOKE pdfseal_seal FROM node; GRANT pdfseal_admin TO node');
  await t.rejects(openInPostgresql({ location, sequencing }), { message: /the role "node" may not use/ });
  const commands = await openInPostgresql({ location });
  await commands.trail.append({ act: 'key.issue', actor: { via: 'command' }, object: {}, outcome: 'done' });
  t.equal(await commands.trail.newest(), 1);
  await commands.close();
  await postgres.query('REVOKE pdfseal_admin FROM node');
});

t.test('a database of any earlier layout gets tables and rights', async (t) => {
  for (const layout of [3, 4, 5]) {
    const database = await postgres.createDatabase();
    const files = [3, 4, 5].slice(0, layout - 2).map((n) => `../../src/store/postgresql/00${n}.sql`);
    await postgres.query(
      `SET ROLE pdfseal; CREATE SCHEMA pdfseal; SET search_path = pdfseal;
       ${files.map((file) => readFileSync(new URL(file, import.meta.url), 'utf8')).join('')}
       COMMENT ON SCHEMA pdfseal IS 'pdfseal layout ${layout}';
       INSERT INTO notes VALUES ('identity', ${literal(encodeRecord({ schema: layout, ...identity }))});
       INSERT INTO epochs VALUES (0, ${literal(encodeRecord([epoch]))})`,
      database,
    );
    const job = sampleJob({ since: 1 });
    const own = sampleJob({ since: 1 });
    const insert = (one: Job) => {
      const [id, client, document, record] = rowOf(one);
      return `INSERT INTO pdfseal.jobs (id, client_id, organization, visibility, document_sha256, record)
        VALUES ('${id}', '${client}', 'acme', 'private', ${literal(document)}, ${literal(record)});`;
    };
    await postgres.query(
      `${insert(job)} ${insert(own)}
       INSERT INTO pdfseal.arrivals VALUES ('${uuidOf(job)}');
       INSERT INTO pdfseal.waiting VALUES ('${uuidOf(own)}');
       ${layout < 5 ? '' : 'UPDATE pdfseal.arrivals SET arrived_at = NULL'}`,
      database,
    );
    const strange = 'x"\\,"successorSalt":"y😀\u0001';
    const replaced = sampleCredential({ clientId: strange, serviceEnd: 1_750_000_000_123 });
    const salted = encodeRecord({ ...replaced, successorSalt: 'c2Fs/HN+bHQ=' });
    const untouched = sampleCredential({ clientId: strange });
    const damaged = sampleCredential();
    const bytes = Buffer.concat([encodeRecord({}), Buffer.from(',"successorSalt":"c2Fs"')]);
    const keys = [
      [replaced, layout < 4 ? salted : encodeRecord(replaced)],
      [untouched, encodeRecord(untouched)],
      [damaged, bytes],
    ] as const;
    for (const [{ keyHash }, record] of keys)
      await postgres.query(
        `INSERT INTO pdfseal.credentials VALUES (${literal(Buffer.from(keyHash, 'hex'))}, ${literal(record)})`,
        database,
      );
    const location = { urls: [postgres.url(database)] };
    await t.rejects(openInPostgresql({ location }), { code: 'older_store' });
    const sequencing = { onWait: t.fail, onLost: t.fail };
    const store = await openInPostgresql({ location, sequencing, acceptanceKeys: [Buffer.alloc(32, 1)] });
    t.equal((await store.acceptances?.faults([own]))?.size, 1);
    const act: Act = { act: 'jobs.take_over', actor: { via: 'daemon' }, object: {}, outcome: 'done' };
    t.equal(await store.acceptances?.takeOver(() => act), 2, 'what waited before');
    t.equal((await store.acceptances?.faults([own]))?.size, 0);
    t.strictSame(
      await store.arrivals?.look(() => false, 10),
      [{ jobId: job.id, job }],
      'what waits is still found, however long ago it was accepted',
    );
    const { credentials } = store;
    t.strictSame(await credentials.get(replaced.keyHash), replaced, 'without its salt');
    t.strictSame(await credentials.get(untouched.keyHash), untouched);
    await t.rejects(credentials.get(damaged.keyHash), { message: /is damaged/ }, 'damage is not hidden');
    if (layout < 4) {
      t.equal(await credentials.saltOf(replaced.keyHash), 'c2Fs/HN+bHQ=');
      t.equal(await credentials.sweepSalts(1_750_000_000_122, 10), 0);
      t.equal(await credentials.sweepSalts(1_750_000_000_123, 10), 1);
    }
    await store.close();
    const front = await actAs(t, postgres, database, 'pdfseal_front');
    t.equal(await front('SELECT * FROM notes'), '1 rows');
    t.equal(await front(ADD_JOB, rowOf(sampleJob(now()))), '1 rows');
  }
});

function literal(bytes: unknown): string {
  return `'\\x${(bytes as Buffer).toString('hex')}'`;
}
