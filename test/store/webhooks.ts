import type { Test } from 'tap';
import type { Job } from '../../src/job/job.ts';
import { actOfProcess } from '../../src/store/acts.ts';
import type { Store } from '../../src/store/store.ts';
import type { Delivery, DeliveryFailure, NewEndpoint } from '../../src/store/webhookStore.ts';
import type { MakeStore } from './contract.ts';
import { START_MS, sampleBatch, sampleEndpoint, sampleJob, sampleJobs } from './samples.ts';

const FAILURE: DeliveryFailure = { at: START_MS + 1, reason: 'http_500' };
const ALL = { limit: 1000 };

/** The part of the contract that `src/store/webhookStore.ts` states. */
export async function webhooks(t: Test, makeStore: MakeStore): Promise<void> {
  t.test('endpoints are added, changed and removed, each change under the next revision', async (t) => {
    const { store, reopen } = await makeStore(t);
    const [first, second] = [sampleEndpoint(), sampleEndpoint({ clientId: 'claims' })];
    t.equal(await store.webhooks.endpoints.revision(), 0);
    t.same(await store.webhooks.endpoints.all(), []);
    t.equal(await store.webhooks.endpoints.add(first, 5, null), true);
    t.equal(await store.webhooks.endpoints.add(second, 5, null), true);
    const changed = await store.webhooks.endpoints.change(
      first.id,
      (one) => ({
        ...one,
        url: 'https://b.example',
      }),
      null,
    );
    t.same(changed, { ...first, url: 'https://b.example', revision: 3 });
    const act = { act: 'webhook.enable', actor: { via: 'daemon' }, object: {}, outcome: 'done' } as const;
    const before = await store.trail.newest();
    t.same(
      await store.webhooks.endpoints.change(first.id, () => undefined, act),
      changed,
      'it is so already',
    );
    t.equal(await store.trail.newest(), before, 'nothing is recorded');
    t.equal(await store.webhooks.endpoints.remove(second.id, null), true);
    const opened = await reopen();
    t.same(await opened.webhooks.endpoints.all(), [changed]);
    t.same(await opened.webhooks.endpoints.all('claims'), []);
    t.equal(await opened.webhooks.endpoints.revision(), 4);
    for (const id of [second.id, 'we_', '', 'we___proto__', first.id.toUpperCase()]) {
      t.equal(await opened.webhooks.endpoints.get(id), undefined, id);
      t.equal(await opened.webhooks.endpoints.remove(id, null), false);
      t.equal(await opened.webhooks.endpoints.change(id, (one) => one, null), undefined);
      t.equal(await opened.webhooks.outbox.test(id), undefined);
      t.equal(await opened.webhooks.outbox.replay(id, undefined, null), 0);
      t.same(await opened.webhooks.outbox.pending(id, ALL), []);
    }
  });

  t.test(
    'the endpoints of a client are bounded in number, and no concurrent change of them is lost',
    async (t) => {
      const { store } = await makeStore(t);
      const drawn = Array.from({ length: 8 }, () => sampleEndpoint());
      const added = await Promise.all(
        drawn.map((endpoint) => store.webhooks.endpoints.add(endpoint, 3, null)),
      );
      t.equal(added.filter(Boolean).length, 3);
      t.equal(await store.webhooks.endpoints.add(sampleEndpoint({ clientId: 'other' }), 3, null), true);
      const [{ id } = { id: '' }] = await store.webhooks.endpoints.all('billing');
      const append = (text: string) =>
        store.webhooks.endpoints.change(
          id,
          (one) => ({ ...one, description: (one.description ?? '') + text }),
          null,
        );
      await Promise.all(['a', 'b', 'c'].map(append));
      t.equal([...((await store.webhooks.endpoints.get(id))?.description ?? '')].sort().join(''), 'abc');
    },
  );

  t.test('concurrent changes are decided once each, in the order of their arrival', async (t) => {
    const { store } = await makeStore(t);
    const [busy, other] = [sampleEndpoint(), sampleEndpoint({ clientId: 'claims' })];
    for (const endpoint of [busy, other]) await store.webhooks.endpoints.add(endpoint, 5, null);
    const decided: string[] = [];
    const change = ({ id }: NewEndpoint) =>
      store.webhooks.endpoints.change(
        id,
        (one) => {
          decided.push(one.clientId);
          return one;
        },
        null,
      );
    const flood = Array.from({ length: 40 }, () => change(busy));
    await change(other);
    t.equal(decided.length, 41);
    t.equal(decided.at(-1), 'claims');
    await Promise.all(flood);
  });

  t.test('the outcome of a job queues its notifications in the same transaction', async (t) => {
    const { store, reopen } = await makeStore(t, () => START_MS + 5);
    const all = sampleEndpoint();
    const failed = sampleEndpoint({ events: ['job.failed'] });
    const disabled = sampleEndpoint({ disabled: { at: START_MS, reason: 'gone' } });
    const other = sampleEndpoint({ clientId: 'claims' });
    for (const endpoint of [all, failed, disabled, other])
      await store.webhooks.endpoints.add(endpoint, 5, null);
    t.equal(await store.webhooks.endpoints.isListening('billing', 'job.completed'), true);
    t.equal(await store.webhooks.endpoints.isListening('zeta', 'job.completed'), false);
    const queued: (readonly string[])[] = [];
    store.webhooks.outbox.onQueued((ids) => void queued.push(ids));

    const jobs = [...sampleJobs(3), sampleJob({ clientId: 'zeta' })];
    await Promise.all(jobs.map((job) => store.jobs.accept(job)));
    await store.log.commit(
      sampleBatch(
        0,
        jobs.filter((_, n) => n !== 1),
      ),
    );
    await store.jobs.fail(jobs[1]?.id ?? '', {
      code: 'internal_error',
      message: 'x',
      failedAt: START_MS + 3,
    });
    t.same(queued, [[all.id], [all.id, failed.id]]);

    const opened = await reopen();
    const toAll = await opened.webhooks.outbox.pending(all.id, ALL);
    t.same(toAll, [
      told(all, jobs[0], 'job.completed', START_MS + 3),
      told(all, jobs[1], 'job.failed', START_MS + 3),
      told(all, jobs[2], 'job.completed', START_MS + 3),
    ]);
    t.same(await opened.webhooks.outbox.pending(failed.id, ALL), [
      told(failed, jobs[1], 'job.failed', START_MS + 3),
    ]);
    for (const { id } of [disabled, other]) t.same(await opened.webhooks.outbox.pending(id, ALL), []);
    t.same(await pages(opened, all.id, 2), toAll);
    t.match(await opened.webhooks.outbox.tally(all.id), { pending: 3, deadLetters: 0, dropped: 0 });
    const pending = (await opened.webhooks.outbox.tallies([failed.id, 'we_x', all.id])).map(
      (one) => one.pending,
    );
    t.same(pending, [1, 0, 3], 'of several, in their order');
  });

  t.test('a refused batch queues nothing', async (t) => {
    const { store } = await makeStore(t);
    const endpoint = sampleEndpoint();
    await store.webhooks.endpoints.add(endpoint, 1, null);
    const jobs = sampleJobs(2);
    await Promise.all(jobs.map((job) => store.jobs.accept(job)));
    await t.rejects(store.log.commit(sampleBatch(5, jobs)));
    t.same(await store.webhooks.outbox.pending(endpoint.id, ALL), []);
  });

  t.test('a batch of another epoch changes no count, even if it would have filled a backlog', async (t) => {
    const { store } = await makeStore(t, () => START_MS, { backlogMax: 2 });
    const endpoint = sampleEndpoint();
    await store.webhooks.endpoints.add(endpoint, 1, null);
    const jobs = sampleJobs(5);
    await Promise.all(jobs.map((job) => store.jobs.accept(job)));
    const batch = sampleBatch(0, jobs);
    const { list, revision } = await store.epochs.newest();
    await store.epochs.change(list, revision, null);
    const none = { pending: 0, deadLetters: 0, dropped: 0, droppedFrom: undefined, droppedTo: undefined };
    for (let n = 0; n < 3; n++) {
      t.equal(await store.log.commit(batch), false);
      t.match(await store.webhooks.outbox.tally(endpoint.id), none);
    }
    await store.log.commit({ ...batch, epochsRevision: revision + 1 });
    t.match(await store.webhooks.outbox.tally(endpoint.id), { pending: 2, deadLetters: 2, dropped: 1 });
    t.equal((await store.webhooks.outbox.pending(endpoint.id, ALL)).length, 2);
    t.equal((await store.webhooks.outbox.deadLetters(endpoint.id, ALL)).length, 2);
  });

  t.test('the counts of an endpoint stay right during changes and deliveries', async (t) => {
    const { store } = await makeStore(t);
    const { endpoint } = await withPending(store, 40);
    const pending = await store.webhooks.outbox.pending(endpoint.id, ALL);
    for (const delivery of pending) {
      const change = store.webhooks.endpoints.change(endpoint.id, (one) => one, null);
      await new Promise((resolve) => setImmediate(resolve));
      // The change is on its way to the disk, what is counted meanwhile goes with the next commit.
      const settled = store.webhooks.outbox.settle(delivery, { kind: 'delivered' });
      await change;
      await store.webhooks.outbox.tally(endpoint.id);
      await settled;
    }
    t.match(await store.webhooks.outbox.tally(endpoint.id), { pending: 0, delivered: 40 });
  });

  t.test('a delivery is sent, is due again, or is given up, under the same id', async (t) => {
    const { store, reopen } = await makeStore(t, () => START_MS + 9);
    const { endpoint, jobs } = await withPending(store, 3);
    const [sent, again, dead] = (await store.webhooks.outbox.pending(endpoint.id, ALL)) as [
      Delivery,
      Delivery,
      Delivery,
    ];
    await store.webhooks.outbox.settle(sent, { kind: 'delivered' });
    await store.webhooks.outbox.settle(again, { kind: 'retry', dueAt: START_MS + 5000, failure: FAILURE });
    await store.webhooks.outbox.settle(dead, { kind: 'dead', failure: FAILURE });
    const opened = await reopen();
    t.same(await opened.webhooks.outbox.pending(endpoint.id, ALL), [
      { ...again, at: START_MS + 5000, attempts: 1, failure: FAILURE },
    ]);
    const letters = await opened.webhooks.outbox.deadLetters(endpoint.id, ALL);
    t.same(letters, [{ ...dead, at: START_MS + 9, attempts: 1, failure: FAILURE, death: 'exhausted' }]);
    t.match(await opened.webhooks.outbox.tally(endpoint.id), {
      pending: 1,
      deadLetters: 1,
      delivered: 1,
      deliveredAt: START_MS + 9,
      failures: 2,
      failure: FAILURE,
    });
    t.equal(dead.webhookId, `msg_${jobs[2]?.id.slice(4)}`);

    const act = actOfProcess('command', 'webhook.replay', { endpoint: endpoint.id });
    const before = await opened.webhooks.endpoints.get(endpoint.id);
    t.equal(await opened.webhooks.outbox.replay(endpoint.id, ['msg_unknown'], act), 0);
    t.same(await opened.webhooks.endpoints.get(endpoint.id), before);
    t.same(await opened.trail.entries(0, 1), [], 'nothing is on record where nothing was done');
    t.equal(await opened.webhooks.outbox.replay(endpoint.id, [dead.webhookId], null), 1);
    t.same((await opened.webhooks.outbox.pending(endpoint.id, ALL))[0], { ...dead, at: START_MS + 9 });
    t.same(await opened.webhooks.outbox.deadLetters(endpoint.id, ALL), []);
    t.equal(await opened.webhooks.outbox.replay(endpoint.id, undefined, null), 0);
  });

  t.test('settling an entry that is gone adds none', async (t) => {
    const { store } = await makeStore(t);
    const { endpoint } = await withPending(store, 1);
    const [delivery] = (await store.webhooks.outbox.pending(endpoint.id, ALL)) as [Delivery];
    await store.webhooks.outbox.settle(delivery, { kind: 'delivered' });
    await store.webhooks.outbox.settle(delivery, { kind: 'retry', dueAt: START_MS, failure: FAILURE });
    t.same(await store.webhooks.outbox.pending(endpoint.id, ALL), []);
    await store.webhooks.endpoints.remove(endpoint.id, null);
    await store.webhooks.outbox.settle(delivery, { kind: 'dead', failure: FAILURE });
    t.same(await store.webhooks.outbox.deadLetters(endpoint.id, ALL), []);
  });

  t.test('backlog and dead letters are bounded, and dropped messages are counted', async (t) => {
    const { store, reopen } = await makeStore(t, () => START_MS, { backlogMax: 3 });
    const { endpoint, jobs } = await withPending(store, 8);
    const ids = jobs.map(({ id }) => `msg_${id.slice(4)}`);
    const opened = await reopen();
    const pending = await opened.webhooks.outbox.pending(endpoint.id, ALL);
    const letters = await opened.webhooks.outbox.deadLetters(endpoint.id, ALL);
    t.same(
      pending.map(({ webhookId }) => webhookId),
      ids.slice(0, 3),
    );
    t.same(
      letters.map(({ webhookId }) => webhookId),
      ids.slice(3, 6),
    );
    t.match(letters, [{ death: 'backlog_full', attempts: 0 }, {}, {}]);
    const tally = {
      pending: 3,
      deadLetters: 3,
      dropped: 2,
      droppedFrom: START_MS + 8,
      droppedTo: START_MS + 8,
    };
    t.match(await opened.webhooks.outbox.tally(endpoint.id), tally);

    const [first, second] = pending as [Delivery, Delivery];
    await opened.webhooks.outbox.settle(first, { kind: 'dead', failure: FAILURE });
    t.match(await opened.webhooks.outbox.tally(endpoint.id), { pending: 2, deadLetters: 3, dropped: 3 });
    t.equal(
      await opened.webhooks.outbox.replay(endpoint.id, undefined, null),
      1,
      'no more than there is room for',
    );
    await opened.webhooks.outbox.settle(second, { kind: 'delivered' });
    t.match(await opened.webhooks.outbox.tally(endpoint.id), { pending: 2, deadLetters: 2, dropped: 3 });
  });

  t.test('a test message goes only to its endpoint', async (t) => {
    const { store } = await makeStore(t, () => START_MS);
    const [endpoint, other] = [sampleEndpoint(), sampleEndpoint()];
    for (const one of [endpoint, other]) await store.webhooks.endpoints.add(one, 5, null);
    const revision = await store.webhooks.endpoints.revision();
    const webhookId = await store.webhooks.outbox.test(endpoint.id);
    t.match(webhookId, /^msg_[0-9a-f]{32}$/);
    t.match(await store.webhooks.outbox.pending(endpoint.id, ALL), [
      { webhookId, type: 'webhook.test', at: START_MS },
    ]);
    t.same(await store.webhooks.outbox.pending(other.id, ALL), []);
    t.ok((await store.webhooks.endpoints.revision()) > revision, 'which another process notices');
    t.match(await store.webhooks.outbox.tally(endpoint.id), { pending: 1 });
  });

  t.test('test messages fill at most the backlog', async (t) => {
    const { store } = await makeStore(t, () => START_MS, { backlogMax: 3 });
    const endpoint = sampleEndpoint();
    await store.webhooks.endpoints.add(endpoint, 1, null);
    const tests = Array.from({ length: 8 }, () => store.webhooks.outbox.test(endpoint.id));
    const refused = (await Promise.allSettled(tests)).filter(({ status }) => status === 'rejected');
    t.match(refused, Array(5).fill({ reason: { code: 'backlog_full' } }));
    t.equal((await store.webhooks.outbox.pending(endpoint.id, ALL)).length, 3);
    t.match(await store.webhooks.outbox.tally(endpoint.id), { pending: 3 });
  });

  t.test('sweeping gives up overdue entries, and forgets old and orphaned ones', async (t) => {
    let now = START_MS;
    const { store } = await makeStore(t, () => now);
    const kept = await withPending(store, 2);
    const gone = await withPending(store, 700, 2);
    const none = { dueBefore: START_MS, diedBefore: START_MS };
    t.equal(await store.webhooks.outbox.sweep(none), 0);
    await store.webhooks.endpoints.remove(gone.endpoint.id, null);
    const steps: number[] = [];
    do steps.push(await store.webhooks.outbox.sweep(none));
    while (steps.at(-1));
    t.ok(steps.length > 2 && steps.every((step) => step <= 500), `in steps of ${steps}`);
    t.equal((await store.webhooks.outbox.pending(kept.endpoint.id, ALL)).length, 2);
    t.same(await store.webhooks.outbox.pending(gone.endpoint.id, ALL), []);

    now += 1000;
    await store.webhooks.outbox.sweep({ dueBefore: START_MS + 1, diedBefore: START_MS });
    const letters = await store.webhooks.outbox.deadLetters(kept.endpoint.id, ALL);
    t.match(letters, [{ death: 'overdue', attempts: 0, at: now }, { death: 'overdue' }]);
    t.match(await store.webhooks.outbox.tally(kept.endpoint.id), { pending: 0, deadLetters: 2 });
    await store.webhooks.outbox.sweep({ dueBefore: START_MS, diedBefore: now });
    t.equal((await store.webhooks.outbox.deadLetters(kept.endpoint.id, ALL)).length, 2);
    await store.webhooks.outbox.sweep({ dueBefore: START_MS, diedBefore: now + 1 });
    t.match(await store.webhooks.outbox.tally(kept.endpoint.id), { pending: 0, deadLetters: 0 });
    t.equal(await store.webhooks.outbox.sweep({ dueBefore: START_MS, diedBefore: now + 1 }), 0);
  });
}

