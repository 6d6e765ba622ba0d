/**
 * A daemon that is stopped in the middle of a commit, and goes on after another has taken over: with each of the defences taken out, alone and with
 * the others. What is broken then is what the checker of the faults finds.
 */
import { rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import t, { type Test } from 'tap';
import { documentSha256 } from '../../src/job/job.ts';
import { createInPostgresql } from '../../src/store/postgresql/postgresqlOpen.ts';
import type { SealedBatch, Store } from '../../src/store/store.ts';
import { DEFENCES } from '../cluster/mutants.ts';
import { brokenPromises, rootsOf } from '../faults/checker.ts';
import { emptyHistory, type FinalState, type History } from '../faults/history.ts';
import { buildMutant } from '../faults/mutants.ts';
import { TERMS } from '../faults/workload.ts';
import { startPostgres } from '../support/postgres.ts';
import { until } from '../support/until.ts';
import { epoch, identity, leafData, sampleBatch, sampleJob, sampleJobs } from './samples.ts';

type Defence = keyof typeof DEFENCES;

const postgres = await startPostgres(t);
const template = await postgres.createDatabase();
await createInPostgresql({ location: { urls: [postgres.url(template)] }, identity, epoch });

const ALL: Defence[] = ['fence', 'swap', 'keys'];
const subsets = Array.from({ length: 2 ** ALL.length }, (_, bits) => ALL.filter((_, n) => bits & (2 ** n)));

for (const missing of subsets)
  t.test(`a fork needs all defences gone: without ${missing.join(', ') || 'nothing of it'}`, async (t) => {
    const { isLateWritten, refusal, broken } = await goOnAfterTheTurn(t, missing);
    const isForked = missing.length === ALL.length;
    const expected = missing.includes('fence') ? ['nothing acknowledged is lost'] : [];
    t.strictSame(broken, isForked ? [...expected, 'the log only grows'] : expected);
    t.equal(isLateWritten, isForked, 'each defence of the log suffices');
    if (isForked) return;
    // The one that refuses is the first of those that are left.
    const first = ALL.find((one) => !missing.includes(one));
    const message = { fence: /another daemon has taken over/, swap: /the batch begins at 1/, keys: /_pkey/ };
    t.match(refusal, first && message[first]);
  });

async function goOnAfterTheTurn(t: Test, missing: readonly Defence[]) {
  const { dist } = buildMutant(
    missing.join(),
    missing.flatMap((one) => DEFENCES[one]),
  );
  t.teardown(() => rmSync(dirname(dist), { recursive: true }));
  const path = join(dist, 'store/postgresql/postgresqlOpen.js');
  const { openInPostgresql } = (await import(
    path
  )) as typeof import('../../src/store/postgresql/postgresqlOpen.ts');
  const database = await postgres.createDatabase(template);
  const open = async () => {
    const sequencing = { onWait: () => {}, onLost: () => {} };
    const location = { urls: [postgres.url(database)] };
    const store = await openInPostgresql({ location, sequencing, awayMsMax: 120_000 });
    t.teardown(() => store.close());
    return store;
  };

  const history = emptyHistory();
  const jobs = sampleJobs(3);
  const [first, one, other] = jobs.map((job) => [job]);
  if (!first || !one || !other) throw new Error('no jobs');
  const former = await open();
  for (const job of jobs) await former.jobs.accept(job);
  await commit(history, former, batchOf(0, first, []));
  // It has drafted and signed what follows, and is stopped. Another takes over, and seals the rest.
  const drafted = batchOf(1, one, first);
  const next = await takeOver(database, open());
  await commit(history, next, batchOf(1, other, first));
  const late = sampleJob();
  const [accepted] = await Promise.allSettled([former.jobs.accept(late)]);
  if (accepted.status === 'fulfilled')
    history.tries.push({
      client: late.clientId,
      document: documentSha256(late),
      answer: { status: 202, jobId: late.id, phase: 'queued' },
    });
  const refusal = await commit(history, former, drafted).then(
    () => '',
    (error: Error) => error.message,
  );

  const final = await finalState(next);
  // The next one looks for such a job only when it starts.
  const asked = /^(nothing acknowledged is lost|the log only grows)$/;
  const broken = Object.keys(brokenPromises(history, final, TERMS)).filter((name) => asked.test(name));
  return { isLateWritten: refusal === '', refusal, broken };
}

/** Ends the sessions of the daemon that has the turn until another has it: on a busy machine it may be back before the other one looks. */
async function takeOver(database: string, opening: Promise<Store>): Promise<Store> {
  const rows = await postgres.query('SELECT fence FROM pdfseal.sequencer', database);
  let isOpen = false;
  const opened = opening.finally(() => {
    isOpen = true;
  });
  await until('another takes over', async () => {
    const query = `SELECT pg_terminate_backend(session) FROM pdfseal.life WHERE fence = '${rows[0]?.fence}'`;
    await postgres.query(query, database);
    return isOpen;
  });
  return opened;
}

type Jobs = ReturnType<typeof sampleJobs>;

/** The batch of these jobs, with the root of the tree as its daemon sees it. */
function batchOf(firstLeaf: number, jobs: Jobs, before: Jobs): SealedBatch {
  const root = rootsOf([...before, ...jobs].map(({ id }) => leafData(id))).at(-1);
  const { logOrigin: origin } = identity;
  const checkpoint = `${origin}\n${firstLeaf + jobs.length}\n${root}\n\n— ${origin} sig\n`;
  return { ...sampleBatch(firstLeaf, jobs), checkpoint };
}

async function commit(history: History, store: Store, batch: SealedBatch): Promise<void> {
  if (await store.log.commit(batch)) history.checkpoints.push(batch.checkpoint);
}

/** As far as those promises look. */
async function finalState(store: Store): Promise<FinalState> {
  const leaves = await store.log.leaves(0, 100);
  const jobs: FinalState['jobs'] = [];
  for await (const { job, outcome } of store.jobs.all())
    jobs.push({
      id: job.id,
      client: job.clientId,
      document: documentSha256(job),
      outcome: outcome?.kind ?? 'waiting',
    });
  return {
    jobs,
    leaves: leaves.map(({ jobId, data }) => ({ jobId, data: Buffer.from(data).toString('hex') })),
    receipts: {},
    sealedPdfs: {},
    unverified: [],
    wrongSignatures: [],
    checkpoint: (await store.log.head())?.checkpoint ?? '',
    trail: [],
    quotaCounts: [],
    check: { status: 0, output: '' },
    readAt: 0,
    late: [],
  };
}
