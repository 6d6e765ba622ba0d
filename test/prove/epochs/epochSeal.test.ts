/** A store whose epochs its log sealed, and what becomes of it in the hands of somebody who has no key of the log. */
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { newJobId } from '../../../src/job/id.ts';
import { isReceived, type Job, type ReceivedJob } from '../../../src/job/job.ts';
import { encodeCheckpoint } from '../../../src/log/checkpoint.ts';
import type { Epoch } from '../../../src/log/epochs.ts';
import { appendLeaves, type Edge, emptyEdge, leafHash, loadEdge, rootOf } from '../../../src/log/tree.ts';
import { encodeAuditRecord, parseAuditRecord } from '../../../src/manifest/auditRecord.ts';
import { leafData, manifestOf } from '../../../src/manifest/manifest.ts';
import { epochObject } from '../../../src/manifest/sealedForm.ts';
import { EpochSeal, examineEpochs } from '../../../src/prove/epochs/epochSeal.ts';
import { actOfProcess } from '../../../src/store/acts.ts';
import { encodeJob, parseJob } from '../../../src/store/jobCodec.ts';
import type { Databases } from '../../../src/store/lmdb/databases.ts';
import { counterKey, idKey, parseJobKey } from '../../../src/store/lmdb/keyLayout.ts';
import { createStore, openStore } from '../../../src/store/lmdb/open.ts';
import { encodeRecord, parseRecord } from '../../../src/store/records.ts';
import type { Batch, Store } from '../../../src/store/store.ts';
import type { TrailEntry } from '../../../src/store/trail.ts';
import { firstEpoch, makeJob, makeKey, signNote, type TestKey } from '../../support/sealing.ts';
import { tamper } from '../../support/wholeStore.ts';

const ORIGIN = 'seal.example.com/test/2026';
const HOUR_MS = 3_600_000;
const BEGIN = Date.parse('2026-03-01T00:00:00Z');
const hours = (count: number) => BEGIN + count * HOUR_MS;
const [eu, us, attacker] = [makeKey('ed25519', 'eu'), makeKey('ed25519', 'us'), makeKey('ed25519', 'eu')];
const { privateKey: _, ...attackersKey } = attacker;
const publicHalf = ({ privateKey: _, ...key }: TestKey) => key;
const first = firstEpoch([publicHalf(eu), publicHalf(us)], { from: BEGIN });
const second: Epoch = { ...first, from: hours(10), quorum: { needed: 2 } };
const third: Epoch = { ...first, from: hours(20), keys: firstEpoch([publicHalf(us)]).keys };
const rotated: Epoch = { ...first, from: hours(10), keys: firstEpoch([attackersKey, publicHalf(us)]).keys };
const mine: Epoch = { ...first, keys: firstEpoch([attackersKey]).keys };

/** Seals everything that waits, as a daemon does. */
async function seal(store: Store, sealedAt: number, keys: readonly TestKey[], edge: Edge): Promise<Edge> {
  const jobs = (await store.jobs.waiting(2000)).filter(isReceived) as ReceivedJob[];
  const leaves = jobs.map((job) => ({
    jobId: job.id,
    clientId: job.clientId,
    data: leafData(manifestOf(job, 'test', sealedAt)),
  }));
  const grown = appendLeaves(
    edge,
    leaves.map(({ data }) => leafHash(data)),
  );
  const text = encodeCheckpoint({ origin: ORIGIN, treeSize: grown.edge.size, root: rootOf(grown.edge) });
  const { revision } = await store.epochs.newest();
  await store.log.commit({
    epochsRevision: revision,
    firstLeaf: edge.size,
    treeSize: grown.edge.size,
    sealedAt,
    checkpoint: signNote(ORIGIN, text, keys),
    algorithm: 'Ed25519',
    kmsKeyId: 'eu/log',
    leaves,
    tiles: grown.tiles,
  });
  return grown.edge;
}

async function edgeOf({ log }: Store): Promise<Edge> {
  return loadEdge((await log.head())?.treeSize ?? 0, (level, index) => log.tile(level, index));
}

const act = (name: Parameters<typeof actOfProcess>[1], epoch: Epoch) =>
  actOfProcess('command', name, epochObject(ORIGIN, epoch));
const otherAct = () => actOfProcess('command', 'key.issue', { key: 'key_1' });

