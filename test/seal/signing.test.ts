import { join } from 'node:path';
import t, { type Test } from 'tap';
import { newJobId } from '../../src/job/id.ts';
import { initKey } from '../../src/kms/keyOperations.ts';
import type { Epoch } from '../../src/log/epochs.ts';
import { readReceipt } from '../../src/prove/trail/receipts.ts';
import { openSealer } from '../../src/seal/openSealer.ts';
import type { SealerOptions } from '../../src/seal/sealer.ts';
import type { SigningOptions } from '../../src/seal/signing.ts';
import { createStore, openStore } from '../../src/store/lmdb/open.ts';
import { CHECKPOINT, isAlive, item, makeSite, NEVER, pidOf } from '../support/partitions.ts';
import { firstEpoch, makeJob } from '../support/sealing.ts';
import { until } from '../support/until.ts';

const ORIGIN = 'seal.example.com/test';
const BEGIN = Date.parse('2026-03-01T00:00:00.000Z');
const SWITCH = BEGIN + 86_400_000;

/** Two partitions with a key for each of two epochs; the second key of the second partition is its first. */
async function makeHouse(t: Test, change: Partial<Epoch> = {}) {
  const site = await makeSite(t, 'ed25519', 'ed25519');
  const [one, two] = [item(site.tokens, 0), item(site.tokens, 1)];
  const newOne = await initKey({ ...one, keyLabel: 'log-2' }, 'ed25519');
  const first = firstEpoch(site.keys, { from: BEGIN });
  const second: Epoch = {
    ...firstEpoch([newOne, item(site.keys, 1)], { from: SWITCH, ...change }),
    keys: [
      { ...newOne, partition: one.keyLabel },
      { ...item(site.keys, 1), partition: two.keyLabel },
    ],
  };
  const path = join(t.testdirName, 'store');
  await createStore({
    path,
    identity: { environment: 'test', logOrigin: ORIGIN, createdAt: BEGIN },
    epoch: first,
  });
  const store = await openStore({ path });
  t.teardown(() => store.close());
  let now = BEGIN + 1000;
  const clock = () => now;
  const open = (options: Partial<SigningOptions> = {}) =>
    site.openSigning(store, { clock, watchIntervalMs: 20, ...options });
  const seal = async (options: Partial<SealerOptions> & Pick<SealerOptions, 'signing'>) => {
    const sealer = await openSealer({
      store,
      requireRecord: async () => undefined,
      queueJobsMax: 100,
      batchJobsMax: 100,
      giveUpAfterMs: 3_600_000,
      clock,
      logger: site.logger,
      onFatal: (error) => t.fail(String(error)),
      ...options,
    });
    t.teardown(() => sealer.close());
    return sealer;
  };
  return { site, store, first, second, newOne, open, seal, clock, setTime: (ms: number) => (now = ms) };
}

t.test(
  'a planned epoch is opened ahead, begins to the millisecond, and retires the former keys',
  async (t) => {
    const { store, first, second, open, setTime } = await makeHouse(t);
    const signing = await open();
    const [oldPid, keptPid] = [pidOf(signing, 0), pidOf(signing, 1)];
    const early = await signing.term(BEGIN + 1000);
    t.match(early, { epoch: { from: BEGIN }, end: Infinity });
    await store.epochs.change([first, second], 0, null);
    const last = await signing.term(SWITCH - 1);
    t.match(last, { epoch: { from: BEGIN }, end: SWITCH, revision: 1 });
    setTime(SWITCH - 1);
    t.strictSame(
      (await signing.sign(last, CHECKPOINT))?.map(({ keyLabel }) => keyLabel),
      ['log', 'log'],
    );

    setTime(SWITCH);
    t.equal(await signing.sign(last, CHECKPOINT), undefined, 'an epoch that is over signs nothing');
    const next = await signing.term(SWITCH);
    t.match(next, { epoch: { from: SWITCH }, end: Infinity });
    await until('the new keys are open', () => signing.status().every(({ state }) => state === 'ready'));
    t.strictSame(
      (await signing.sign(next, CHECKPOINT))?.map(({ keyLabel }) => keyLabel),
      ['log-2', 'log'],
    );
    t.equal(await signing.sign(last, CHECKPOINT), undefined, 'nor do its keys ever again');
    await until('the old child is gone', () => !isAlive(oldPid));
    t.equal(pidOf(signing, 1), keptPid, 'a key that stays keeps its child');
  },
);

