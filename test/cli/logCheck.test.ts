import { cpSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { checkLog, type LogReport } from '../../src/cli/logCheck.ts';
import { newJobId } from '../../src/job/id.ts';
import type { Job, ReceivedJob } from '../../src/job/job.ts';
import { encodeCheckpoint } from '../../src/log/checkpoint.ts';
import { appendLeaves, type Edge, emptyEdge, leafHash, rootOf } from '../../src/log/tree.ts';
import { leafData, manifestOf } from '../../src/manifest/manifest.ts';
import { kmsKeyId, receiptAlgorithm } from '../../src/manifest/receipt.ts';
import type { TrustFile } from '../../src/manifest/trust.ts';
import { type Databases, openDatabases } from '../../src/store/databases.ts';
import { counterKey, jobKey, termKey, tileKey } from '../../src/store/keys.ts';
import { createStore, openStore } from '../../src/store/lmdb.ts';
import {
  encodeContent,
  encodeJob,
  encodeRecord,
  encodeSealed,
  parseRecord,
} from '../../src/store/records.ts';
import type { Batch, Store } from '../../src/store/store.ts';
import { HeldClock, makeAuthority, makePki } from '../support/authority.ts';
import {
  firstEpoch,
  makeContent,
  makeJob,
  makeKey,
  oneEpoch,
  signNote,
  stampCheckpoint,
} from '../support/sealing.ts';

const ORIGIN = 'seal.example.com/test/2026';
const SEALED_AT = Date.parse('2026-03-04T05:06:08Z');
/** Past the first tile, so that there are full ones, partial ones and two levels. */
const BATCHES = [1, 2, 250, 30];
const SIZE = BATCHES.reduce((sum, leaves) => sum + leaves);
const key = makeKey('ed25519', 'one');
const { privateKey: _privateKey, ...logKey } = key;
const pki = await makePki();
const authority = makeAuthority([pki.unit], new HeldClock(SEALED_AT));

const dir = t.testdir();
const good = join(dir, 'good');
await createStore({
  path: good,
  identity: { environment: 'test', logOrigin: ORIGIN, createdAt: SEALED_AT },
  epoch: firstEpoch([logKey]),
});
const jobs = Array.from({ length: SIZE + 2 }, (_, n) =>
  makeJob(newJobId(), {
    customerReference: `order ${n % 7}`,
    acceptedAt: Date.now(),
    ...(n === 1 && { visibility: 'partner' }),
    ...(n === 2 && { source: 'url', checksumSha256: makeContent().document.sha256 }),
  }),
);
const { content: _content, ...unfetched } = makeJob(newJobId(), {
  source: 'url',
  checksumSha256: 'ef'.repeat(32),
  acceptedAt: Date.now(),
});
await fill(good);
const [first, shared, fetched] = [jobAt(0), jobAt(1), jobAt(2)];
const [waiting, failed] = [jobAt(SIZE), jobAt(SIZE + 1)];

t.test('a log that holds together', async (t) => {
  const seen: number[] = [];
  const store = await openStore({ path: good, readOnly: true });
  const report = await checkLog(store, {
    trust: trusting(1),
    problemsMax: 9,
    onLeaves: (leaves) => seen.push(leaves),
  });
  await store.close();
  t.strictSame(report, {
    leaves: SIZE,
    batches: BATCHES.length,
    completed: SIZE,
    failed: 1,
    waiting: 2,
    problemCount: 0,
    problems: [],
  });
  t.strictSame(seen, [1, 3, 253, 283]);
});

t.test('an empty log', async (t) => {
  const path = join(dir, 'empty');
  await createStore({
    path,
    identity: { environment: 'test', logOrigin: ORIGIN, createdAt: 0 },
    epoch: firstEpoch([logKey]),
  });
  t.match(await check(path), { leaves: 0, batches: 0, problemCount: 0 });
});

t.test('every kind of damage is found', async (t) => {
  const stranger = makeKey('ed25519', 'one');
  const cases: [name: string, damage: (databases: Databases) => Promise<unknown>, ...problems: RegExp[]][] = [
    [
      'a leaf',
      ({ leaves }) => flip(leaves, counterKey(200), -1),
      /^tile\/0\/000 does not follow from the leaves/,
      /^checkpoint 253 is not of these leaves/,
      /^leaf 200 is not the manifest of job_/,
    ],
    ['a full tile', ({ tiles }) => flip(tiles, tileKey(0, 0), 100), /^tile\/0\/000 does not follow/],
    ['a partial tile', ({ tiles }) => flip(tiles, tileKey(0, 1), 5), /^tile\/0\/001 does not follow/],
    ['an upper tile', ({ tiles }) => flip(tiles, tileKey(1, 0), 5), /^tile\/1\/000 does not follow/],
    ['a missing tile', ({ tiles }) => tiles.remove(tileKey(0, 1)), /^tile\/0\/001 does not follow/],
    [
      'a foreign signature',
      (databases) =>
        editBatch(databases, 3, ({ checkpoint }) => ({ checkpoint: resign(checkpoint, stranger) })),
      /^the receipt of job_\w+ does not verify: quorum: /,
    ],
    [
      'a checkpoint of other leaves, signed by the log',
      (databases) =>
        editBatch(databases, 3, () => ({
          checkpoint: sign(encodeCheckpoint({ origin: ORIGIN, treeSize: 3, root: Buffer.alloc(32) })),
        })),
      /^checkpoint 3 is not of these leaves/,
    ],
    [
      'a checkpoint of another log',
      (databases) =>
        editBatch(databases, 3, ({ checkpoint }) => ({
          checkpoint: sign(textOf(checkpoint).replace(ORIGIN, 'other.example')),
        })),
      /^checkpoint 3 is of another log/,
    ],
    [
      'a checkpoint of another size',
      (databases) =>
        editBatch(databases, 3, ({ checkpoint }) => ({
          checkpoint: sign(textOf(checkpoint).replace('\n3\n', '\n4\n')),
        })),
      /^checkpoint 3 says size 4/,
    ],
    [
      'the time-stamp of another checkpoint',
      (databases) => {
        const { timestamp } = batchIn(databases, 1);
        return editBatch(databases, 3, () => ({ ...(timestamp && { timestamp }) }));
      },
      /^the receipt of job_\w+ does not verify: time-stamp: the token is no proof: stamps something else/,
    ],
    [
      'no checkpoint',
      (databases) => editBatch(databases, 3, () => ({ checkpoint: 'x' })),
      /^checkpoint 3 cannot be read/,
    ],
    [
      'another sealed_at',
      (databases) => editBatch(databases, 3, () => ({ sealedAt: 5 })),
      /^leaf 1 is not the manifest/,
    ],
    ['a lost checkpoint', ({ batches }) => batches.remove(counterKey(3)), /^no checkpoint covers leaf 1/],
    ['a lost leaf', ({ leaves }) => leaves.remove(counterKey(5)), /^leaves are missing between 3 and 253/],
    [
      'a log cut short',
      async ({ batches }) => batches.remove(counterKey(SIZE)),
      /^a job is completed as leaf 282, but the log has 253 leaves: it was cut/,
    ],
    [
      'a lost job',
      ({ jobs }) => jobs.remove(keyOf(first)),
      /^leaf 0 is of job_\w+, which is not in the store/,
      /^282 jobs are completed, but the log has 283 leaves/,
    ],
    ['an unreadable job', ({ jobs }) => jobs.put(keyOf(first), Buffer.from('{')), /^leaf 0 cannot be read/],
    [
      'a changed job',
      ({ jobs }) => jobs.put(keyOf(first), encodeJob({ ...first, visibility: 'partner' })),
      /^leaf 0 is not the manifest of job_/,
    ],
    [
      'a lost outcome',
      ({ outcomes }) => outcomes.remove(keyOf(first)),
      /^leaf 0 is of job_\w+, which does not say so/,
      /^job_\w+ has no outcome and does not wait/,
    ],
    [
      'an outcome that points elsewhere',
      ({ outcomes }) => outcomes.put(keyOf(first), encodeSealed(1)),
      /^leaf 0 is of job_\w+, which does not say so/,
    ],
    [
      'a job nobody will seal',
      (d) => d.waiting.remove(keyOf(waiting)),
      /^job_\w+ has no outcome and does not wait/,
    ],
    [
      'a job sealed again',
      (d) => d.waiting.put(keyOf(first), Buffer.alloc(0)),
      /^job_\w+ waits, but has an outcome/,
    ],
    [
      'a job lost while waiting',
      ({ jobs }) => jobs.remove(keyOf(waiting)),
      /^the jobs cannot be read to its end/,
    ],
    ['the list of a client', ({ scopes }) => forget(scopes, first), /^job_\w+ is not found by its client/],
    [
      'the list of a document',
      ({ lookups }) => forget(lookups, failed),
      /^job_\w+ is not found by its client and document_sha256/,
      /^job_\w+ is not found by its client and customer_reference/,
    ],
    [
      'the list of an organization',
      ({ scopes }) => scopes.remove(postingOf(shared, 'organization')),
      /^job_\w+ is not found by its organization$/,
    ],
    [
      'the list of partners',
      ({ scopes }) => scopes.remove(postingOf(shared, 'partners')),
      /^job_\w+ is not found by its partners$/,
    ],
    [
      'the list of a shared document',
      ({ lookups }) => forget(lookups, shared),
      /^job_\w+ is not found by its client and document_sha256/,
      /^job_\w+ is not found by its partners and document_sha256/,
    ],
    [
      'a changed organization',
      async ({ jobs }) => {
        const record = jobs.getBinary(keyOf(first)) ?? Buffer.alloc(0);
        const damaged = record.toString('latin1').replace(first.organization, 'acmX');
        await jobs.put(keyOf(first), Buffer.from(damaged, 'latin1'));
      },
      /^leaf 0 cannot be read to its end: job_\w+ in the store is damaged: its checksum is wrong/,
    ],
    [
      'a leaf without a checkpoint',
      ({ leaves }) => leaves.put(counterKey(SIZE), Buffer.alloc(80)),
      /^1 leaves are behind the newest checkpoint, 283/,
    ],
    [
      'a leaf far away',
      ({ leaves }) => leaves.put(counterKey(SIZE * 1e9), Buffer.alloc(80)),
      /^1 leaves are behind the newest checkpoint, 283/,
    ],
    [
      'a tile wider than the tree',
      ({ tiles }) => widen(tiles, tileKey(0, 1)),
      /^tile\/0\/001 reaches behind the newest checkpoint, 283/,
    ],
    [
      'an upper tile wider than the tree',
      ({ tiles }) => widen(tiles, tileKey(1, 0)),
      /^tile\/1\/000 reaches behind the newest checkpoint, 283/,
    ],
    [
      'a tile too many',
      ({ tiles }) => widen(tiles, tileKey(0, 2)),
      /^tile\/0\/002 reaches behind the newest checkpoint, 283/,
    ],
    [
      'a level too many',
      ({ tiles }) => widen(tiles, tileKey(2, 0)),
      /^tile\/2\/000 reaches behind the newest checkpoint, 283/,
    ],
    [
      'a damaged API key',
      ({ credentials }) => credentials.put(Buffer.alloc(32), Buffer.from('12345678{}')),
      /^the API keys cannot be read to its end: a record in the store is damaged/,
    ],
    [
      'an outcome of no job',
      ({ outcomes }) => outcomes.put(keyOf(makeJob(newJobId())), encodeSealed(1)),
      /^an outcome is of job_\w+, which is not in the store/,
    ],
    [
      'a document that was fetched, lost',
      ({ contents }) => contents.remove(keyOf(fetched)),
      /^leaf 2 is of job_\w+, whose document is not known/,
    ],
    [
      'a source nobody will fetch from',
      ({ sources }) => sources.remove(keyOf(unfetched)),
      /^job_\w+ has neither a document nor a source/,
    ],
    [
      'a source kept for too long',
      ({ sources }) => sources.put(keyOf(failed), encodeRecord('https://files.example.com/')),
      /^job_\w+ still has its source URL, which nobody needs/,
    ],
    [
      'a document of no job',
      ({ contents }) => contents.put(keyOf(makeJob(newJobId())), encodeContent(makeContent())),
      /^a document is of job_\w+, which is not in the store/,
    ],
    [
      'an idempotency entry of no job',
      ({ idempotency }) => idempotency.put(Buffer.alloc(16, 1), encodeRecord({ jobId: newJobId() })),
      /^an idempotency entry is of job_\w+, which is not in the store/,
    ],
  ];
  for (const [index, [name, damage, ...problems]] of cases.entries()) {
    const path = join(dir, `case-${index}`);
    cpSync(good, path, { recursive: true });
    const databases = openDatabases(path, { readOnly: false });
    await damage(databases);
    await databases.root.close();
    const report = await check(path);
    t.ok(report.problemCount > 0, name);
    for (const problem of problems)
      t.ok(
        report.problems.some((text) => problem.test(text)),
        `${name}: ${problem}`,
        report,
      );
  }
});

t.test('fewer signatures than the quorum are not enough', async (t) => {
  const store = await openStore({ path: good, readOnly: true });
  t.teardown(() => store.close());
  const report = await checkLog(store, { trust: trusting(2), problemsMax: 1, onLeaves: () => {} });
  t.match(report, { problemCount: SIZE, problems: [/does not verify: quorum: /] });
});

t.test('every checkpoint is held to the epoch it was sealed in', async (t) => {
  const store = await openStore({ path: good, readOnly: true });
  t.teardown(() => store.close());
  const { privateKey: _, ...newKey } = makeKey('ed25519', 'one');
  const begun = (from: number) => {
    const old = { notBefore: 0, notAfter: from - 1, quorum: { needed: 1 }, timestamps: 'none' as const };
    const epochs = [
      { ...old, keys: [logKey] },
      { notBefore: from, quorum: { needed: 1 }, timestamps: 'required' as const, keys: [newKey] },
    ];
    const { timestampAuthorities } = trusting(1);
    return { timestampAuthorities, logs: [{ origin: ORIGIN, environment: 'env_test', epochs }] };
  };
  const options = { problemsMax: 1, onLeaves: () => {} };
  t.match(await checkLog(store, { trust: begun(SEALED_AT + 1), ...options }), { problemCount: 0 });
  t.match(await checkLog(store, { trust: begun(SEALED_AT), ...options }), {
    problemCount: SIZE,
    problems: [/quorum: signed by 0 keys .*; one\/log signed, but not in an epoch of that key$/],
  });
});

t.test('many problems are counted, few named', async (t) => {
  const path = join(dir, 'many');
  cpSync(good, path, { recursive: true });
  const databases = openDatabases(path, { readOnly: false });
  await editBatch(databases, SIZE, () => ({ sealedAt: 5 }));
  await databases.root.close();
  const report = await check(path);
  t.match(report, { problemCount: 30 });
  t.equal(report.problems.length, 9);
});

function trusting(quorum: number): TrustFile {
  const log = oneEpoch({ origin: ORIGIN, environment: 'env_test', quorum, keys: [logKey] });
  const timestampAuthorities = [{ name: 'built-in', root: pki.root }];
  return { timestampAuthorities, logs: [log] };
}

async function check(path: string): Promise<LogReport> {
  const store = await openStore({ path, readOnly: true });
  try {
    return await checkLog(store, { trust: trusting(1), problemsMax: 9, onLeaves: () => {} });
  } finally {
    await store.close();
  }
}

async function fill(path: string): Promise<void> {
  const store = await openStore({ path });
  const sourceUrl = 'https://files.example.com/a.pdf';
  for (const { content, ...job } of jobs) {
    if (job.source === 'upload') {
      await store.accept({ ...job, content });
    } else {
      await store.accept(job, { sourceUrl });
      await store.receive(job.id, content);
    }
  }
  await store.accept(unfetched, { sourceUrl });
  let edge = emptyEdge();
  for (const leaves of BATCHES) edge = await seal(store, edge, jobs.slice(edge.size, edge.size + leaves));
  await store.fail(jobAt(SIZE + 1).id, {
    code: 'kms_partition_unavailable',
    message: 'gone',
    failedAt: SEALED_AT,
  });
  await store.close();
}

async function seal(store: Store, edge: Edge, batch: ReceivedJob[]): Promise<Edge> {
  const leaves = batch.map((job) => ({
    jobId: job.id,
    clientId: job.clientId,
    data: leafData(manifestOf(job, 'test', SEALED_AT)),
  }));
  const grown = appendLeaves(
    edge,
    leaves.map(({ data }) => leafHash(data)),
  );
  const treeSize = grown.edge.size;
  const checkpoint = sign(encodeCheckpoint({ origin: ORIGIN, treeSize, root: rootOf(grown.edge) }));
  await store.commitBatch({
    epochsRevision: 0,
    firstLeaf: edge.size,
    treeSize,
    sealedAt: SEALED_AT,
    checkpoint,
    algorithm: receiptAlgorithm(key.algorithm),
    kmsKeyId: kmsKeyId(key),
    // The first two alone: a log may have been without an authority for a while.
    ...(treeSize <= 3 && { timestamp: await stampCheckpoint(authority, checkpoint) }),
    leaves,
    tiles: grown.tiles,
  });
  return grown.edge;
}

function sign(text: string): string {
  return signNote(ORIGIN, text, [key]);
}

function resign(checkpoint: string, by: typeof key): string {
  return signNote(ORIGIN, textOf(checkpoint), [by]);
}

function textOf(note: string): string {
  return note.slice(0, note.indexOf('\n\n') + 1);
}

function jobAt(index: number): ReceivedJob {
  const job = jobs[index];
  if (job === undefined) throw new Error(`no job ${index}`);
  return job;
}

function keyOf({ id }: Job): Buffer {
  return jobKey(id) ?? Buffer.alloc(0);
}

async function flip(database: Databases['leaves'], at: Buffer, byte: number): Promise<void> {
  const value = Buffer.from(database.getBinary(at) ?? '');
  const offset = byte < 0 ? value.length + byte : byte;
  value.writeUInt8(value.readUInt8(offset) ^ 1, offset);
  await database.put(at, value);
}

async function editBatch({ batches }: Databases, treeSize: number, edit: (batch: Batch) => Partial<Batch>) {
  const batch = batchIn({ batches }, treeSize);
  await batches.put(counterKey(treeSize), encodeRecord({ ...batch, ...edit(batch) }));
}

function batchIn({ batches }: Pick<Databases, 'batches'>, treeSize: number): Batch {
  return parseRecord<Batch>(batches.getBinary(counterKey(treeSize)) ?? Buffer.alloc(0));
}

/** Adds a hash to a tile, which need not be there. */
async function widen(tiles: Databases['tiles'], at: Buffer): Promise<void> {
  await tiles.put(at, Buffer.concat([tiles.getBinary(at) ?? Buffer.alloc(0), Buffer.alloc(32)]));
}

function postingOf(job: Job, circle: 'organization' | 'partners'): Buffer {
  return Buffer.concat([termKey(circle, job.organization), keyOf(job)]);
}

/** Removes every index entry that ends with the job's key. */
async function forget(index: Databases['scopes'], job: Job): Promise<void> {
  const entries = [...index.getKeys({})].filter((entry) => keyOf(job).equals(entry.subarray(-16)));
  for (const entry of entries) await index.remove(entry);
}
