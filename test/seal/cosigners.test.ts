/** Where witnesses must cosign: nothing is released before, and nothing that they have seen is ever thrown away. */
import { join } from 'node:path';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { newJobId } from '../../src/job/id.ts';
import type { Job, Outcome, ReceivedJob } from '../../src/job/job.ts';
import type { ReadTile } from '../../src/log/tiles.ts';
import { loadEdge, rootOf } from '../../src/log/tree.ts';
import type { Cosigners } from '../../src/seal/cosigners.ts';
import { openSealer } from '../../src/seal/openSealer.ts';
import type { Sealer, SealerOptions } from '../../src/seal/sealer.ts';
import { createStore, openStore } from '../../src/store/lmdb/open.ts';
import type { LogStore, Store } from '../../src/store/store.ts';
import { makeSite } from '../support/partitions.ts';
import { firstEpoch, makeJob } from '../support/sealing.ts';
import { until } from '../support/until.ts';

const ORIGIN = 'seal.example.com/test/2026';
const NEVER = new AbortController().signal;

/** Witnesses who cosign when they are let. Two checkpoints of one size are a fork, and so is one that does not follow. */
class HeldCosigners implements Cosigners {
  readonly seen: string[] = [];
  forks = 0;
  accepts = true;
  isAway = false;
  #free = Promise.withResolvers<void>();
  releases = 0;
  readonly #roots = new Map<string, string>();

  accept = () => this.accepts;
  canCosign = () => !this.isAway;
  released = () => {
    this.releases += 1;
  };
  recovered = (signal: AbortSignal) => until('witnesses are back', () => !this.isAway || signal.aborted);

