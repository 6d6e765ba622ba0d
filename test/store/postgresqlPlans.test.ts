/** What the server does for the statements that run with every job, in a store with many of them. */
import t, { type Test } from 'tap';
import { encodeJob } from '../../src/store/jobCodec.ts';
import { postgresqlContents } from '../../src/store/postgresql/postgresqlContents.ts';
import { createInPostgresql, openInPostgresql } from '../../src/store/postgresql/postgresqlOpen.ts';
import { startPostgres } from '../support/postgres.ts';
import { until } from '../support/until.ts';
import {
  collected,
  epoch,
  identity,
  sampleBatch,
  sampleEndpoint,
  sampleEntry,
  sampleJob,
} from './samples.ts';

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

/** A server that logs every plan. */
const startExplaining = (t: Test, settings: Record<string, string> = {}) =>
  startPostgres(t, {
    settings: {
      shared_preload_libraries: 'auto_explain',
      'auto_explain.log_min_duration': '0',
      'auto_explain.log_nested_statements': 'on',
      ...settings,
    },
  });

t.test('no statement that runs with every job reads a growing table in full', async (t) => {
  const postgres = await startExplaining(t);
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
    await store.log.batchOf(n);
    await store.jobs.waiting(10);
    const document = { documentSha256: job.content.document.sha256 };
    for (const filter of [
      {},
      document,
      { customerReference: `reference ${n}` },
      { outcome: 'sealed' as const },
      { outcome: 'failed' as const, visibility: 'partner' as const },
    ])
      await store.jobs.list({ viewer, limit: 20, ...filter });
  }

  const plans = plansIn(postgres.log.slice(filled));
  t.ok(plans.length > 10 * REPEATS, `${plans.length} plans`);
  const whole = plans.filter((plan) =>
    /(Seq Scan|Bitmap Heap Scan) on (jobs|leaves|idempotency|batches)\b/.test(plan),
  );
  t.strictSame(whole, []);
});

const PAGED_JOBS = 10_000;
/** A page looks up each of its rows in so many tables at most. */
const READ_PER_ROW_MAX = 8;

/** The later jobs wait; messages are about the earlier ones. */
const fillPaged = (record: Buffer, endpointId: string) => `SET search_path = pdfseal;
  INSERT INTO jobs SELECT lpad(to_hex(n), 32, '0')::uuid, 'billing', 'acme', 'private', sha256(n::text::bytea), NULL,
    '\\x${record.toString('hex')}' FROM generate_series(1, ${PAGED_JOBS}) AS n;
  INSERT INTO leaves SELECT row_number() OVER (ORDER BY id), id, decode(repeat('00', 64), 'hex')
    FROM (SELECT id FROM jobs ORDER BY id LIMIT ${PAGED_JOBS * 0.8}) AS sealed;
  INSERT INTO waiting SELECT id FROM jobs ORDER BY id DESC LIMIT ${PAGED_JOBS * 0.2};
  INSERT INTO outbox SELECT '${endpointId}', 1, id, '\\x00' FROM jobs;
  INSERT INTO batches SELECT n, '\\x00' FROM generate_series(1, ${PAGED_JOBS}) AS n`;

