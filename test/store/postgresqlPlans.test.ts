/** What the server does for the statements that run with every job, in a store with many of them. */
import t from 'tap';
import { createInPostgresql, openInPostgresql } from '../../src/store/postgresql/postgresqlOpen.ts';
import { startPostgres } from '../support/postgres.ts';
import { epoch, identity, sampleBatch, sampleEntry, sampleJob } from './samples.ts';

const JOBS = 50_000;
/** From the sixth time on, a prepared statement can have a plan that is not for its values. */
const REPEATS = 8;

/** Jobs and leaves of others, which nothing here reads. */
const FILL = `INSERT INTO pdfseal.jobs SELECT gen_random_uuid(), 'client-' || n % 50, 'organization-' || n % 10,
    CASE n % 3 WHEN 0 THEN 'private' WHEN 1 THEN 'organization' ELSE 'partner' END,
    sha256(n::text::bytea), sha256(n::text::bytea), decode(repeat('00', 800), 'hex') FROM generate_series(1, ${JOBS}) AS n;
  INSERT INTO pdfseal.leaves SELECT 1000000000 + row_number() OVER (), id, decode(repeat('00', 64), 'hex') FROM pdfseal.jobs;
  INSERT INTO pdfseal.idempotency SELECT sha256(n::text::bytea), gen_random_uuid(), n, '\\x00' FROM generate_series(1, ${JOBS}) AS n;
  INSERT INTO pdfseal.batches SELECT -n, '\\x00' FROM generate_series(1, ${JOBS}) AS n;
  ANALYZE`;

t.test('no statement that runs with every job reads a table that grows from end to end', async (t) => {
  const postgres = await startPostgres(t, {
    settings: {
      shared_preload_libraries: 'auto_explain',
      'auto_explain.log_min_duration': '0',
      'auto_explain.log_nested_statements': 'on',
    },
  });
  const database = await postgres.createDatabase();
  const location = { urls: [postgres.url(database)] };
  await createInPostgresql({ location, identity, epoch });
  const store = await openInPostgresql({ location, sequencing: { onWait: () => {}, onLost: t.fail } });
  t.teardown(() => store.close());
  await postgres.query(FILL, database);
  const filled = postgres.log.length;

  const viewer = { clientId: 'billing', organization: 'acme', partnerOf: ['organization-of-nobody'] };
  for (let n = 0; n < REPEATS; n++) {
    const job = sampleJob({ customerReference: `reference ${n}` });
    const entry = sampleEntry(job);
    await store.jobs.accept(job, { idempotency: entry });
    await store.jobs.idempotency(entry);
    await store.log.commit(sampleBatch(n, [job]));
    await store.jobs.get(job.id);
    await store.log.head();
    await store.jobs.waiting(10);
    const document = { documentSha256: job.content.document.sha256 };
    for (const filter of [
      {},
      document,
      { customerReference: `reference ${n}` },
      { outcome: 'sealed' as const },
    ])
      await store.jobs.list({ viewer, limit: 20, ...filter });
  }

  const plans = postgres.log.slice(filled).split(/(?=LOG: +duration: )/);
  t.ok(plans.length > 10 * REPEATS, `${plans.length} plans`);
  const whole = plans.filter((plan) =>
    /(Seq Scan|Bitmap Heap Scan) on (jobs|leaves|idempotency|batches)\b/.test(plan),
  );
  t.strictSame(whole, []);
});