/** An endpoint of a client of its own, and so many sealed jobs it is to be told of. */
async function withPending(
  store: Store,
  count: number,
  firstLeaf = 0,
): Promise<{ endpoint: NewEndpoint; jobs: Job[] }> {
  const endpoint = sampleEndpoint({ clientId: `client-${firstLeaf}` });
  await store.webhooks.endpoints.add(endpoint, 5, null);
  const jobs = sampleJobs(count).map((job) => ({ ...job, clientId: endpoint.clientId }));
  await Promise.all(jobs.map((job) => store.jobs.accept(job)));
  await store.log.commit(sampleBatch(firstLeaf, jobs));
  return { endpoint, jobs };
}

function told(
  { id }: NewEndpoint,
  job: Job | undefined,
  type: Delivery['type'],
  occurredAt: number,
): Delivery {
  const webhookId = `msg_${job?.id.slice(4)}`;
  return { endpointId: id, webhookId, type, occurredAt, at: START_MS + 5, attempts: 0 };
}

async function pages(store: Store, endpointId: string, limit: number): Promise<Delivery[]> {
  const found: Delivery[] = [];
  for (;;) {
    const last = found.at(-1);
    const page = await store.webhooks.outbox.pending(endpointId, { limit, ...(last && { after: last }) });
    found.push(...page);
    if (page.length < limit) return found;
  }
}