/** Three epochs, records of each, and other records in between; the third is planned, and its record sealed. */
async function makeLog(path: string): Promise<void> {
  const identity = { environment: 'test', logOrigin: ORIGIN, createdAt: BEGIN };
  await createStore({ path, identity, epoch: first, act: act('log.create', first) });
  const store = await openStore({ path });
  await store.trail.append(otherAct());
  let edge = await seal(store, hours(1), [eu], emptyEdge());
  for (const [index, epoch] of [second, third].entries()) {
    const { list, revision } = await store.epochs.newest();
    await store.epochs.change([...list, epoch], revision, act('epoch.plan', epoch));
    edge = await seal(store, hours(5 + 10 * index), [eu, us], edge);
    await store.trail.append(otherAct());
    edge = await seal(store, hours(6 + 10 * index), [eu, us], edge);
  }
  await store.close();
}

/** One of the two keys was replaced, and one signature is enough: also the old keys could have signed the newest checkpoint. */
async function makeRotatedLog(path: string): Promise<void> {
  const identity = { environment: 'test', logOrigin: ORIGIN, createdAt: BEGIN };
  await createStore({ path, identity, epoch: first, act: act('log.create', first) });
  const store = await openStore({ path });
  const edge = await seal(store, hours(1), [eu, us], emptyEdge());
  await store.epochs.change([first, rotated], 0, act('epoch.plan', rotated));
  const planned = await seal(store, hours(5), [eu, us], edge);
  await store.trail.append(act('epoch.begin', rotated));
  await seal(store, hours(11), [us], planned);
  await store.close();
}

const dir = t.testdir();
const [good, quorumOfOne] = [join(dir, 'good'), join(dir, 'quorum-of-one')];
await makeLog(good);
await makeRotatedLog(quorumOfOne);
let copies = 0;

function copyOf(path: string): string {
  const copy = join(dir, `copy-${copies++}`);
  cpSync(path, copy, { recursive: true });
  return copy;
}

async function examine(path: string): Promise<string> {
  const store = await openStore({ path, readOnly: true });
  const { problems } = await examineEpochs(store).catch(({ message }: Error) => ({ problems: [message] }));
  await store.close();
  return problems.length > 0 ? problems.join('\n') : 'sealed';
}

/** Puts a list into the newest entry of the epochs. */
function setEpochs({ epochs }: Databases, list: readonly Epoch[]): void {
  for (const key of epochs.getKeys({ reverse: true, limit: 1 })) epochs.put(key, encodeRecord(list));
}

function newestRecord({ trail }: Databases): number {
  for (const key of trail.getKeys({ reverse: true, limit: 1 })) return Buffer.from(key).readUIntBE(2, 6);
  return 0;
}

t.test('sealed epochs are read from the log', async (t) => {
  t.equal(await examine(good), 'sealed');
  const store = await openStore({ path: good, readOnly: true });
  const seal = new EpochSeal(store);
  const { epochs, sealed } = await seal.read();
  t.strictSame(epochs.list, [first, second, third]);
  t.match(sealed, {
    list: [
      { record: 1, isSealed: true },
      { record: 3, isSealed: true },
      { record: 5, isSealed: true },
    ],
  });
  t.equal(await seal.newest(), epochs, 'what is proven is not proven again');
  t.equal((await Promise.all([seal.read(), seal.read()])).length, 2, 'also at the same time');
  await store.close();
});

