import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { NAME_PATTERN } from '../../src/base/names.ts';
import { openHashPool } from '../../src/hash/pool.ts';
import { newJobId } from '../../src/job/id.ts';
import type { JobRecord } from '../../src/job/job.ts';
import type { LogKey } from '../../src/log/verifierKey.ts';
import type { TrustFile } from '../../src/manifest/trustFile.ts';
import { openSealer } from '../../src/seal/openSealer.ts';
import { createStore, openStore } from '../../src/store/lmdb/open.ts';
import type { Store } from '../../src/store/store.ts';
import { CANARY_CLIENT, Canary, type CanaryOptions } from '../../src/watch/canary.ts';
import { CHECKPOINT, makeSite, pidOf } from '../support/partitions.ts';
import { firstEpoch, makeJob, makeKey } from '../support/sealing.ts';
import { takeToken } from '../support/tamper.ts';
import { until } from '../support/until.ts';

const ORIGIN = 'seal.example.com/test/2026';

function trusting(keys: LogKey[]): TrustFile {
  const epoch = { notBefore: 0, quorum: { needed: 1 }, timestamps: 'none' as const, keys };
  return { timestampAuthorities: [], logs: [{ origin: ORIGIN, environment: 'env_test', epochs: [epoch] }] };
}

/** A sealer over a real partition, store and hash worker, and canaries for it. */
async function makeHouse(t: Test, options: Partial<CanaryOptions> = {}, queueJobsMax = 100) {
  const site = await makeSite(t, 'ed25519');
  const path = join(t.testdirName, 'store');
  const identity = { environment: 'test', logOrigin: ORIGIN, createdAt: Date.now() };
  await createStore({ path, identity, epoch: firstEpoch(site.keys) });
  const store = await openStore({ path });
  const signing = await site.openSigning(store);
  const logger = pino({ level: 'silent' });
  const fatal: unknown[] = [];
  const onFatal = (error: unknown) => void fatal.push(error);
  const common = { store, clock: Date.now, logger, onFatal };
  const sealer = await openSealer({
    ...common,
    signing,
    requireRecord: async () => undefined,
    queueJobsMax,
    batchJobsMax: 10,
    giveUpAfterMs: 3_600_000,
  });
  const pool = await openHashPool({ workers: 1, engine: 'wasm', onTrouble: onFatal });
  const trust = trusting(site.keys);
  const canaryOptions: CanaryOptions = {
    ...common,
    sealer,
    pool,
    trust: () => trust,
    intervalMs: 3_600_000,
    timeoutMs: 60_000,
    ...options,
  };
  const canary = new Canary(canaryOptions);
  t.teardown(async () => {
    await canary.close();
    await sealer.close();
    await signing.close();
    await pool.close();
    await store.close();
  });
  return { site, store, signing, sealer, canary, fatal, options: canaryOptions };
}

async function jobsIn(store: Store): Promise<JobRecord[]> {
  const records: JobRecord[] = [];
  for await (const record of store.jobs.all()) records.push(record);
  return records;
}

t.test('a canary is sealed like a document, and belongs to no client', async (t) => {
  const { canary, store, sealer, fatal } = await makeHouse(t);
  t.match(canary.status(), { ready: false, newest: undefined, detail: 'the first canary is under way' });
  const run = await canary.run();
  t.match(run, { verified: true, leafIndex: 0, signers: ['region-0/log'], detail: 'sealed and verified' });
  t.match(canary.status(), { ready: true, newest: run, verified: run });
  t.match(await jobsIn(store), [
    {
      job: { id: run.jobId, source: 'canary', clientId: CANARY_CLIENT, visibility: 'private' },
      outcome: { kind: 'sealed' },
    },
  ]);
  t.notMatch(CANARY_CLIENT, NAME_PATTERN, 'no key can be issued in its name');
  t.equal(sealer.waitingCount, 0);
  t.strictSame(fatal, []);
});

