/** What several processes write at once, each with a store of its own: the daemon, and commands beside it. */
import t, { type Test } from 'tap';
import { auditDigest, parseAuditRecord } from '../../src/manifest/auditRecord.ts';
import { renewalProblems } from '../../src/prove/renewal/renewalCheck.ts';
import { RenewedElsewhere } from '../../src/prove/renewal/renewalRun.ts';
import { actOfProcess } from '../../src/store/acts.ts';
import { createInPostgresql, openInPostgresql } from '../../src/store/postgresql/postgresqlOpen.ts';
import type { RenewalRun } from '../../src/store/renewalStore.ts';
import type { Store } from '../../src/store/store.ts';
import { BEGIN, DAY_MS } from '../support/authority.ts';
import { startPostgres } from '../support/postgres.ts';
import { renew, YearlyAuthority } from '../support/renewals.ts';
import {
  collected,
  epoch,
  identity,
  putCredentials,
  sampleBatch,
  sampleCredential,
  sampleEndpoint,
  sampleJobs,
} from './samples.ts';

const ROUNDS = 15;
const ALL = { limit: 100_000 };

const postgres = await startPostgres(t, { settings: { deadlock_timeout: '100ms' } });

/** A daemon and two commands at one store. Afterwards the audit trail is one line without a gap, and no two ever waited for each other. */
async function withProcesses(
  t: Test,
  work: (daemon: Store, ...commands: Store[]) => Promise<void>,
  backlogMax = 10_000,
) {
  const name = await postgres.createDatabase();
  const location = { urls: [postgres.url(name)] };
  await createInPostgresql({ location, identity, epoch });
  const sequencing = { onWait: () => {}, onLost: t.fail };
  const daemon = await openInPostgresql({ location, backlogMax, sequencing });
  const commands = [1, 2].map(() => openInPostgresql({ location, backlogMax }));
  const stores = [daemon, ...(await Promise.all(commands))];
  t.teardown(() => Promise.all(stores.map((store) => store.close())));
  await work(daemon, ...stores.slice(1));
  const entries = await daemon.trail.entries(0, 100_000);
  for (const [index, { number, text }] of entries.entries()) {
    t.equal(number, index + 1);
    const previous = entries[index - 1];
    t.equal(parseAuditRecord(text)?.previous, previous && auditDigest(previous.text));
  }
  const flaws = await collected(daemon.indexes.check());
  t.strictSame(
    flaws.filter(({ index }) => index !== 'tiles'),
    [],
    'a sample has no tree',
  );
  const [stats] = await postgres.query(
    `SELECT deadlocks::int AS deadlocks FROM pg_stat_database WHERE datname = '${name}'`,
  );
  t.strictSame(stats, { deadlocks: 0 });
  return entries.length;
}

const act = (key: string) => actOfProcess('command', 'key.issue', { key });

t.test(
  'acts, credentials and endpoints of several processes are numbered without gaps or losses',
  async (t) => {
    const endpoint = sampleEndpoint();
    const credential = sampleCredential();
    const acts = await withProcesses(t, async (...stores) => {
      const [daemon] = stores;
      await daemon.webhooks.endpoints.add(endpoint, 1, null);
      await putCredentials(daemon, [credential]);
      await Promise.all(
        stores.flatMap((store) =>
          Array.from({ length: ROUNDS }, async (_, n) => {
            const { credentials, trail, webhooks } = store;
            await Promise.all([
              trail.append(act(`${n}`)),
              credentials.change(() => ({ credentials: [sampleCredential(), credential], act: act('put') })),
              webhooks.endpoints.add(sampleEndpoint({ clientId: 'claims' }), 7, act('add')),
              webhooks.endpoints.change(
                endpoint.id,
                (one) => ({ ...one, createdAt: one.createdAt + 1 }),
                act('change'),
              ),
              credentials.change((all) => ({
                credentials: [sampleCredential({ createdAt: all.length })],
                act: act('change'),
              })),
            ]);
          }),
        ),
      );
      const changes = ROUNDS * stores.length;
      for (const { webhooks, credentials } of stores) {
        t.equal((await webhooks.endpoints.get(endpoint.id))?.createdAt, endpoint.createdAt + changes);
        t.equal((await webhooks.endpoints.all('claims')).length, 7);
        t.equal(await webhooks.endpoints.revision(), 1 + 7 + changes);
        const all = await credentials.all();
        t.equal(all.length, 1 + 2 * changes);
        // Each was decided on what the one before it left: no two saw the same.
        const decided = all.map(({ createdAt }) => createdAt).filter((n) => n < 1000);
        t.equal(new Set(decided).size, changes);
      }
    });
    t.equal(acts, ROUNDS * 3 * 4 + 7 + 1);
  },
);

t.test('a key that one process revokes is refused by the next read of any other', async (t) => {
  await withProcesses(t, async (daemon, command) => {
    for (let round = 0; round < ROUNDS; round++) {
      const credential = sampleCredential();
      await putCredentials(command, [credential]);
      t.same(await daemon.credentials.get(credential.keyHash), credential);
      await command?.credentials.change(() => ({
        credentials: [{ ...credential, revokedAt: round }],
        act: act('revoke'),
      }));
      t.equal((await daemon.credentials.get(credential.keyHash))?.revokedAt, round);
    }
  });
});

