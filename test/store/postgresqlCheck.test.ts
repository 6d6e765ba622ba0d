/** What is damaged by hand is found, and mended. */
import t from 'tap';
import type { IndexFlaw } from '../../src/store/indexStore.ts';
import { createInPostgresql, openInPostgresql } from '../../src/store/postgresql/postgresqlOpen.ts';
import { encodeRecord } from '../../src/store/records.ts';
import type { AnnouncedBatch } from '../../src/store/store.ts';
import { startPostgres } from '../support/postgres.ts';
import { collected, epoch, identity, sampleBatch, sampleEndpoint, sampleJob, sampleJobs } from './samples.ts';

const postgres = await startPostgres(t);

const hex = (record: unknown) => `'\\x${encodeRecord(record).toString('hex')}'`;

t.test('a repair restores messages to endpoints and their counts', async (t) => {
  const name = await postgres.createDatabase();
  const location = { urls: [postgres.url(name)] };
  await createInPostgresql({ location, identity, epoch });
  const store = await openInPostgresql({ location, backlogMax: 6 });
  t.teardown(() => store.close());
  const { endpoints, outbox } = store.webhooks;
  const [own, other] = [sampleEndpoint(), sampleEndpoint({ clientId: 'claims' })];
  for (const endpoint of [own, other]) await endpoints.add(endpoint, 5, null);
  const jobs = sampleJobs(9);
  await Promise.all(jobs.map((job) => store.jobs.accept(job)));
  await store.log.commit(sampleBatch(0, jobs.slice(0, 8)));
  await outbox.test(other.id);
  const flaws = async () => (await collected(store.indexes.check())).filter(({ index }) => index !== 'tiles');
  t.strictSame(await flaws(), []);

  const [endpoint, elsewhere] = [own, other].map(({ id }) => `'${id.slice(3)}'`);
  const message = (n: number) => `msg_${jobs[n]?.id.slice(4)}`;
  const uuid = (n: number) => `'${jobs[n]?.id.slice(4)}'`;
  const told = hex({ type: 'job.completed', occurredAt: 1, attempts: 3 });
  await postgres.query(
    `SET search_path = pdfseal;
    UPDATE outbox SET record = ${told} WHERE message = ${uuid(0)};
    UPDATE outbox SET record = 'garbage' WHERE message = ${uuid(1)};
    UPDATE dead_letters SET record = 'garbage' WHERE message = ${uuid(7)};
    INSERT INTO outbox VALUES (${elsewhere}, 1, ${uuid(0)}, ${told}), (${endpoint}, 1, ${uuid(8)}, ${told});
    UPDATE tallies SET failure = 'garbage', delivered = 5 WHERE endpoint_id = ${endpoint};
    DELETE FROM tallies WHERE endpoint_id = ${elsewhere};
    UPDATE revisions SET revision = 0 WHERE name = 'endpoints'`,
    name,
  );
  const found = (await flaws()).map(({ index, kind, entry }) => [index, kind, entry].join(' '));
  t.strictSame(
    found.sort(),
    [
      'endpoint_revisions wrong 3',
      `outbox wrong ${message(0)}`,
      `outbox wrong ${message(1)}`,
      `dead_letters wrong ${message(7)}`,
      `outbox superfluous ${message(0)}`,
      `outbox superfluous ${message(8)}`,
      `tallies wrong ${own.id}`,
      `tallies missing ${other.id}`,
    ].sort(),
  );
  let mended = 0;
  const isGood = async () => (await flaws()).length === 0;
  t.equal(await store.indexes.repair({ onMended: () => (mended += 1), isGood }), true);
  t.ok(mended >= 8);
  const pending = await outbox.pending(own.id, { limit: 10 });
  t.same(
    pending.map(({ webhookId, attempts }) => [webhookId, attempts]),
    [0, 1, 2, 3, 4, 5].map((n) => [message(n), n === 0 ? 3 : 0]),
  );
  t.match(await outbox.tally(own.id), { pending: 6, deadLetters: 2, delivered: 5, failure: undefined });
  t.match(await outbox.deadLetters(own.id, { limit: 10 }), [{}, { death: 'overdue' }]);
  t.match(await outbox.tally(other.id), { pending: 1 });
});

t.test('a job accepted by a front is examined before it is sealed, even after a repair', async (t) => {
  const name = await postgres.createDatabase();
  const location = { urls: [postgres.url(name)] };
  await createInPostgresql({ location, identity, epoch });
  const sequencing = { onWait: t.fail, onLost: t.fail };
  const store = await openInPostgresql({ location, sequencing });
  t.teardown(() => store.close());
  const [announced, other, canary] = [sampleJob(), sampleJob(), sampleJob({ source: 'canary' })];
  for (const job of [announced, other, canary]) await store.jobs.accept(job);
  const { leaves, ...batch } = sampleBatch(0, [announced]);
  await store.log.announce({ ...batch, jobIds: leaves.map(({ jobId }) => jobId) } as AnnouncedBatch);
  await postgres.query('DELETE FROM pdfseal.waiting', name);
  const mended: string[] = [];
  const onMended = ({ index, kind }: IndexFlaw) => mended.push(`${index} ${kind}`);
  t.equal(await store.indexes.repair({ onMended, isGood: async () => true }), true);
  t.strictSame(mended, ['waiting missing', 'waiting missing', 'waiting missing']);
  const waiting = (await store.jobs.waiting(10)).map(({ id }) => id);
  t.strictSame(waiting.toSorted(), [announced.id, canary.id].toSorted());
  t.match(await store.arrivals?.look(() => false, 10), [{ jobId: other.id, job: other }]);
});
