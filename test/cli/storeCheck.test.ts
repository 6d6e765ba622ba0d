import { cpSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { runCheck } from '../../src/cli/store/runCheck.ts';
import { checkStore } from '../../src/cli/store/storeCheck.ts';
import { emptyIndexReport, isWhole, type StoreReport } from '../../src/cli/store/storeReport.ts';
import type { Config } from '../../src/config/config.ts';
import { newJobId } from '../../src/job/id.ts';
import { encodeCheckpoint } from '../../src/log/checkpoint.ts';
import { encodeNote, parseNote } from '../../src/log/note.ts';
import { emptyEdge } from '../../src/log/tree.ts';
import { encodeContent, encodeJob } from '../../src/store/jobCodec.ts';
import type { Databases } from '../../src/store/lmdb/databases.ts';
import { counterKey } from '../../src/store/lmdb/keyLayout.ts';
import { openStore } from '../../src/store/lmdb/open.ts';
import { encodeFailed } from '../../src/store/lmdb/outcomeRecords.ts';
import { encodeRecord, parseRecord } from '../../src/store/records.ts';
import type { Batch, Store } from '../../src/store/store.ts';
import type { WitnessState } from '../../src/store/witnessStore.ts';
import { firstEpoch, makeContent, makeJob, makeKey, signNote, type TestKey } from '../support/sealing.ts';
import {
  BATCHES,
  fetched,
  first,
  keyOf,
  logKey,
  makeEmptyStore,
  makeWholeStore,
  ORIGIN,
  SEALED_AT,
  SIZE,
  seal,
  sign,
  tamper,
  trusting,
  unfetched,
  waiting,
} from '../support/wholeStore.ts';

const dir = t.testdir();
const good = join(dir, 'good');
await makeWholeStore(good);

t.test('an undamaged log has no problems', async (t) => {
  const seen: number[] = [];
  const parts: string[] = [];
  const store = await openStore({ path: good, readOnly: true });
  const report = await checkStore(store, {
    trust: trusting(1),
    problemsMax: 9,
    onLeaves: (leaves) => seen.push(leaves),
    onPart: (part) => parts.push(part),
  });
  await store.close();
  t.strictSame(report, {
    leaves: SIZE,
    batches: BATCHES.length,
    completed: SIZE,
    failed: 2,
    waiting: 4,
    problemCount: 0,
    problems: [],
    flaws: [],
    indexes: emptyIndexReport(),
    epochs: 'sealed',
  });
  t.ok(isWhole(report));
  t.strictSame(seen, [1, 3, 253, 283]);
  t.match(parts, ['the log', 'what is behind its end', 'the jobs']);
  t.strictSame(parts.slice(-2), ['the indexes', 'the epochs']);
});

t.test('leaves that a daemon seals meanwhile are not read', async (t) => {
  const store = await openStore({ path: good, readOnly: true });
  const atFirst = await store.log.batchOf(2);
  let heads = 0;
  const asked: [from: number, to: number][] = [];
  const log = inFrontOf(store.log, {
    head: async () => (heads++ === 0 ? atFirst : store.log.head()),
    leaves: async (from, to) => {
      asked.push([from, to]);
      return store.log.leaves(from, to);
    },
  });
  const growing = inFrontOf(store, { log });
  const options = { trust: trusting(1), problemsMax: 9, onLeaves: () => {} };
  t.match(await checkStore(growing, options), { leaves: 3, problemCount: 0 });
  await store.close();
  t.match(asked.slice(0, 3), [
    [0, 1],
    [1, 3],
    [SIZE, Number.MAX_SAFE_INTEGER],
  ]);
});

t.test('leaves that the check has verified are not read again for the newest audit record', async (t) => {
  const store = await openStore({ path: good, readOnly: true });
  const single = new Set<number>();
  const log = inFrontOf(store.log, {
    leaves: async (from, to) => {
      if (to === from + 1) single.add(from);
      return store.log.leaves(from, to);
    },
  });
  const options = { trust: trusting(1), problemsMax: 9, onLeaves: () => {} };
  t.match(await checkStore(inFrontOf(store, { log }), options), { epochs: 'sealed', problemCount: 0 });
  await store.close();
  t.strictSame([...single], [0, SIZE - 1], 'a batch of one leaf, and the newest leaf');
});

t.test('an empty log has no problems', async (t) => {
  const path = join(dir, 'empty');
  await makeEmptyStore(path);
  t.match(await check(path), { leaves: 0, batches: 0, problemCount: 0 });
});

t.test(
  'every kind of damage to data without a second copy is found, and no index is judged by it',
  async (t) => {
    const stranger = makeKey('ed25519', 'one');
    const cases: [name: string, damage: (databases: Databases) => Promise<unknown>, ...problems: RegExp[]][] =
      [
        [
          'a leaf',
          ({ leaves }) => flip(leaves, counterKey(200), -1),
          /^checkpoint 253 is not of these leaves/,
          /^leaf 200 is not the manifest of job_/,
        ],
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
          'a checkpoint that witnesses cosigned, of other leaves',
          ({ identity }) =>
            editWitnessing({ identity }, ({ witnessed }) => ({
              cosigned: { treeSize: 3, checkpoint: witnessed?.checkpoint.replace('\n3\n', '\n4\n') ?? '' },
            })),
          /^the checkpoint 3 that witnesses cosigned or were asked to cosign is not in the log/,
        ],
        [
          'what witnesses said',
          ({ identity }) => flip(identity, Buffer.from('witnessing'), -5),
          /^what witnesses have said cannot be read to its end: the record of witnesses .* damaged/,
        ],
        [
          'a witness that holds another history',
          ({ identity }) =>
            editWitnessing({ identity }, () => ({
              witnesses: { w: { treeSize: 9, contradiction: { detail: 'it holds 999 leaves', at: 0 } } },
            })),
          /^the witness w holds another history of the log: it holds 999 leaves/,
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
          /^the receipt of job_\w+ does not verify: time-stamp: the token is not a proof: stamps something else/,
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
        [
          'a lost leaf',
          ({ leaves }) => leaves.remove(counterKey(5)),
          /^leaves are missing between 3 and 253/,
        ],
        [
          'a log cut short',
          async ({ batches }) => batches.remove(counterKey(SIZE)),
          /^a job is sealed as leaf 282, but the log has 253 leaves: it was cut/,
        ],
        [
          'a lost job',
          ({ jobs }) => jobs.remove(keyOf(first)),
          /^leaf 0 is of job_\w+, which is not in the store/,
        ],
        [
          'an unreadable job',
          ({ jobs }) => jobs.put(keyOf(first), Buffer.from('{')),
          /^leaf 0 cannot be read/,
        ],
        [
          'a changed job',
          ({ jobs }) => jobs.put(keyOf(first), encodeJob({ ...first, visibility: 'partner' })),
          /^leaf 0 is not the manifest of job_/,
        ],
        [
          'a job lost while waiting',
          ({ jobs }) => jobs.remove(keyOf(waiting)),
          /^an idempotency entry is of job_\w+, which is not in the store/,
        ],
        [
          'an outcome that cannot be read',
          ({ outcomes }) => outcomes.put(keyOf(first), Buffer.from('s')),
          /^leaf 0 cannot be read to its end/,
        ],
        [
          'a sealed job that failed',
          ({ outcomes }) =>
            outcomes.put(keyOf(first), encodeFailed({ code: 'internal_error', message: 'no', failedAt: 1 })),
          /^leaf 0 is of job_\w+, which failed/,
        ],
        [
          'a job sealed twice',
          ({ leaves }) => leaves.put(counterKey(1), leaves.getBinary(counterKey(0)) ?? Buffer.alloc(0)),
          /^leaf 1 is of job_\w+, and so is leaf 0/,
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
          'a damaged API key',
          ({ credentials }) => credentials.put(Buffer.alloc(32), Buffer.from('12345678{}')),
          /^the API keys cannot be read to its end: a record in the store is damaged/,
        ],
        [
          'a deleted API key',
          ({ credentials }) =>
            credentials.remove(Buffer.from([...credentials.getKeys({ limit: 1 })][0] ?? '')),
          /^API key key_\w+ of client \S+ is not in the store, but audit record 2 has it and none revoked it/,
        ],
        [
          'an outcome of no job',
          ({ outcomes }) =>
            outcomes.put(
              keyOf(makeJob(newJobId())),
              encodeFailed({ code: 'internal_error', message: 'no', failedAt: 1 }),
            ),
          /^an outcome is of job_\w+, which is not in the store/,
        ],
        [
          'a document that was fetched, lost',
          ({ contents }) => contents.remove(keyOf(fetched)),
          /^leaf 2 is of job_\w+, whose document is not known/,
        ],
        [
          'a job that no request makes',
          ({ jobs }) => jobs.put(keyOf(waiting), encodeJob({ ...waiting, mode: 'other' as 'blocking' })),
          /^job_\w+ waits in a form that no request makes \(mode: .*\): the daemon fails it at its next start/,
        ],
        [
          'a source nobody will fetch from',
          ({ sources }) => sources.remove(keyOf(unfetched)),
          /^job_\w+ has neither a document nor a source/,
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
        [
          'an idempotency entry that cannot be read',
          ({ idempotency }) => flip(idempotency, idempotency.getKeys({ limit: 1 }), 20),
          /^what is kept of jobs cannot be read to its end/,
        ],
        [
          'a copy that cannot be read',
          ({ copies }) => copies.put(keyOf(first), Buffer.from('12345678{}')),
          /^the copies cannot be read to its end/,
        ],
        [
          'a webhook endpoint that cannot be read',
          ({ endpoints }) => flip(endpoints, endpoints.getKeys({ limit: 1 }), 20),
          /^the webhook endpoints cannot be read to its end/,
        ],
      ];
    for (const [index, [name, damage, ...problems]] of cases.entries()) {
      const path = join(dir, `case-${index}`);
      cpSync(good, path, { recursive: true });
      await tamper(path, damage);
      const report = await check(path);
      t.match(report, { indexes: undefined }, name);
      t.ok(report.problemCount > 0, name);
      for (const problem of problems)
        t.ok(
          report.problems.some((text) => problem.test(text)),
          `${name}: ${problem}`,
          report,
        );
    }
  },
);

t.test('fewer signatures than the quorum are not enough', async (t) => {
  const store = await openStore({ path: good, readOnly: true });
  t.teardown(() => store.close());
  const report = await checkStore(store, { trust: trusting(2), problemsMax: 1, onLeaves: () => {} });
  t.match(report, { problemCount: SIZE, problems: [/does not verify: quorum: /] });
});

t.test('what receipts of one batch share is read and verified once', async (t) => {
  const store = await openStore({ path: good, readOnly: true });
  t.teardown(() => store.close());
  let reads = 0;
  const log = inFrontOf(store.log, {
    batchOf: async (leafIndex) => {
      reads += 1;
      return store.log.batchOf(leafIndex);
    },
  });
  const options = { trust: trusting(1), problemsMax: 9, onLeaves: () => {} };
  t.match(await checkStore(inFrontOf(store, { log }), options), { leaves: SIZE, problemCount: 0 });
  t.ok(reads < 4 * BATCHES.length, `${reads} reads`);
});

t.test('a receipt that nobody could read is found behind a good one of its batch', async (t) => {
  const path = join(dir, 'unreadable');
  await makeEmptyStore(path);
  const store = await openStore({ path });
  const { document } = makeContent();
  const content = makeContent({ document: { ...document, sha256: 'xy'.repeat(32) } });
  const batch = [makeJob(newJobId()), makeJob(newJobId(), { content }), makeJob(newJobId())];
  for (const job of batch) await store.jobs.accept(job);
  await seal(store, emptyEdge(), batch);
  await store.close();
  const report = await check(path);
  t.match(report.problems, [/^the receipt of job_\w+ does not verify: receipt: .*sha256/]);
  t.equal(report.problemCount, 1);
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
  t.match(await checkStore(store, { trust: begun(SEALED_AT + 1), ...options }), { problemCount: 0 });
  t.match(await checkStore(store, { trust: begun(SEALED_AT), ...options }), {
    problemCount: SIZE,
    problems: [/quorum: signed by 0 keys .*; one\/log signed, but not in an epoch of that key$/],
  });
});

t.test('all problems are counted, but only the first few are named', async (t) => {
  const path = join(dir, 'many');
  cpSync(good, path, { recursive: true });
  await tamper(path, (databases) => editBatch(databases, SIZE, () => ({ sealedAt: 5 })));
  const report = await check(path);
  t.match(report, { problemCount: 30 });
  t.equal(report.problems.length, 9);
});

async function check(path: string): Promise<StoreReport> {
  const store = await openStore({ path, readOnly: true });
  try {
    return await checkStore(store, { trust: trusting(1), problemsMax: 9, onLeaves: () => {} });
  } finally {
    await store.close();
  }
}

function resign(checkpoint: string, by: TestKey): string {
  return sign(textOf(checkpoint), by);
}

function textOf(note: string): string {
  return note.slice(0, note.indexOf('\n\n') + 1);
}

async function flip(
  database: Databases['leaves'],
  where: Uint8Array | Iterable<Uint8Array>,
  byte: number,
): Promise<void> {
  const [at = Buffer.alloc(0)] = where instanceof Uint8Array ? [where] : where;
  const value = Buffer.from(database.getBinary(at) ?? '');
  const offset = byte < 0 ? value.length + byte : byte;
  value.writeUInt8(value.readUInt8(offset) ^ 1, offset);
  await database.put(at, value);
}

async function editWitnessing(
  { identity }: Pick<Databases, 'identity'>,
  edit: (witnessing: WitnessState) => Partial<WitnessState>,
) {
  const at = Buffer.from('witnessing');
  const witnessing = parseRecord<WitnessState>(identity.getBinary(at) ?? Buffer.alloc(0));
  await identity.put(at, encodeRecord({ ...witnessing, ...edit(witnessing) }));
}

async function editBatch({ batches }: Databases, treeSize: number, edit: (batch: Batch) => Partial<Batch>) {
  const batch = batchIn({ batches }, treeSize);
  await batches.put(counterKey(treeSize), encodeRecord({ ...batch, ...edit(batch) }));
}

function batchIn({ batches }: Pick<Databases, 'batches'>, treeSize: number): Batch {
  return parseRecord<Batch>(batches.getBinary(counterKey(treeSize)) ?? Buffer.alloc(0));
}

t.test('a log that goes back to the signatures of an earlier epoch is bad', async (t) => {
  const postQuantum = { ...makeKey('mldsa44', 'eu'), keyLabel: 'post-quantum' };
  const config = { certificatesDir: dir, timestamp: { keys: [], authorities: [], remotes: {} }, witness: {} };
  const whole = await openStore({ path: good, readOnly: true });
  t.teardown(() => whole.close());
  const one = firstEpoch([logKey]);
  const keys = firstEpoch([logKey, postQuantum]).keys;
  const two = { ...one, from: SEALED_AT + 60_000, keys, quorum: { needed: 1, postQuantum: 1 } };
  const store: Store = Object.create(whole, {
    epochs: { value: { newest: async () => ({ list: [one, two], revision: 2 }) } },
  });
  const head = (await whole.log.head())?.checkpoint ?? '';
  const [text = ''] = head.split('\n\n');
  const own = parseNote(head)?.signatures ?? [];
  const added = parseNote(signNote(ORIGIN, `${text}\n`, [postQuantum]))?.signatures ?? [];
  const against = { text: encodeNote(`${text}\n`, [...own, ...added]), from: 'before' };
  const said = async (earlier: typeof against) =>
    (await runCheck(store, config as unknown as Config, earlier)).problems.join('\n');
  t.match(await said(against), /has the signatures of an earlier epoch only, but a later epoch had begun/);
  t.notMatch(await said({ text: head, from: 'head' }), /earlier epoch/);
});

/** The same, but for some members. */
function inFrontOf<T extends object>(behind: T, members: Partial<T>): T {
  return new Proxy(behind, {
    get: (_, name) => {
      const value: unknown = Reflect.get(name in members ? members : behind, name);
      return typeof value === 'function' ? value.bind(behind) : value;
    },
  });
}
