/** Who broke into a front has its role in the database: what the daemon that seals makes of what that role can write. */
import { readFileSync } from 'node:fs';
import pg from 'pg';
import t from 'tap';
import { newJobId } from '../../src/job/id.ts';
import type { ReceivedJob } from '../../src/job/job.ts';
import { encodeJob } from '../../src/store/jobCodec.ts';
import { referenceSha256 } from '../../src/store/postgresql/jobRows.ts';
import { encodeRecord } from '../../src/store/records.ts';
import { sampleJob } from '../store/samples.ts';
import { pdfOf } from '../support/app.ts';
import { Client, type JobBody } from '../support/client.ts';
import { startPostgres } from '../support/postgres.ts';
import { until } from '../support/until.ts';
import { installFront, installOn, isProven } from './onDatabase.ts';

const postgres = await startPostgres(t);
const uuid = (jobId: string) => jobId.slice('job_'.length);

t.test('a front cannot make the daemon seal another job, fail a record, or end', async (t) => {
  const first = await installOn(t, postgres);
  let active = await first.start();
  const apiKey = await first.issueKey();
  await installFront(t, postgres, first, 'front');
  const database = /postgresql:\/\/\/(\w+)/.exec(readFileSync(first.configFile, 'utf8'))?.[1] ?? '';
  const front = new pg.Client({ host: postgres.dir, user: 'node', database });
  await front.connect();
  t.teardown(() => front.end());
  await front.query('SET search_path = pdfseal');
  const own = (fields: Partial<ReceivedJob> = {}) =>
    sampleJob({
      ...{ id: newJobId(), clientId: 'quickstart', organization: 'acme', source: 'digest' },
      ...{ acceptedAt: Date.now(), since: 1 },
      ...fields,
    });
  const insert = async (
    job: ReceivedJob,
    record = encodeJob(job),
    reference: Buffer | null = referenceSha256(job.customerReference) ?? null,
  ) => {
    const { id, clientId, organization, visibility, content } = job;
    await front.query(
      'INSERT INTO jobs (id, client_id, organization, visibility, document_sha256, record, reference_sha256) VALUES ($1, $2, $3, $4, $5, $6, $7)',
      [
        uuid(id),
        clientId,
        organization,
        visibility,
        Buffer.from(content.document.sha256, 'hex'),
        record,
        reference,
      ],
    );
    return id;
  };
  const arrive = async (jobId: string) => {
    await front.query('INSERT INTO arrivals VALUES ($1)', [uuid(jobId)]);
    await front.query('NOTIFY pdfseal_accepted');
  };
  /** A record in which what follows by name repeats what has a place of its own. */
  const overriding = (job: ReceivedJob, others: object) => {
    const parsed = JSON.parse(encodeJob(job).subarray(8).toString());
    return encodeRecord([...parsed.slice(0, 5), { ...parsed[5], ...others }]);
  };

  const honest = own();
  const forger = own();
  const withSource = own();
  await active.stop();
  await insert(honest);
  await arrive(honest.id);
  await insert(forger, overriding(forger, { id: honest.id, clientId: '_audit' }));
  await arrive(forger.id);
  const nobody = own();
  await insert(nobody, overriding(nobody, { id: newJobId() }));
  await arrive(nobody.id);
  await insert(withSource);
  await front.query('INSERT INTO sources VALUES ($1, $2)', [
    uuid(withSource.id),
    encodeRecord('https://files.example.com/'),
  ]);
  await arrive(withSource.id);
  for (const acceptedAt of [0, Date.UTC(2001, 0), Date.UTC(9998, 0), 9e15])
    await t.rejects(insert(own({ acceptedAt })), { code: '42501' }, `dated ${acceptedAt}`);
  const hidden = own({ customerReference: 'a' });
  await t.rejects(insert(hidden, encodeJob(hidden), null), { code: '42501' }, 'not found by its reference');

  active = await first.start();
  let isOver = false;
  const claiming = (async () => {
    while (!isOver) {
      const { rows } = await front.query('SELECT job_id FROM waiting');
      for (const { job_id } of rows)
        await front.query('INSERT INTO arrivals VALUES ($1) ON CONFLICT DO NOTHING', [job_id]);
      await front.query(
        `SELECT pg_notify('pdfseal_accepted', n::text), pg_notify('pdfseal_nodes', n::text) FROM generate_series(1, 1000) n`,
      );
    }
  })();
  for (const name of ['one', 'two', 'three']) await first.issueKey(name);
  const client = await Client.connect(first.url, apiKey);
  const job = (await client.seal(pdfOf('one'), { mode: 'blocking' })).json<JobBody>();
  t.ok(await isProven(client, first, job.id), 'it goes on');
  t.ok(await isProven(client, first, honest.id), 'an honest job is sealed as it was accepted');
  await until('nothing waits', async () => {
    const { rows } = await front.query(
      'SELECT FROM waiting UNION ALL SELECT FROM arrivals WHERE job_id NOT IN (SELECT job_id FROM leaves)',
    );
    return rows.length === 0;
  });
  await until('it listens to it no longer', () => active.log.some(({ event }) => event === 'nodes_flooded'));
  isOver = true;
  await claiming;
  t.equal(active.child.exitCode, null);
  const { rows } = await front.query('SELECT job_id FROM failures');
  t.ok(
    rows.every(({ job_id }) => uuid(withSource.id) === job_id.replaceAll('-', '')),
    'no job of anybody else failed',
  );
  t.equal(await active.stop(), 0);
  await arrive(job.id);
  const check = await first.pdfseal(['check', '--config', first.configFile]);
  t.equal(check.status, 0, check.stdout + check.stderr);
});