/** What somebody does to a copy of the store, and what names it. */
const forged: [name: string, from: string, message: RegExp, forge: (databases: Databases) => unknown][] = [
  [
    'a past epoch',
    good,
    /^the epochs in the store are not those that the log sealed:\nepoch 1: verifier_keys: eu\/log/,
    (databases) => setEpochs(databases, [mine, second, third]),
  ],
  [
    'the record of a past epoch with it',
    good,
    /^audit record 1 is not what job_\w+ seals: it was altered|^audit record 2 was not written after record 1/,
    (databases) => {
      setEpochs(databases, [mine, second, third]);
      rewrite(databases, 1, act('log.create', mine));
    },
  ],
  [
    'every record from there on',
    good,
    /^audit record 1 is not what job_\w+ seals: it was altered/,
    (databases) => {
      setEpochs(databases, [mine, second, third]);
      rewriteFrom(databases, 1, (number) => (number === 1 ? act('log.create', mine) : undefined));
    },
  ],
  ['a record left out', good, /^audit record 3 is missing/, ({ trail }) => trail.remove(counterKey(3))],
  [
    'a record left out, and the gap closed',
    good,
    /^audit record 3 was not written after record 2/,
    (databases) => {
      setEpochs(databases, [first, third]);
      for (let number = 3; number < 6; number++) move(databases, number + 1, number);
      databases.trail.remove(counterKey(6));
    },
  ],
  [
    'the newest plan, with the end of the trail',
    good,
    /^leaf 5 of the log is audit record 6, which the trail does not have: the end of the trail was cut/,
    (databases) => {
      setEpochs(databases, [first, second]);
      for (const number of [5, 6]) databases.trail.remove(counterKey(number));
    },
  ],
  [
    'the same, with the jobs of these records made jobs of a client',
    good,
    /^the log in the store does not match its newest checkpoint; nothing will be signed/,
    (databases) => {
      setEpochs(databases, [first, second]);
      for (const number of [5, 6]) {
        const key = idKey('job', entryIn(databases, number)[0]) ?? Buffer.alloc(0);
        const job = parseJob(parseJobKey(key), databases.jobs.getBinary(key) ?? Buffer.alloc(0));
        databases.jobs.put(key, encodeJob({ ...job, source: 'upload' }));
        databases.trail.remove(counterKey(number));
      }
    },
  ],
  [
    'the whole trail, so that the list could be sealed again',
    good,
    /^leaf 5 of the log is audit record 6, which the trail does not have/,
    (databases) => {
      setEpochs(databases, [mine, second, third]);
      for (let number = 1; number <= 6; number++) databases.trail.remove(counterKey(number));
    },
  ],
  [
    'the beginning of the trail replaced by a record that names keys without their value',
    good,
    /^audit record 1 is not what job_\w+ seals/,
    (databases) => {
      setEpochs(databases, [mine, second, third]);
      rewriteFrom(databases, 1, (number) =>
        number === 1
          ? actOfProcess('command', 'log.create', { keys: ['eu/log'], quorum: 1, timestamps: 'none' })
          : undefined,
      );
    },
  ],
  [
    'the newest checkpoint signed by another',
    good,
    /^the newest checkpoint, of size 6, is not signed as the epoch from 2026-03-01T10:00:00\.000Z on requires: signed by 0 keys .*needed: 2$/,
    (databases) =>
      editHead(databases, ({ checkpoint }) => ({
        checkpoint: signNote(ORIGIN, `${checkpoint.split('\n\n')[0]}\n`, [attacker]),
      })),
  ],
  [
    'the newest checkpoint signed by one of the two',
    good,
    /is not signed as the epoch .* requires: signed by 1 key/,
    (databases) =>
      editHead(databases, ({ checkpoint }) => ({
        checkpoint: signNote(ORIGIN, `${checkpoint.split('\n\n')[0]}\n`, [eu]),
      })),
  ],
  [
    'the time of the newest batch, so that an epoch with fewer keys applies',
    good,
    /^the log in the store does not match its newest checkpoint; nothing will be signed/,
    (databases) => editHead(databases, () => ({ sealedAt: hours(7) })),
  ],
  [
    'the log',
    good,
    /^the log in the store does not match its newest checkpoint; nothing will be signed/,
    ({ tiles }) => tiles.put(Buffer.from([...tiles.getKeys({ limit: 1 })][0] ?? []), Buffer.alloc(6 * 32)),
  ],
  [
    'a checkpoint that nobody can read',
    good,
    /^the newest checkpoint, of size 6, cannot be read/,
    (databases) => editHead(databases, () => ({ checkpoint: 'x' })),
  ],
];
for (const [name, from, message, forge] of forged)
  t.test(`noticed: ${name}`, async (t: Test) => {
    const path = copyOf(from);
    await tamper(path, forge);
    t.match(await examine(path), message);
  });

t.test('an epoch in the past, planned by a record that a daemon seals, has no effect', async (t) => {
  const path = copyOf(good);
  const store = await openStore({ path });
  const late = { ...mine, from: hours(15) };
  await store.epochs.change([first, second, third], 2, act('epoch.plan', late));
  const reason =
    'audit record 7 (epoch.plan) has no effect: the epoch begins at 2026-03-01T15:00:00.000Z, but the log has a batch of 2026-03-01T16:00:00.000Z already, from before the record was sealed';
  const look = async () => (await new EpochSeal(store).read()).sealed.void;
  t.strictSame(await look(), [reason]);
  await seal(store, hours(17), [eu, us], await edgeOf(store));
  t.strictSame(await look(), [reason], 'nor once it is sealed');
  await store.epochs.change([first, second, late, third], 3, null);
  t.match(
    await examine(path),
    /\nepoch 3: from: .*\nepoch 4: the store has it .*\naudit record 7 .*has no effect: /s,
  );
  t.strictSame((await new EpochSeal(store).derived())?.list, [first, second, third]);
  await store.close();
});