t.test('a page of a list reads only what it returns, whatever precedes or follows it', async (t) => {
  const postgres = await startExplaining(t, {
    plan_cache_mode: 'force_generic_plan',
    'auto_explain.log_analyze': 'on',
    'auto_explain.log_timing': 'off',
  });
  const database = await postgres.createDatabase();
  const location = { urls: [postgres.url(database)] };
  await createInPostgresql({ location, identity, epoch });
  const store = await openInPostgresql({ location });
  t.teardown(() => store.close());
  const endpoint = sampleEndpoint();
  await store.webhooks.endpoints.add(endpoint, 5, null);
  await postgres.query(fillPaged(encodeJob(sampleJob()), endpoint.id.slice(3)), database);
  await postgres.query('VACUUM ANALYZE', database);
  const filled = postgres.log.length;

  t.equal((await collected(store.jobs.all())).length, PAGED_JOBS);
  for (let last: string | undefined; ; ) {
    const waiting = await store.jobs.waiting(100, last);
    last = waiting.at(-1)?.id;
    if (last === undefined) break;
  }
  const viewer = { clientId: 'billing', organization: 'acme', partnerOf: [] };
  for (let before: string | undefined; ; ) {
    const page = await store.jobs.list({ viewer, limit: 500, ...(before && { before }) });
    before = page.next;
    if (before === undefined) break;
  }
  await collected(store.indexes.check());
  const contents = await postgresqlContents(location);
  t.teardown(() => contents.close());
  for (const section of ['jobs', 'leaves', 'outbox'] as const) await collected(contents.pages(section));

  const pages = plansIn(postgres.log.slice(filled)).filter((plan) => /Query Text: [\s\S]*LIMIT/.test(plan));
  t.ok(pages.length > 90, `${pages.length} pages`);
  const wasteful = pages.filter((plan) => {
    const [given = 0] = rowsIn(plan, /^.*\(cost=/);
    const read = rowsIn(plan, /Scan (?:Backward )?(?:using \S+ )?on /).reduce((sum, rows) => sum + rows, 0);
    return read > READ_PER_ROW_MAX * (given + 1);
  });
  t.strictSame(wasteful, []);
});

/** Jobs of that client with these numbers; all have the same reference. */
const fillOf = (client: string, record: Buffer, [from, to]: [number, number]) => `SET search_path = pdfseal;
  INSERT INTO jobs SELECT lpad(to_hex(n), 32, '0')::uuid, '${client}', 'of ${client}', 'partner', sha256(n::text::bytea),
    sha256('often'), '\\x${record.toString('hex')}' FROM generate_series(${from}, ${to}) AS n;
  INSERT INTO leaves SELECT n, lpad(to_hex(n), 32, '0')::uuid, decode(repeat('00', 64), 'hex')
    FROM generate_series(${from}, ${to}) AS n`;

t.test('a page of a list reads only matching jobs, whatever the planner knows', async (t) => {
  const postgres = await startExplaining(t, {
    autovacuum: 'off',
    'auto_explain.log_analyze': 'on',
    'auto_explain.log_timing': 'off',
  });
  const database = await postgres.createDatabase();
  const location = { urls: [postgres.url(database)] };
  await createInPostgresql({ location, identity, epoch });
  const store = await openInPostgresql({ location });
  t.teardown(() => store.close());
  const viewer = { clientId: 'billing', organization: 'of billing', partnerOf: ['a', 'b', 'c'] };
  const filters = [
    {},
    { outcome: 'sealed' as const },
    { visibility: 'partner' as const },
    { createdFrom: 0, customerReference: 'of none' },
  ];
  const isWasteful = (plan: string) => {
    const read = rowsIn(plan, /Index (?:Only )?Scan (?:Backward )?using \S+ on /).reduce((a, b) => a + b, 0);
    return read > READ_PER_ROW_MAX * 21 || /Sort {2}\(|Seq Scan|Bitmap|HashAggregate/.test(plan);
  };
  const wasteful = async () => {
    const before = postgres.log.length;
    for (const filter of filters) await store.jobs.list({ viewer, limit: 20, ...filter });
    const pages = () =>
      plansIn(postgres.log.slice(before)).filter((plan) => /Query Text: [\s\S]*LIMIT/.test(plan));
    await until('the server logged each plan', async () => pages().length === filters.length);
    return pages().filter(isWasteful);
  };

  t.strictSame(await wasteful(), []);
  const job = encodeJob(
    sampleJob({ clientId: 'billing', organization: 'of billing', visibility: 'partner' }),
  );
  await postgres.query(fillOf('other', job, [PAGED_JOBS + 1, 2 * PAGED_JOBS]), database);
  t.strictSame(await wasteful(), [], 'with plans that were made for empty tables');
  await postgres.query('ANALYZE', database);
  t.strictSame(await wasteful(), [], 'where all jobs are of one client');
  await postgres.query(fillOf('billing', job, [1, PAGED_JOBS]), database);
  t.strictSame(await wasteful(), [], 'for a client that came later');
  await postgres.query('ANALYZE', database);
  t.strictSame(await wasteful(), [], 'where half of the jobs are of the client');
});

function plansIn(log: string): string[] {
  return log.split(/(?=LOG: +duration: )/);
}

/** How many rows those steps of a plan gave, or looked at in vain. */
function rowsIn(plan: string, steps: RegExp): number[] {
  return plan.split(/\n(?=[^\n]*\(cost=)/).flatMap((step) => {
    const [, rows, loops] = /\(actual rows=([\d.]+) loops=(\d+)\)/.exec(step) ?? [];
    const [, removed = 0] = /Rows Removed by (?:Filter|Index Recheck): (\d+)/.exec(step) ?? [];
    return steps.test(step) ? [(Number(rows ?? 0) + Number(removed)) * Number(loops ?? 0)] : [];
  });
}
