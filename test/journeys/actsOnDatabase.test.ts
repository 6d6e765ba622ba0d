/** The acts of the table in docs/trust.md that need a database: of a front, and of who owns the tables. */
import pg from 'pg';
import t from 'tap';
import { newJobId } from '../../src/job/id.ts';
import type { ReceivedJob } from '../../src/job/job.ts';
import { encodeJob } from '../../src/store/jobCodec.ts';
import { referenceSha256 } from '../../src/store/postgresql/jobRows.ts';
import { makeRolesInPostgresql } from '../../src/store/postgresql/postgresqlOpen.ts';
import { startPostgres } from '../support/postgres.ts';
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
  'A job is written into PostgreSQL by its owner': {
    noticed: {},
    async do() {
      await as('pdfseal', async (owner) => {
        await owner.query(ADD_JOB, rowOf(job));
        await owner.query('INSERT INTO pdfseal.waiting (job_id) VALUES ($1)', [job.id.slice('job_'.length)]);
      });
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