t.test('if canaries are off, one runs only on request, and readiness does not depend on it', async (t) => {
  const { canary, store, site, signing } = await makeHouse(t, { intervalMs: Number.POSITIVE_INFINITY });
  const off = { ready: true, detail: 'canaries run on request only' };
  canary.start();
  t.match(canary.status(), { ...off, newest: undefined });
  t.match(await canary.run(), { verified: true });
  takeToken(site.tokens[0] as never);
  await signing.sign(await signing.term(Date.now()), CHECKPOINT).catch(() => {});
  t.match(await canary.run(), { verified: false });
  t.match(canary.status(), { ...off, newest: { verified: false } });
  await new Promise((resolve) => setTimeout(resolve, 1500)); // longer than the pause before the next look
  t.equal((await jobsIn(store)).length, 1, 'and none follows by itself');
});

t.test('while nothing can be sealed, a canary fails and writes nothing', async (t) => {
  const { canary, store, site, signing, sealer } = await makeHouse(t, {}, 1);
  const giveBack = takeToken(site.tokens[0] as never);
  await signing.sign(await signing.term(Date.now()), CHECKPOINT).catch(() => {});
  await sealer.accept(makeJob(newJobId(), { mode: 'async' }));
  t.match(await canary.run(), { verified: false, jobId: undefined, detail: /Too few/ });
  t.notOk(canary.status().ready);
  t.equal((await jobsIn(store)).length, 1);
  giveBack();
  await until('it sings again by itself', () => canary.status().ready);
  t.equal(sealer.waitingCount, 0);
});

t.test('a canary runs despite a full queue, and takes no place in it', async (t) => {
  const { canary, sealer, signing } = await makeHouse(t, {}, 1);
  const pid = pidOf(signing);
  process.kill(pid, 'SIGSTOP');
  t.doesNotThrow(() => sealer.admit('async'));
  await sealer.accept(makeJob(newJobId(), { mode: 'async' }));
  t.throws(() => sealer.admit('async'), { code: 'queue_full' });
  const run = canary.run();
  await sleep(50);
  t.equal(sealer.waitingCount, 1);
  process.kill(pid, 'SIGCONT');
  t.match(await run, { verified: true });
});

t.test('a canary whose receipt does not verify has failed, whatever the sealer says', async (t) => {
  const { privateKey: _, ...stranger } = makeKey('ed25519', 'region-0');
  const { canary } = await makeHouse(t, { trust: () => trusting([stranger]) });
  t.match(await canary.run(), {
    verified: false,
    jobId: /^job_/,
    detail: /does not verify: quorum: the trust file does not know that epoch/,
  });
  t.match(canary.status(), { ready: false, verified: undefined });
});

t.test('a canary that is not sealed in time has failed', async (t) => {
  const { canary, signing } = await makeHouse(t, { intervalMs: 50, timeoutMs: 4000 });
  await canary.run();
  t.ok(canary.status().ready);
  const pid = pidOf(signing);
  process.kill(pid, 'SIGSTOP');
  const isGivenUp = () => canary.status().newest?.detail.includes('not sealed within 4 s') === true;
  await until('it gave up', isGivenUp);
  t.match(canary.status(), { ready: false, verified: { verified: true } });
  process.kill(pid, 'SIGCONT');
  await until('it is well again', () => canary.status().ready);
});

t.test('if a canary hangs, the last success becomes too old', async (t) => {
  const released = Promise.withResolvers<undefined>();
  const house = await makeHouse(t);
  const { store, sealer } = house;
  const hanging = {
    obstacle: () => undefined,
    submit: () => {},
    settled: () => released.promise,
  };
  let sealerNow: CanaryOptions['sealer'] = sealer;
  const canary = new Canary({
    ...house.options,
    intervalMs: 50,
    timeoutMs: 4000,
    sealer: {
      obstacle: () => sealerNow.obstacle(),
      submit: (job) => sealerNow.submit(job),
      settled: (jobId, signal) => sealerNow.settled(jobId, signal),
    },
  });
  await canary.run();
  sealerNow = hanging;
  await until('it is too old', () => !canary.status().ready);
  t.match(canary.status(), {
    detail: 'the last canary that verified is too old',
    newest: { verified: true },
  });
  released.resolve(undefined);
  await canary.close();
  t.ok((await jobsIn(store)).length >= 1);
});