/** Removes records from the end of the trail on, and the epochs that they planned. */
function cut(databases: Databases, from: number): void {
  setEpochs(databases, [first]);
  for (let number = newestRecord(databases); number >= from; number--)
    databases.trail.remove(counterKey(number));
}

t.test(
  'records cut off the end are noticed at the start, even if others were put in their place',
  async (t) => {
    t.equal(await examine(quorumOfOne), 'sealed');
    const message =
      /^leaf 2 of the log is audit record 3, which the trail does not have: the end of the trail was cut/;
    const path = copyOf(quorumOfOne);
    await tamper(path, (databases) => cut(databases, 2));
    const store = await openStore({ path });
    for (let added = 0; added < 3; added++) {
      await t.rejects(new EpochSeal(store).read(), { message }, `${added} records put in`);
      await store.trail.append(otherAct());
    }
    const [, forged] = await store.trail.entries(0, 2);
    const job = (await store.jobs.get(forged?.jobId ?? ''))?.job;
    await t.rejects(new EpochSeal(store).requireRecord(job as Job), { message }, 'nor are these sealed');
    await store.close();
  },
);

t.test('a job for a record that is not at its place in the trail is not sealed', async (t) => {
  // The forged records, with their jobs, wait in the true store, and in the true trail there is nothing of them.
  const path = copyOf(quorumOfOne);
  const forgery = copyOf(quorumOfOne);
  await tamper(forgery, (databases) => cut(databases, 2));
  const forging = await openStore({ path: forgery });
  await forging.trail.append(otherAct());
  const [forged] = await forging.trail.entries(1, 1);
  const own = (await forging.jobs.get(forged?.jobId ?? ''))?.job as ReceivedJob;
  await forging.close();

  const store = await openStore({ path });
  const seal = new EpochSeal(store);
  await seal.read();
  await t.rejects(seal.requireRecord(own), {
    code: 'epochs_contradicted',
    message: /^job_\w+ waits to seal audit\/2, but the trail has no such record to seal/,
  });
  const sealedJob = async (number: number) =>
    (await store.jobs.get((await store.trail.entry(number))?.jobId ?? ''))?.job as ReceivedJob;
  await t.rejects(seal.requireRecord(await sealedJob(3)), { code: 'epochs_contradicted' }, 'nor once more');
  await store.trail.append(otherAct());
  await seal.requireRecord(await sealedJob(4));
  await new EpochSeal(store).requireRecord(await sealedJob(4));
  const { content } = own;
  await t.rejects(seal.requireRecord({ ...(await sealedJob(4)), content }), { code: 'epochs_contradicted' });

  // While the daemon runs, somebody puts other records into the trail.
  const { trail, ...others } = store;
  const watched = new EpochSeal({
    ...others,
    trail: { ...trail, entries: async (after, limit) => (await trail.entries(after, limit)).map(altered) },
  } as Store);
  let isAltered = false;
  const altered = (entry: TrailEntry) =>
    isAltered && entry.number === 5 ? { ...entry, text: forged?.text ?? '' } : entry;
  await watched.read();
  isAltered = true;
  await store.trail.append(otherAct());
  await t.rejects(watched.requireRecord(await sealedJob(5)), {
    message: /^audit record 5 was not written after record 4/,
  });
  await store.close();
});