t.test(
  'counts stay right while several processes queue, settle, raise and sweep their messages',
  async (t) => {
    await withProcesses(
      t,
      async (daemon, ...commands) => {
        const endpoints = Array.from({ length: 4 }, () => sampleEndpoint());
        for (const endpoint of endpoints) await daemon.webhooks.endpoints.add(endpoint, 10, null);
        const jobs = sampleJobs(ROUNDS * 4);
        await Promise.all(jobs.map((job) => daemon.jobs.accept(job)));
        let isSealed = false;
        const seals = async () => {
          for (let n = 0; n < jobs.length; n += 4)
            await daemon.log.commit(sampleBatch(n, jobs.slice(n, n + 4)));
          isSealed = true;
        };
        const deliveries = async ({ id }: { id: string }, n: number) => {
          const { outbox } = daemon.webhooks;
          const failure = { at: n, reason: 'http_500' };
          for (let round = 0, isLast = false; !isLast; round++) {
            isLast = isSealed;
            const due = await outbox.pending(id, { limit: 6 });
            const fate = (index: number) =>
              index % 3 === 0
                ? ({ kind: 'delivered' } as const)
                : index % 3 === 1
                  ? ({ kind: 'dead', failure } as const)
                  : ({ kind: 'retry', dueAt: 2 ** 42 + round, failure } as const);
            await Promise.all(due.map((delivery, index) => outbox.settle(delivery, fate(index + n))));
          }
        };
        const managing = async ({ webhooks: { endpoints: all, outbox } }: Store) => {
          for (let round = 0; round < ROUNDS; round++) {
            await Promise.all([
              ...endpoints.toReversed().map(({ id }) => outbox.test(id).catch(() => undefined)),
              ...endpoints.map(({ id }) => outbox.replay(id, undefined, act('replay'))),
              all.change(endpoints[0]?.id ?? '', (one) => one, act('change')),
              outbox.sweep({ dueBefore: 0, diedBefore: 2 ** 43 }),
            ]);
          }
        };
        await Promise.all([seals(), ...endpoints.map(deliveries), ...[daemon, ...commands].map(managing)]);
        for (const { id } of endpoints) {
          for (const { webhooks } of [daemon, ...commands]) {
            const { pending, deadLetters, dropped, delivered } = await webhooks.outbox.tally(id);
            t.equal(pending, (await webhooks.outbox.pending(id, ALL)).length);
            t.equal(deadLetters, (await webhooks.outbox.deadLetters(id, ALL)).length);
            t.ok(pending <= 20 && deadLetters <= 20, `${pending} and ${deadLetters}`);
            t.ok(dropped >= 0 && delivered > 0, `${dropped} dropped, ${delivered} delivered`);
          }
        }
        await commands[0]?.webhooks.endpoints.remove(endpoints[1]?.id ?? '', null);
        for (const store of commands)
          while ((await store.webhooks.outbox.sweep({ dueBefore: 0, diedBefore: 0 })) > 0);
        t.same(await daemon.webhooks.outbox.pending(endpoints[1]?.id ?? '', ALL), []);
      },
      20,
    );
  },
);

t.test('of several processes that renew at once, one succeeds', async (t) => {
  const run: RenewalRun = {
    number: 1,
    digest: 'sha512',
    from: 0,
    to: 1,
    path: [],
    rows: [{ first: 0, root: 'AA==' }],
    tokens: [{ authority: 'built-in', token: 'a token', certificates: [] }],
  };
  const acts = await withProcesses(t, async (...stores) => {
    const [daemon] = stores;
    const [job] = sampleJobs(1);
    if (job !== undefined) await daemon.jobs.accept(job);
    await daemon.log.commit(sampleBatch(0, job === undefined ? [] : [job]));
    const kept = await Promise.all(
      stores.map(({ renewals }) => renewals.keepDraft({ ...run, at: 0 }, undefined)),
    );
    t.same(kept.toSorted(), [false, false, true], 'the others are told that another one drafts');
    const added = await Promise.all(stores.map(({ renewals }) => renewals.addRow(run, 0, run.rows)));
    t.same(added, [true, true, true], 'all of them make the same row');
    const committed = await Promise.all(stores.map(({ renewals }) => renewals.commit(run, act('renew'))));
    t.same(committed.toSorted(), [false, false, true]);
    for (const { renewals } of stores) t.same(await renewals.runs(), [run]);
  });
  t.equal(acts, 1);
});

t.test(
  'of processes that renew differently at once, some are refused, and each stored run is good',
  async (t) => {
    const authority = await YearlyAuthority.make('alpha', 3);
    await withProcesses(t, async (...stores) => {
      const [{ jobs, log, renewals }] = stores;
      for (let leaf = 0; leaf < 9; leaf++) {
        const accepted = sampleJobs(1);
        for (const job of accepted) await jobs.accept(job);
        await log.commit(sampleBatch(leaf, accepted));
      }
      for (let round = 0; round < ROUNDS; round++) {
        const before = (await renewals.runs()).length;
        const at = BEGIN + (round + 1) * DAY_MS;
        const all = stores.map((store, n) => {
          const digest = (round + n) % 2 === 0 ? 'sha512' : 'sha384';
          return renew(store, { digest, at, authorities: [authority], width: 2 });
        });
        const results = await Promise.allSettled(all);
        const refused = results.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []));
        for (const reason of refused) t.ok(reason instanceof RenewedElsewhere, String(reason));
        t.equal((await renewals.runs()).length - before, stores.length - refused.length);
        t.ok(refused.length < stores.length, 'whoever drafts last goes on');
      }
      t.strictSame(await renewalProblems(stores[0], [authority.trusted], 2), []);
    });
  },
);