  async cosign(checkpoint: string, readTile: ReadTile, signal: AbortSignal): Promise<boolean> {
    const [, size = '', root = ''] = checkpoint.split('\n');
    const told = Buffer.from(rootOf(await loadEdge(Number(size), readTile))).toString('base64');
    if (told !== root || (this.#roots.get(size) ?? root) !== root) this.forks += 1;
    this.#roots.set(size, root);
    this.seen.push(checkpoint);
    const aborted = new Promise<boolean>((resolve) => signal.addEventListener('abort', () => resolve(false)));
    return Promise.race([this.#free.promise.then(() => true), aborted]);
  }

  let(): void {
    this.#free.resolve();
  }

  hold(): void {
    this.#free = Promise.withResolvers<void>();
  }
}

async function makeHouse(t: Test) {
  const site = await makeSite(t, 'ed25519');
  const path = join(t.testdirName, 'store');
  const identity = { environment: 'test', logOrigin: ORIGIN, createdAt: Date.now() };
  await createStore({ path, identity, epoch: firstEpoch(site.keys) });
  const store = await openStore({ path });
  t.teardown(() => store.close());
  const signing = await site.openSigning(store, { clock: Date.now });
  const fatal: unknown[] = [];
  const open = async (options: Partial<SealerOptions>) => {
    const sealer = await openSealer({
      store,
      signing,
      requireRecord: async () => undefined,
      queueJobsMax: 1000,
      batchJobsMax: 100,
      giveUpAfterMs: 3_600_000,
      clock: Date.now,
      logger: pino({ level: 'silent' }),
      onFatal: (error) => fatal.push(error),
      ...options,
    });
    t.teardown(() => sealer.close());
    return sealer;
  };
  return { store, open, fatal };
}

const job = (mode: Job['mode'] = 'async') => makeJob(newJobId(), { mode }) as ReceivedJob;
const sizeOf = async ({ log }: Store) => (await log.head())?.treeSize ?? 0;
const settled = (sealer: Sealer, one: Job): Promise<Outcome | undefined> => sealer.settled(one.id, NEVER);

t.test('no result of a batch is released before witnesses have cosigned it', async (t) => {
  const { store, open } = await makeHouse(t);
  const cosigners = new HeldCosigners();
  const sealer = await open({ cosigners });
  const [first, blocking, late] = [job(), job('blocking'), job('blocking')];
  sealer.submit(blocking);
  await sealer.accept(first);
  await until('it is shown', () => cosigners.seen.length === 1);
  t.equal(await sizeOf(store), 0, 'it is no part of the log');
  t.equal(sealer.phase({ job: first }), 'sealing');
  t.equal((await store.jobs.get(first.id))?.outcome, undefined);
  t.equal(await sealer.settled(blocking.id, AbortSignal.timeout(5)), undefined, 'its caller stops waiting');
  t.ok(await store.jobs.get(blocking.id), 'it goes on as an asynchronous one');
  sealer.submit(late);
  cosigners.let();
  for (const one of [first, blocking, late]) t.match(await settled(sealer, one), { kind: 'sealed' });
  t.equal(await sizeOf(store), 3);
  t.equal(cosigners.releases, cosigners.seen.length);
  t.equal(cosigners.forks, 0);
  t.equal(await store.log.announced(), undefined);
});

t.test('while witnesses are away, requests are refused and jobs wait', async (t) => {
  const { store, open } = await makeHouse(t);
  const cosigners = new HeldCosigners();
  cosigners.let();
  cosigners.isAway = true;
  const sealer = await open({ cosigners });
  const [waiting, dropped] = [job(), job('blocking')];
  await sealer.accept(waiting);
  sealer.submit(dropped);
  await t.rejects(settled(sealer, dropped), { code: 'witness_unavailable' });
  t.throws(() => sealer.admit('blocking'), { code: 'witness_unavailable', retryAfterSeconds: Number });
  t.doesNotThrow(() => sealer.admit('async'));
  t.equal(await store.jobs.get(dropped.id), undefined, 'it never was');
  t.equal(cosigners.seen.length, 0);
  cosigners.isAway = false;
  t.match(await settled(sealer, waiting), { kind: 'sealed' });
});

t.test('a batch that no witness would accept is not announced, and is drafted again', async (t) => {
  const { store, open } = await makeHouse(t);
  const cosigners = new HeldCosigners();
  cosigners.let();
  cosigners.accepts = false;
  let asked = 0;
  cosigners.accept = () => {
    asked += 1;
    cosigners.isAway = asked < 2;
    return asked > 2;
  };
  const sealer = await open({ cosigners });
  const [dropped, waiting] = [job('blocking'), job()];
  sealer.submit(dropped);
  await t.rejects(settled(sealer, dropped), { code: 'witness_unavailable' });
  cosigners.isAway = false;
  await sealer.accept(waiting);
  t.match(await settled(sealer, waiting), { kind: 'sealed' });
  t.ok(asked >= 3);
  t.equal(await sizeOf(store), 1);
  t.equal(cosigners.forks, 0);
});

for (const isRequired of [true, false]) {
  t.test(
    `a batch announced before a stop is the next, with witnesses ${isRequired ? 'required' : 'no longer required'}`,
    async (t) => {
      const { store, open } = await makeHouse(t);
      const cosigners = new HeldCosigners();
      const first = await open({ cosigners });
      const shown = [job('blocking'), job()];
      for (const one of shown) first.submit(one);
      await until('it is shown', () => cosigners.seen.length === 1);
      await first.close();
      t.equal(await sizeOf(store), 0);
      t.same(
        (await store.log.announced())?.jobIds,
        shown.map(({ id }) => id),
      );
      // It sorts before the others, and waits all the same.
      const other = { ...job(), id: newJobId().replace(/^job_./, 'job_0') };
      await store.jobs.accept(other);
      cosigners.let();
      const second = await open(isRequired ? { cosigners } : {});
      for (const one of [...shown, other]) t.match(await settled(second, one), { kind: 'sealed' });
      t.equal((await store.log.batchOf(0))?.treeSize, 2, 'the batch is as it was');
      t.equal((await store.log.batchOf(0))?.checkpoint, cosigners.seen[0]);
      t.equal(cosigners.forks, 0);
      t.equal(await store.log.announced(), undefined);
    },
  );
}

t.test('in a fork, the announced batch is neither sealed nor failed', async (t) => {
  const { store, open } = await makeHouse(t);
  const cosigners = new HeldCosigners();
  const first = await open({ cosigners });
  const shown = job();
  first.submit(shown);
  await until('it is shown', () => cosigners.seen.length === 1);
  await first.close();
  cosigners.let();
  const second = await open({ cosigners, isForked: () => true, giveUpAfterMs: 0 });
  const failed = job();
  await second.accept(failed);
  t.match(await settled(second, failed), { kind: 'failed', failure: { code: 'fork_alarm' } });
  t.equal((await store.jobs.get(shown.id))?.outcome, undefined);
  t.equal(second.phase({ job: shown }), 'sealing');
  await second.close();
  const third = await open({ cosigners });
  t.match(await settled(third, shown), { kind: 'sealed', leafIndex: 0 });
  t.equal(cosigners.forks, 0);
});

const STEPS = ['announce', 'commit'] as const;
for (const step of STEPS) {
  for (const persist of [false, true]) {
    t.test(
      `${step} fails, ${persist ? 'persisted but errored' : 'not persisted'}: nothing that was seen is lost`,
      async (t) => {
        const { store, open, fatal } = await makeHouse(t);
        const cosigners = new HeldCosigners();
        cosigners.let();
        const faulty: LogStore = Object.assign(Object.create(store.log), {
          commit: store.log.commit.bind(store.log),
          announce: store.log.announce.bind(store.log),
          announced: store.log.announced.bind(store.log),
          head: store.log.head.bind(store.log),
          tile: store.log.tile.bind(store.log),
          batchOf: store.log.batchOf.bind(store.log),
          [step]: async (batch: never) => {
            if (persist) await store.log[step](batch);
            throw new Error('the disk said no');
          },
        });
        const sealer = await open({ store: { ...store, log: faulty }, cosigners });
        const [blocking, other] = [job('blocking'), job()];
        sealer.submit(blocking);
        await until('it is fatal', () => fatal.length > 0);
        const again = await open({ cosigners });
        await again.accept(other);
        t.match(await settled(again, other), { kind: 'sealed' });
        t.match(await settled(again, blocking), { kind: 'sealed' });
        t.equal(await sizeOf(store), 2);
        t.equal(cosigners.forks, 0, 'no witness has seen two trees of one size');
      },
    );
  }
}

t.test('a batch drafted before a change of the epochs is not shown to witnesses', async (t) => {
  const { store, open } = await makeHouse(t);
  const cosigners = new HeldCosigners();
  cosigners.let();
  let isFirst = true;
  const { list, revision } = await store.epochs.newest();
  const log: LogStore = Object.assign(Object.create(store.log), {
    head: store.log.head.bind(store.log),
    tile: store.log.tile.bind(store.log),
    commit: store.log.commit.bind(store.log),
    announced: store.log.announced.bind(store.log),
    announce: async (batch: Parameters<LogStore['announce']>[0]) => {
      const [epoch] = list;
      if (isFirst && epoch)
        await store.epochs.change([epoch, { ...epoch, from: Date.now() + 1e9 }], revision, null);
      isFirst = false;
      return store.log.announce(batch);
    },
  });
  const sealer = await open({ store: { ...store, log }, cosigners });
  const one = job();
  await sealer.accept(one);
  t.match(await settled(sealer, one), { kind: 'sealed' });
  t.equal(cosigners.seen.length, 1);
  t.equal(await sizeOf(store), 1);
});
