/**
 * Pages of the list of jobs in the two engines of the store, side by side: `node test/bench/listings.ts [--jobs N] [--rounds N] [--dir FOLDER]`.
 * Half of the jobs are of one client, whose pages are read: they are the longest lists.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { Job } from '../../src/job/job.ts';
import { createStoreAt, openContents, openStoreAt, type StoreLocation } from '../../src/store/engines.ts';
import { encodeJob } from '../../src/store/jobCodec.ts';
import { encodeRecord } from '../../src/store/records.ts';
import type { JobQuery, Store } from '../../src/store/store.ts';
import type { Section, StoreEntry } from '../../src/store/storeContents.ts';
import { epoch, identity, leafData, sampleJob } from '../store/samples.ts';
import { type Postgres, startPostgres } from '../support/postgres.ts';
import { number, ratio, table } from './format.ts';
import { percentile } from './stats.ts';
import { Workspace } from './workspace.ts';

const { values } = parseArgs({
  options: {
    jobs: { type: 'string', default: '300000' },
    rounds: { type: 'string', default: '200' },
    limit: { type: 'string', default: '20' },
    dir: { type: 'string', default: '/var/tmp' },
  },
});
const JOBS = Number(values.jobs);
const ROUNDS = Number(values.rounds);
const PAGE_JOBS = 20_000;
/** Pages of one engine before it is the turn of the other. */
const PAGES_PER_TURN = 20;
/** On a machine that others share, the median tells more of them than of the page. */
const SHARE = 0.1;
/** One job each second. */
const SPACING_MS = 1000;
const BEGIN_MS = Date.UTC(2026, 0, 1);
const OTHERS = 50;
/** Of so many jobs, one has the document or the reference that comes again and again. */
const OFTEN = 1000;
const VISIBILITIES = ['private', 'organization', 'partner'] as const;

const hash = (text: string, name = 'sha256') => createHash(name).update(text).digest('hex');

function idOf(n: number): string {
  const time = (BEGIN_MS + n * SPACING_MS).toString(16).padStart(12, '0');
  return `job_${time}7${hash(`${n}`).slice(0, 3)}8${hash(`${n}`).slice(3, 18)}`;
}

function jobOf(n: number): Job {
  const client = n % 2 === 0 ? 'billing' : `client-${n % OTHERS}`;
  const document = n % OFTEN === 0 ? 'often' : `${n}`;
  return sampleJob({
    id: idOf(n),
    clientId: client,
    organization: n % 2 === 0 ? 'acme' : `organization-${n % 10}`,
    visibility: VISIBILITIES[Math.floor(n / 2) % 3] ?? 'private',
    customerReference: n % OFTEN === 2 ? 'often' : `reference ${n}`,
    purpose: 'invoice',
    content: {
      document: { sha256: hash(document), sha512: hash(document, 'sha512'), bytes: 10_000 + n },
      scan: { verdict: 'not_configured' },
    },
    acceptedAt: BEGIN_MS + n * SPACING_MS,
  });
}

/** One job in a hundred failed, and the last thousand wait. */
function outcomeOf(n: number): 'sealed' | 'failed' | 'waiting' {
  if (n >= JOBS - 1000) return 'waiting';
  return n % 100 === 4 ? 'failed' : 'sealed';
}

const key = (n: number) => Buffer.from(idOf(n).slice(4), 'hex');
const FAILURE = encodeRecord({ code: 'source_unreachable', message: 'It is gone.', failedAt: BEGIN_MS });

/** What the store has of these jobs, as both engines take it. */
function* entriesOf(from: number, to: number, leaves: { count: number }): Iterable<[Section, StoreEntry[]]> {
  const all = Array.from({ length: to - from }, (_, n) => from + n);
  yield ['jobs', all.map((n) => ({ key: key(n), value: encodeJob(jobOf(n)) }))];
  const of = (outcome: string) => all.filter((n) => outcomeOf(n) === outcome);
  yield ['failures', of('failed').map((n) => ({ key: key(n), value: FAILURE }))];
  yield ['waiting', of('waiting').map((n) => ({ key: key(n), value: Buffer.alloc(0) }))];
  const sealed = of('sealed').map((n) => {
    const index = Buffer.alloc(8);
    index.writeBigUInt64BE(BigInt(leaves.count++));
    return { key: index, value: Buffer.concat([key(n), leafData(idOf(n))]) };
  });
  yield ['leaves', sealed];
}

async function fill(locations: StoreLocation[]): Promise<void> {
  const contents = await Promise.all(locations.map(openContents));
  const leaves = { count: 0 };
  for (let from = 0; from < JOBS; from += PAGE_JOBS) {
    if (from % (10 * PAGE_JOBS) === 0) console.error(`${from} of ${JOBS} jobs`);
    for (const [section, entries] of entriesOf(from, Math.min(JOBS, from + PAGE_JOBS), leaves))
      if (entries.length > 0) await Promise.all(contents.map((one) => one.add(section, entries)));
  }
  await Promise.all(contents.map((one) => one.close()));
}

