/** A server that has no space for what some statements write. `databaseFull.test.ts` fills a real disk. */
import t, { type Test } from 'tap';
import { createInPostgresql, openInPostgresql } from '../../src/store/postgresql/postgresqlOpen.ts';
import type { Obstacle } from '../../src/store/postgresql/sequencer.ts';
import { startPostgres } from '../support/postgres.ts';
import { until } from '../support/until.ts';
import { epoch, identity, sampleCredential, sampleEndpoint, sampleJob } from './samples.ts';

const postgres = await startPostgres(t);
const template = await postgres.createDatabase();
await createInPostgresql({ location: { urls: [postgres.url(template)] }, identity, epoch });
const refused = { name: 'StoreError', code: 'disk_full' };
const act = {
  act: 'trust.export',
  actor: { via: 'command' },
  object: { sha256: 'ab'.repeat(32) },
  outcome: 'done',
} as const;
/** What the daemon itself does. */
const own = { ...act, actor: { via: 'daemon' } } as const;

/** A database in which such a statement is refused as on a full disk, until that is undone. */
async function withoutSpaceFor(statement: string, { isAtCommit = false } = {}) {
  const [when, what] = isAtCommit
    ? ['CONSTRAINT TRIGGER full_disk AFTER', 'DEFERRABLE INITIALLY DEFERRED FOR EACH ROW']
    : ['TRIGGER full_disk BEFORE', 'FOR EACH STATEMENT'];
  const database = await postgres.createDatabase(template);
  const run = (sql: string) => postgres.query(sql, database);
  return {
    location: { urls: [postgres.url(database)] },
    fill: () =>
      run(`CREATE SEQUENCE pdfseal.tries;
        CREATE FUNCTION pdfseal.refuse() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
          PERFORM nextval('pdfseal.tries');
          RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full';
        END $$;
        CREATE ${when} ${statement} ${what} EXECUTE FUNCTION pdfseal.refuse()`),
    /** How many statements were refused. */
    tries: async () => Number((await run('SELECT last_value FROM pdfseal.tries'))[0]?.last_value),
    empty: () => run('DROP FUNCTION pdfseal.refuse() CASCADE'),
  };
}

async function openDaemon(t: Test, location: { urls: string[] }, waits: Obstacle[] = []) {
  const states: boolean[] = [];
  const store = await openInPostgresql({
    location,
    sequencing: { onWait: (wait) => waits.push(wait), onLost: () => {} },
    onFull: (isFull) => states.push(isFull),
  });
  t.teardown(() => store.close());
  return { store, states };
}

t.test('on a full disk a request is refused, and what the daemon writes waits in its order', async (t) => {
  const { location, fill, tries, empty } = await withoutSpaceFor('INSERT ON pdfseal.jobs');
  const { store, states } = await openDaemon(t, location);
  const before = sampleJob();
  await store.jobs.accept(before);
  const endpoint = sampleEndpoint();
  await store.webhooks.endpoints.add(endpoint, 16, null);
  const begun = await store.trail.append({ ...act, outcome: 'begun' });
  await fill();
  const job = sampleJob();
  await t.rejects(store.jobs.accept(job), refused);
  t.equal(store.space?.isFull, true);
  t.throws(() => store.space?.admit(), refused);
  t.strictSame(states, [true]);

  const written: string[] = [];
  const waiting = [
    store.trail.append(own).then(() => written.push('record')),
    store.trail.append({ ...act, concludes: begun }).then(() => written.push('end')),
    store.witnessing.put({ witnesses: {} }).then(() => written.push('note')),
  ];
  const seen = await tries();
  await until('it is written again and again', async () => (await tries()) > seen + 1);
  await t.rejects(store.jobs.accept(job), refused, 'a request does not wait with it');
  for (const via of ['api', 'console', 'administration', 'command'] as const) {
    const asked = { ...act, actor: { via } };
    await t.rejects(store.trail.append(asked), refused, via);
    await t.rejects(store.webhooks.endpoints.add(sampleEndpoint(), 16, asked), refused, via);
    await t.rejects(store.webhooks.endpoints.remove(endpoint.id, asked), refused, via);
    await t.rejects(
      store.credentials.change(() => ({ credentials: [sampleCredential()], act: asked })),
      refused,
      via,
    );
  }
  await t.rejects(store.webhooks.outbox.test(endpoint.id), refused);
  t.same(await store.jobs.get(before.id), { job: before }, 'reads go on');
  t.equal(await store.jobs.get(job.id), undefined);
  t.strictSame(written, []);

  await empty();
  await Promise.all(waiting);
  t.strictSame(written, ['record', 'end', 'note']);
  await until('there is space', () => store.space?.isFull === false);
  t.equal(states.at(-1), false);
  await store.jobs.accept(job);
  t.same(await store.jobs.get(job.id), { job });
});

t.test('nobody can tell what became of a COMMIT that found no space', async (t) => {
  const { location, fill } = await withoutSpaceFor('INSERT ON pdfseal.jobs', { isAtCommit: true });
  const { store } = await openDaemon(t, location);
  await fill();
  await t.rejects(store.jobs.accept(sampleJob()), { name: 'UnknownOutcome' });
});

t.test('a command is refused on a full disk, and does not wait', async (t) => {
  const { location, fill } = await withoutSpaceFor('INSERT ON pdfseal.jobs');
  await fill();
  const store = await openInPostgresql({ location });
  t.teardown(() => store.close());
  await t.rejects(store.jobs.accept(sampleJob()), refused);
  await t.rejects(store.trail.append(act), refused);
});

t.test('a daemon that starts on a full disk waits until it can take its turn', async (t) => {
  const { location, fill, tries, empty } = await withoutSpaceFor('UPDATE ON pdfseal.sequencer');
  await fill();
  const waits: Obstacle[] = [];
  const opening = openDaemon(t, location, waits);
  await until('it tries again', async () => (await tries()) > 2);
  t.match(waits.at(-1), { unreachable: /could not extend file/ });
  await empty();
  const { store } = await opening;
  await store.jobs.accept(sampleJob());
});