t.test('the epoch changes over by itself while nothing is sealed', async (t) => {
  const { store, first, second, open, setTime } = await makeHouse(t);
  const signing = await open();
  await store.epochs.change([first, second], 0, null);
  await until('it is seen', () => signing.epochs.revision === 1);
  t.equal(signing.epoch.from, BEGIN);
  setTime(SWITCH);
  await until('it has changed over', () => signing.epoch.from === SWITCH);
  await until('it can sign', () => signing.canSign());
});

t.test('a task that waits for a quorum is notified of the new epoch', async (t) => {
  const { store, first, second, open, setTime } = await makeHouse(t);
  const signing = await open();
  t.intercept(signing, 'canSign', { value: () => false });
  await store.epochs.change([first, { ...second, quorum: { needed: 2 } }], 0, null);
  for (const { region } of signing.status())
    await signing.partitions.withdraw(`${region}/log`, { belowQuorum: true });
  const recovered = signing.recovered(NEVER);
  setTime(SWITCH);
  await t.resolves(recovered);
  t.equal(signing.epoch.from, SWITCH);
});

t.test('a cancelled epoch never begins, and its keys are closed', async (t) => {
  const { site, store, first, second, open, setTime } = await makeHouse(t);
  await store.epochs.change([first, second], 0, null);
  const signing = await open();
  await until('it was opened', () => /log-2.*partition ready/.test(site.log()));
  await store.epochs.change([first], 1, null);
  await until('it is seen', () => signing.epochs.revision === 2);
  t.match(site.log(), /the planned epoch was cancelled/);
  setTime(SWITCH);
  const term = await signing.term(SWITCH);
  t.strictSame(
    (await signing.sign(term, CHECKPOINT))?.map(({ keyLabel }) => keyLabel),
    ['log', 'log'],
  );
});

t.test(
  'a change of the epochs, like a beginning, is announced before anything is signed under it',
  async (t) => {
    const { store, first, second, open, setTime } = await makeHouse(t);
    const gate = Promise.withResolvers<void>();
    const told: string[] = [];
    const signing = await open({
      watchIntervalMs: 3_600_000,
      onChange: async () => {
        told.push('change');
        await gate.promise;
      },
      onBegin: ({ from }) => told.push(`begin ${from}`),
    });
    await store.epochs.change([first, second], 0, null);
    setTime(SWITCH);
    const term = signing.term(SWITCH);
    await until('it is told', () => told.length > 0);
    t.equal(signing.epochs.revision, 0, 'until that is done, the old list counts');
    gate.resolve();
    t.match(await term, { epoch: { from: SWITCH }, revision: 1 });
    await signing.term(SWITCH + 1);
    t.strictSame(told, ['change', `begin ${SWITCH}`]);
  },
);

t.test('a process that starts in a later epoch opens only its keys', async (t) => {
  const { site, store, first, second, open, setTime } = await makeHouse(t);
  await store.epochs.change([first, second], 0, null);
  setTime(SWITCH);
  const signing = await open();
  t.strictSame(
    signing.status().map(({ keyLabel }) => keyLabel),
    ['log-2', 'log'],
  );
  t.equal(site.log().match(/partition ready/g)?.length, 2);
});

t.test('a planned partition that the configuration lacks is reported', async (t) => {
  const { site, store, first, second, open } = await makeHouse(t);
  await store.epochs.change([first, second], 0, null);
  await open({ partitions: site.tokens.slice(0, 1) });
  t.match(
    site.log(),
    /"partitions":\["region-1\/log"\],"msg":"the planned epoch has partitions that are not in this process/,
  );
});