t.test('the log is read back to its newest audit record once, with progress reports', async (t) => {
  const path = join(dir, 'many-leaves');
  const identity = { environment: 'test', logOrigin: ORIGIN, createdAt: BEGIN };
  await createStore({ path, identity, epoch: first, act: act('log.create', first) });
  const store = await openStore({ path });
  const begun = await seal(store, hours(1), [eu], emptyEdge());
  for (let count = 0; count < 1001; count++) await store.jobs.accept(makeJob(newJobId()));
  const edge = await seal(store, hours(2), [eu], begun);
  const told: number[] = [];
  const epochSeal = new EpochSeal(store, { onLeaves: (leaves) => told.push(leaves) });
  await epochSeal.read();
  t.strictSame(told, [2, 502]);
  const read = { size: 1001, newestRecord: 0 };
  await new EpochSeal(store, { onLeaves: (leaves) => told.push(leaves), read }).read();
  t.strictSame(told, [2, 502], 'only leaves that the caller has not read');
  await store.trail.append(otherAct());
  await epochSeal.read();
  await seal(store, hours(3), [eu], edge);
  await epochSeal.read();
  t.strictSame(told, [2, 502]);
  await new EpochSeal(store, { onLeaves: (leaves) => told.push(leaves) }).read();
  t.strictSame(told, [2, 502], 'the newest leaf is an audit record now');
  await store.close();
});

t.test('a record that the log has sealed cannot pass for an unsealed one', async (t) => {
  const path = copyOf(quorumOfOne);
  await tamper(path, (databases) => {
    setEpochs(databases, [first]);
    databases.outcomes.remove(idKey('job', entryIn(databases, 2)[0]) ?? Buffer.alloc(0));
  });
  t.match(await examine(path), /^audit record 2 is not sealed, but record 3 is: /);
});

t.test('a list is restored only from sealed records', async (t) => {
  const path = copyOf(quorumOfOne);
  const store = await openStore({ path });
  const own = { ...mine, from: hours(20) };
  t.ok(await store.epochs.change([first, rotated, own], 1, act('epoch.plan', own)));
  await t.rejects(new EpochSeal(store).derived(), {
    code: 'epochs_contradicted',
    message: /^the log has not sealed audit record 4, which changes the epochs/,
  });
  await store.close();
});

t.test('a change while the daemon runs is noticed, and nothing is read twice', async (t) => {
  const path = copyOf(good);
  const store = await openStore({ path });
  const reads: number[] = [];
  const { trail, ...others } = store;
  const watched = {
    ...others,
    trail: {
      ...trail,
      entries: (after: number, limit: number) => {
        reads.push(after);
        return trail.entries(after, limit);
      },
    },
  };
  const seal = new EpochSeal(watched as Store);
  await seal.newest();
  await store.epochs.change([first, second], 2, act('epoch.cancel', third));
  t.strictSame((await seal.newest()).list, [first, second]);
  t.strictSame(reads, [0, 6, 6, 7]);
  await store.epochs.change([mine, second], 3, otherAct());
  await t.rejects(seal.newest(), { code: 'epochs_contradicted', message: /epoch 1: verifier_keys/ });
  await t.rejects(seal.newest(), { code: 'epochs_contradicted' }, 'and so it stays');
  await store.close();
});

function editHead({ batches }: Databases, change: (batch: Batch) => Partial<Batch>): void {
  for (const { key, value } of batches.getRange({ reverse: true, limit: 1 })) {
    const batch = parseRecord<Batch>(value);
    batches.put(key, encodeRecord({ ...batch, ...change(batch) }));
  }
}

function entryIn({ trail }: Databases, number: number): [jobId: string, text: string] {
  return parseRecord(trail.getBinary(counterKey(number)) ?? Buffer.alloc(0));
}

function move({ trail, ...databases }: Databases, from: number, to: number): void {
  trail.put(counterKey(to), encodeRecord(entryIn({ trail, ...databases } as Databases, from)));
}

/** Replaces the act of a record. */
function rewrite(
  databases: Databases,
  number: number,
  act: Parameters<typeof encodeAuditRecord>[0],
  previous?: string,
): string {
  const [jobId, text] = entryIn(databases, number);
  const place = { number, previous, atMs: Date.parse(parseAuditRecord(text)?.at ?? ''), environment: 'test' };
  const forged = encodeAuditRecord(act, place);
  databases.trail.put(counterKey(number), encodeRecord([jobId, forged]));
  return forged;
}

/** Replaces records, and gives all that follow the digest of the one before them. */
function rewriteFrom(
  databases: Databases,
  first: number,
  change: (number: number) => Parameters<typeof encodeAuditRecord>[0] | undefined,
): void {
  let previous: string | undefined;
  for (let number = first; number <= newestRecord(databases); number++) {
    const record = parseAuditRecord(entryIn(databases, number)[1]);
    if (record === undefined) throw new Error('no record');
    const { act, actor, object, outcome } = record;
    previous = rewrite(databases, number, change(number) ?? { act, actor, object, outcome }, previous);
  }
}
