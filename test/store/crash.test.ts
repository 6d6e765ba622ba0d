import { spawnSync } from 'node:child_process';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { documentSha256 } from '../../src/job/job.ts';
import { createStore, openStore } from '../../src/store/lmdb/open.ts';
import type { Store } from '../../src/store/store.ts';
import { random } from '../support/seed.ts';
import { Child } from './child.ts';
import { epoch, identity, leafData, sampleEntry } from './samples.ts';

const ROUNDS = 12;
const PARTNER = { clientId: 'partner', organization: 'zeta', partnerOf: ['acme'] };

t.test('a store killed at any moment keeps every promise, and nothing by halves', async (t) => {
  const path = join(t.testdir(), 'store');
  await createStore({ path, identity, epoch });
  let log: string[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const writer = new Child('writer.ts', path);
    await writer.line('sealed');
    await new Promise((resolve) => setTimeout(resolve, random() * 100));
    await writer.kill();
    log = await checkAfter(t, path, writer.lines, log);
  }
  t.ok(log.length > ROUNDS, `${log.length} leaves`);
});

t.test('if the disk is full, nothing is promised and nothing is served', async (t) => {
  const path = join(t.testdir(), 'store');
  await createStore({ path, identity, epoch });
  const writer = new Child('writer.ts', path);
  t.teardown(() => writer.kill());
  await writer.line('sealed');
  // The kernel then refuses to let the file grow, as it would on a full disk, for root too.
  const limit = statSync(join(path, 'data.mdb')).size;
  t.equal(spawnSync('prlimit', ['--pid', `${writer.pid}`, `--fsize=${limit}:${limit}`]).status, 0);
  await writer.line('done');
  await writer.gone();
  t.match(await writer.line('failed'), /^failed UnknownOutcome .*large/);
  t.match(await writer.line('then reading'), /UnknownOutcome/);
  t.match(await writer.line('then accepting'), /UnknownOutcome/);
  t.notOk(writer.lines.some((line) => line.startsWith('unhandled')));
  await checkAfter(t, path, writer.lines, []);

  const next = new Child('writer.ts', path); // with room again, the next process goes on
  t.teardown(() => next.kill());
  await next.line('sealed');
  await next.kill();
  await checkAfter(t, path, next.lines, []);
});

/** Opens what a process left behind and holds it against what the process said; returns the job ids of the log. */
async function checkAfter(t: Test, path: string, said: string[], logBefore: string[]): Promise<string[]> {
  const store = await openStore({ path });
  try {
    const spoken = (word: string) =>
      said.filter((line) => line.startsWith(`${word} `)).map((line) => line.slice(word.length + 1));
    const log = await checkLog(t, store);
    t.same(log.slice(0, logBefore.length), logBefore, 'the log only grew');
    t.ok(log.length >= Math.max(0, ...spoken('sealed').map(Number)), 'every promised leaf is there');
    const stored = await checkJobs(t, store, log);
    t.same(
      spoken('accepted').filter((id) => !stored.has(id)),
      [],
      'every promised job is there',
    );
    return log;
  } finally {
    await store.close();
  }
}

async function checkLog(t: Test, store: Store): Promise<string[]> {
  const size = (await store.log.head())?.treeSize ?? 0;
  const leaves = await store.log.leaves(0, size + 100);
  t.equal(leaves.length, size, 'the head tells the number of leaves');
  t.ok(leaves.every(({ jobId, data }) => Buffer.compare(data, leafData(jobId)) === 0));
  for (let first = 0; first < size; ) {
    const batch = await store.log.batchOf(first);
    if (batch?.firstLeaf !== first) t.fail(`leaf ${first} begins no batch`);
    first = batch?.treeSize ?? size;
  }
  return leaves.map(({ jobId }) => jobId);
}

/** Every job is whole: record, indexes, key, and either a place in the log or in the queue. */
async function checkJobs(t: Test, store: Store, log: string[]): Promise<Set<string>> {
  const waiting = new Set((await store.jobs.waiting(1_000_000)).map(({ id }) => id));
  const listed = new Set(await listAll(store));
  const leafOf = new Map(log.map((id, index) => [id, index]));
  const stored = new Set<string>();
  const faults: string[] = [];
  for await (const { job, outcome } of store.jobs.all()) {
    stored.add(job.id);
    const leafIndex = leafOf.get(job.id);
    const isSettled = outcome?.kind === 'sealed' && outcome.leafIndex === leafIndex && !waiting.has(job.id);
    const isWaiting = outcome === undefined && leafIndex === undefined && waiting.has(job.id);
    const entry = await store.jobs.idempotency(sampleEntry(job));
    const { records } = await store.jobs.list({
      viewer: PARTNER,
      limit: 2,
      documentSha256: documentSha256(job),
    });
    const isFound = records.length === 1 && records[0]?.job.id === job.id && listed.has(job.id);
    if (!(isSettled || isWaiting) || entry?.jobId !== job.id || !isFound) faults.push(job.id);
  }
  t.same(faults, [], 'every job is whole');
  t.same(
    [listed.size, waiting.size + log.length, await store.jobs.waitingCount()],
    [stored.size, stored.size, waiting.size],
  );
  return stored;
}

async function listAll(store: Store): Promise<string[]> {
  const found: string[] = [];
  for (let before: string | undefined; ; ) {
    const query = { viewer: PARTNER, limit: 500, customerReference: 'R', ...(before && { before }) };
    const { records, next } = await store.jobs.list(query);
    found.push(...records.map(({ job }) => job.id));
    if (next === undefined) return found;
    before = next;
  }
}
