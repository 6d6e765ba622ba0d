/** The acts of the table in acts.md that need a database: of a front, and of who owns the tables. */
import pg from 'pg';
import t from 'tap';
import { newJobId } from '../../src/job/id.ts';
import type { ReceivedJob } from '../../src/job/job.ts';
import { encodeJob } from '../../src/store/jobCodec.ts';
import { referenceSha256 } from '../../src/store/postgresql/jobRows.ts';
import { makeRolesInPostgresql, openInPostgresql } from '../../src/store/postgresql/postgresqlOpen.ts';
import { startPostgres } from '../support/postgres.ts';
import { randomBytes } from '../support/seed.ts';
import { type Act, actsTable, prove } from './noticers.ts';
import { makeWholeLog, own } from './wholeLog.ts';

const postgres = await startPostgres(t);
const database = await postgres.createDatabase();
const url = postgres.url(database);
const log = await makeWholeLog(t, `engine = "postgresql"\nurl = "${url}"`);
await postgres.query('ALTER ROLE pdfseal CREATEROLE');
await makeRolesInPostgresql({ urls: [url] });

/** As a front accepts it now. */
const job: ReceivedJob = { ...own, id: newJobId(), acceptedAt: Date.now(), since: 1 };
const ADD_JOB = `INSERT INTO pdfseal.jobs (id, client_id, organization, visibility, document_sha256, record, reference_sha256)
  VALUES ($1, $2, $3, $4, $5, $6, $7)`;

function rowOf(one: ReceivedJob, reference = referenceSha256(one.customerReference)): unknown[] {
  const { id, clientId, organization, visibility, content } = one;
  const sha256 = Buffer.from(content.document.sha256, 'hex');
  return [
    id.slice('job_'.length),
    clientId,
    organization,
    visibility,
    sha256,
    encodeJob(one),
    reference ?? null,
  ];
}

/** Runs statements as that role of the database. */
async function as(role: string, work: (client: pg.Client) => Promise<unknown>): Promise<void> {
  const client = new pg.Client({ host: postgres.dir, user: 'postgres', database });
  await client.connect();
  try {
    await client.query(`SET ROLE ${role}`);
    await work(client);
  } finally {
    await client.end();
  }
}

function writeAsOwner(one: ReceivedJob): Promise<void> {
  return as('pdfseal', async (owner) => {
    await owner.query(ADD_JOB, rowOf(one));
    await owner.query('INSERT INTO pdfseal.waiting (job_id) VALUES ($1)', [one.id.slice('job_'.length)]);
  });
}

const ACTS: Record<string, Act> = {
  'A front dates a job, or hides its reference from searches': {
    noticed: {},
    async do(t) {
      await as('pdfseal_front', async (front) => {
        for (const acceptedAt of [0, Date.UTC(9998, 0)])
          await t.rejects(front.query(ADD_JOB, rowOf({ ...job, acceptedAt })), { code: '42501' });
        await t.rejects(front.query(ADD_JOB, rowOf(job, Buffer.alloc(32))), { code: '42501' });
      });
    },
  },
  'A front accepts a job in the name of another client': {
    noticed: {},
    async do() {
      const stolen = { ...job, id: newJobId(), clientId: 'billing' };
      await as('pdfseal_front', async (front) => {
        await front.query(ADD_JOB, rowOf(stolen));
        await front.query('INSERT INTO pdfseal.arrivals VALUES ($1)', [stolen.id.slice('job_'.length)]);
      });
    },
  },
  'A job is written into PostgreSQL by its owner, without an acceptance key': {
    noticed: {},
    async do() {
      await writeAsOwner(job);
    },
  },
  'A job is written into PostgreSQL by its owner, with an acceptance key': {
    noticed: {},
    async do(t) {
      const forged = { ...job, id: newJobId() };
      await writeAsOwner(forged);
      const store = await openInPostgresql({
        location: { urls: [url] },
        sequencing: { onWait: t.fail, onLost: t.fail },
        acceptanceKeys: [randomBytes(32)],
      });
      const faults = await store.acceptances?.faults([forged]);
      await store.close();
      t.match(faults?.get(forged.id), /MAC/, 'the daemon fails it');
    },
  },
};

for (const [name, cells] of actsTable()) {
  const act = ACTS[name];
  if (act) t.test(name, (t) => prove(t, log, act, cells));
}

t.test('every act on a database that the table names is done here', async (t) => {
  const named = [...actsTable().keys()].filter((name) => /PostgreSQL|front/.test(name));
  t.strictSame(Object.keys(ACTS).sort(), named.sort());
});