const viewer = { clientId: 'billing', organization: 'acme', partnerOf: ['organization-1'] };
/** Of the jobs of the viewer, one that nobody else's document or reference is like. */
const ONE = Math.floor(JOBS / 4) * 2 + 4;
const WINDOW = {
  createdFrom: BEGIN_MS + (JOBS / 4) * SPACING_MS,
  createdTo: BEGIN_MS + (JOBS / 2) * SPACING_MS,
};
const FILTERS: Record<string, Partial<JobQuery>> = {
  none: {},
  'a document': { documentSha256: hash(`${ONE}`) },
  'a document, sealed often': { documentSha256: hash('often') },
  'a reference': { customerReference: `reference ${ONE}` },
  'a reference, used often': { customerReference: 'often' },
  'visibility private': { visibility: 'private' },
  'visibility organization': { visibility: 'organization' },
  'visibility partner': { visibility: 'partner' },
  'phase completed': { outcome: 'sealed' },
  'phase failed': { outcome: 'failed' },
  'phase waiting': { outcome: 'waiting' },
  'a range of time': WINDOW,
  'all but a document and a reference': { ...WINDOW, visibility: 'partner', outcome: 'failed' },
};

/** What one page takes in a store. */
interface Cost {
  ms: number;
  /** Of this process, and of the server. */
  cpuMs: number;
}

/** The processes that serve connections of this one. */
function backendsOf({ pid }: Postgres): string[] {
  const which = ['-P', String(pid), '-f', '^postgres: pdfseal '];
  return spawnSync('pgrep', which, { encoding: 'utf8' }).stdout.trim().split('\n').filter(Boolean);
}

const seen = new Map<string, number>();

/** Processor time of this process and of those, in milliseconds; of those that have ended, what it was last. */
function cpuMs(pids: readonly string[]): number {
  for (const pid of pids) {
    const file = `/proc/${pid}/schedstat`;
    if (existsSync(file)) seen.set(pid, Number.parseInt(readFileSync(file, 'utf8'), 10));
  }
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e3 + pids.reduce((sum, pid) => sum + (seen.get(pid) ?? 0), 0) / 1e6;
}

/** The cost of reading once from each store, taken in turns; and how many jobs it found. */
async function measure(stores: Store[], read: (store: Store) => Promise<number>, postgres: Postgres) {
  const samples = stores.map((): number[] => []);
  const cpu = stores.map(() => 0);
  let found = 0;
  let pids: string[] = [];
  for (let turn = -1; turn < ROUNDS / PAGES_PER_TURN; turn++)
    for (const [n, store] of stores.entries()) {
      const before = cpuMs(pids);
      for (let page = 0; page < PAGES_PER_TURN; page++) {
        const startedAt = performance.now();
        const count = await read(store);
        if (turn >= 0) samples[n]?.push(performance.now() - startedAt);
        if (n > 0 && count !== found) throw new Error('the engines differ');
        found = count;
      }
      if (turn >= 0) cpu[n] = (cpu[n] ?? 0) + cpuMs(pids) - before;
      // Those that the first pages made are there to the end.
      else pids = backendsOf(postgres);
    }
  const costs = samples.map((all, n): Cost => {
    const ms = percentile(Float64Array.from(all).sort(), SHARE);
    return { ms, cpuMs: (cpu[n] ?? 0) / all.length };
  });
  return { costs, found };
}

const workspace = new Workspace(values.dir);
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.once(signal, () => workspace.close().finally(() => process.exit(1)));
try {
  const postgres = await startPostgres(
    { teardown: (undo) => workspace.onClose(undo) },
    { settings: { shared_buffers: '1GB', max_wal_size: '4GB' } },
  );
  const database = await postgres.createDatabase();
  const locations: StoreLocation[] = [
    { engine: 'lmdb', path: join(workspace.dir, 'store') },
    { engine: 'postgresql', urls: [postgres.url(database)] },
  ];
  for (const location of locations) await createStoreAt(location, { identity, epoch });
  const indexes = await postgres.query(
    `SELECT indexname AS name, indexdef AS make FROM pg_indexes WHERE tablename = 'jobs' AND indexname <> 'jobs_pkey'`,
    database,
  );
  // Made in the end, an index takes a fraction of the time.
  for (const { name } of indexes) await postgres.query(`DROP INDEX pdfseal.${name}`, database);
  await fill(locations);
  for (const { make } of indexes) await postgres.query(String(make), database);
  await postgres.query('VACUUM ANALYZE', database);
  await postgres.query('CHECKPOINT');
  const stores = await Promise.all(locations.map((location) => openStoreAt(location, {})));
  workspace.onClose(async () => {
    for (const store of stores) await store.close();
  });
  const reads: [string, (store: Store) => Promise<number>][] = [
    // What the way to a server and back takes at least.
    ['a job by its id', async (store) => ((await store.jobs.get(idOf(ONE))) ? 1 : 0)],
  ];
  for (const [name, filter] of Object.entries(FILTERS)) {
    for (const [place, before] of [
      ['first', undefined],
      ['deep', idOf(Math.floor(JOBS / 3))],
    ] as const) {
      const query = { viewer, limit: Number(values.limit), ...filter, ...(before && { before }) };
      reads.push([`${name}, ${place}`, async (store) => (await store.jobs.list(query)).records.length]);
    }
  }
  const rows: string[][] = [];
  for (const [name, read] of reads) {
    const { costs, found } = await measure(stores, read, postgres);
    const [embedded, far] = costs;
    if (!embedded || !far) continue;
    const figures = [embedded.ms, far.ms].map(number);
    const processor = [embedded.cpuMs, far.cpuMs].map(number);
    rows.push([
      ...[name, `${found}`],
      ...[...figures, ratio(far.ms, embedded.ms)],
      ...[...processor, ratio(far.cpuMs, embedded.cpuMs)],
    ]);
  }
  const header = [
    'filter, page',
    'jobs',
    'lmdb, ms',
    'postgresql',
    'to lmdb',
    'lmdb, CPU ms',
    'postgresql',
    'to lmdb',
  ];
  console.log(table(header, rows));
} finally {
  await workspace.close();
}
