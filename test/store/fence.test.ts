/** Two daemons on one folder, whatever became of the lock between them. */
import { join } from 'node:path';
import t, { type Test } from 'tap';
import type { QuotaWindow } from '../../src/job/job.ts';
import { createStore, openStore } from '../../src/store/lmdb/open.ts';
import { type Child, Child as Process } from './child.ts';
import {
  epoch,
  identity,
  putCredentials,
  START_MS,
  sampleCredential,
  sampleEntry,
  sampleJob,
  sampleJobs,
} from './samples.ts';

const quota: QuotaWindow = { name: 'default', startsAt: START_MS, endsAt: START_MS + 86_400_000 };
const job = () => sampleJob({ quota });

async function makeFolder(t: Test) {
  const path = join(t.testdir(), 'store');
  await createStore({ path, identity, epoch });
  const open = async (takesTurn: boolean) => {
    const store = await openStore({ path, takesTurn });
    t.teardown(() => store.close());
    return store;
  };
  return { path, open };
}

t.test('a daemon whose place another has taken writes nothing more, and serves nothing', async (t) => {
  const { path, open } = await makeFolder(t);
  const first = await open(true);
  const accepted = [job(), job(), job()];
  await Promise.all(accepted.map((each) => first.jobs.accept(each)));

  const second = await open(true);
  const late = sampleJobs(3);
  const entry = sampleEntry(late[0] ?? job());
  const superseded = {
    name: 'Superseded',
    message: new RegExp(
      `another daemon \\(process ${process.pid} on .+\\) has taken over the store in ${path}, .*: stop one`,
    ),
  };
  // With a condition of its own, without, and what is no job: all of the group.
  await Promise.all([
    t.rejects(first.jobs.accept(late[0] ?? job(), { idempotency: entry }), superseded),
    t.rejects(first.jobs.accept({ ...(late[1] ?? job()), quota }), superseded),
    t.rejects(putCredentials(first, [sampleCredential()]), superseded),
    t.rejects(first.serviceTime.keep(START_MS), superseded),
  ]);
  await t.rejects(first.jobs.accept(late[2] ?? job()), superseded, 'nor later');
  await t.rejects(first.jobs.waitingCount(), superseded);

  const more = [job(), job()];
  await Promise.all(more.map((each) => second.jobs.accept(each)));
  t.match(await second.jobs.quotaCounts(), [{ jobs: 5 }], 'each job that was accepted counts once');
  const ids = [...accepted, ...more].map(({ id }) => id).sort();
  t.strictSame(
    (await second.jobs.waiting(10)).map(({ id }) => id),
    ids,
    'and none is lost',
  );
  t.equal(await second.jobs.idempotency(entry), undefined);
  t.equal((await second.credentials.all()).length, 0);
});

t.test('commands write beside a daemon, and take nobody its place', async (t) => {
  const { open } = await makeFolder(t);
  const daemon = await open(true);
  const command = await open(false);
  await daemon.jobs.accept(job());
  await putCredentials(command, [sampleCredential()]);
  await daemon.jobs.accept(job());
  t.equal((await daemon.credentials.all()).length, 1);
  const next = await open(true);
  await putCredentials(command, [sampleCredential({ id: 'key_2', keyHash: 'ab'.repeat(32) })]);
  t.equal((await next.credentials.all()).length, 2);
});

t.test('of daemons that open a store at one time, one has its place', async (t) => {
  const { path, open } = await makeFolder(t);
  const others: Child[] = Array.from({ length: 3 }, () => new Process('successor.ts', path));
  t.teardown(() => Promise.all(others.map((other) => other.kill())));
  await Promise.all(others.map((other) => other.line('opened')));
  for (const other of others) other.say('accept');
  const ends = await Promise.all(others.map((other) => other.line('accept ')));
  t.strictSame(ends.sort(), ['accept Superseded', 'accept Superseded', 'accept done']);
  t.match(await (await open(false)).jobs.quotaCounts(), [{ jobs: 1 }]);
});