t.test('a batch that the switch overtakes is drafted again, under the new epoch', async (t) => {
  const { site, store, first, second, newOne, open, seal, clock, setTime } = await makeHouse(t);
  const signing = await open();
  await store.epochs.change([first, second], 0, null);
  await until('the new keys are open', () => /"partition":"[^"]+\/log-2".*partition ready/.test(site.log()));
  setTime(SWITCH - 1);
  // The clock strikes while the old keys sign.
  const sign = signing.sign.bind(signing);
  let struck = 0;
  t.intercept(signing, 'sign', {
    value: async (...args: Parameters<typeof sign>) => {
      const signatures = sign(...args);
      if (struck++ === 0) setTime(SWITCH + 5);
      return signatures;
    },
  });
  const sealer = await seal({ signing });
  const job = makeJob(newJobId(), { acceptedAt: clock() });
  await sealer.accept(job);
  t.match(await sealer.settled(job.id, NEVER), { kind: 'sealed' });
  const receipt = await readReceipt(store, job, 0);
  t.equal(receipt.sealed_at, new Date(SWITCH + 5).toISOString());
  t.equal(receipt.kms_key_id, `region-0/${newOne.keyLabel}`);
});

t.test('a plan that is made while a batch is under way has it drafted again', async (t) => {
  const { store, first, second, open, seal, clock } = await makeHouse(t);
  const signing = await open();
  const sign = signing.sign.bind(signing);
  const revisions: number[] = [];
  t.intercept(signing, 'sign', {
    value: async (...args: Parameters<typeof sign>) => {
      revisions.push(args[0].revision);
      if (revisions.length === 1) await store.epochs.change([first, second], 0, null);
      return sign(...args);
    },
  });
  const sealer = await seal({ signing });
  const job = makeJob(newJobId(), { acceptedAt: clock() });
  await sealer.accept(job);
  t.match(await sealer.settled(job.id, NEVER), { kind: 'sealed' });
  t.strictSame(revisions, [0, 1]);
});

t.test('an epoch that requires time-stamps seals nothing without them', async (t) => {
  const { store, first, second, open, seal, clock, setTime } = await makeHouse(t, { timestamps: 'required' });
  await store.epochs.change([first, second], 0, null);
  setTime(SWITCH);
  const signing = await open();
  const sealer = await seal({ signing, giveUpAfterMs: 3_600_000 });
  t.throws(() => sealer.admit('blocking'), { code: 'timestamp_unavailable' });
  const job = makeJob(newJobId(), { mode: 'async', acceptedAt: clock() });
  await sealer.accept(job);
  t.equal(await sealer.settled(job.id, AbortSignal.timeout(100)), undefined);
  t.equal(await store.log.head(), undefined);
});

t.test('a clock behind the epoch in force does not back-date a batch', async (t) => {
  const { store, first, second, open, seal, clock, setTime } = await makeHouse(t);
  await store.epochs.change([first, second], 0, null);
  setTime(SWITCH);
  const signing = await open();
  setTime(SWITCH - 60_000);
  const sealer = await seal({ signing });
  const job = makeJob(newJobId(), { acceptedAt: clock() });
  await sealer.accept(job);
  t.match(await sealer.settled(job.id, NEVER), { kind: 'sealed' });
  t.equal((await store.log.head())?.sealedAt, SWITCH);
});

t.test('with a clock behind an epoch that requires time-stamps, nothing is signed in vain', async (t) => {
  const { store, first, second, open, seal, clock, setTime } = await makeHouse(t, { timestamps: 'required' });
  await store.epochs.change([first, second], 0, null);
  setTime(SWITCH);
  const signing = await open();
  setTime(SWITCH - 60_000);
  const signed = t.capture(signing, 'sign', signing.sign);
  const timestamping = {
    stamp: async () => ({ token: '', certificates: [] }),
    sealed: () => {},
    canStamp: () => true,
    recovered: async () => {},
  };
  const sealer = await seal({ signing, timestamping });
  const job = makeJob(newJobId(), { mode: 'async', acceptedAt: clock() });
  await sealer.accept(job);
  t.equal(await sealer.settled(job.id, AbortSignal.timeout(300)), undefined);
  t.equal(signed().length, 0);
  setTime(SWITCH + 1);
  t.match(await sealer.settled(job.id, NEVER), { kind: 'sealed' });
});
