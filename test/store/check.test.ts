/** Every index of a store, damaged in every way: the check finds it, a repair mends it, and the store is as it was, entry by entry. */
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { checkStore } from '../../src/cli/store/storeCheck.ts';
import {
  emptyIndexReport,
  flawCount,
  type IndexReport,
  isWhole,
  type StoreReport,
} from '../../src/cli/store/storeReport.ts';
import { newJobId } from '../../src/job/id.ts';
import type { IndexFlaw } from '../../src/store/indexStore.ts';
import { type Databases, type NamedDatabase, openDatabases } from '../../src/store/lmdb/databases.ts';
import { RULES } from '../../src/store/lmdb/indexRules.ts';
import { IndexView } from '../../src/store/lmdb/indexView.ts';
import {
  counterKey,
  deliveryKey,
  expiryKey,
  idKey,
  tileKey,
  timeKey,
} from '../../src/store/lmdb/keyLayout.ts';
import { openStore } from '../../src/store/lmdb/open.ts';
import { encodeSealed } from '../../src/store/lmdb/outcomeRecords.ts';
import { encodeRecord } from '../../src/store/records.ts';
import type { Store } from '../../src/store/store.ts';
import { makeJob } from '../support/sealing.ts';
import {
  dump,
  endpoints,
  failed,
  first,
  keyOf,
  makeWholeStore,
  SIZE,
  shared,
  tamper,
  trusting,
  waiting,
} from '../support/wholeStore.ts';
import { Child } from './child.ts';

const GARBAGE = Buffer.from('garbage');
const FOREIGN = Buffer.alloc(16, 7);
const NOBODY = keyOf(makeJob(newJobId()));
const endpoint = idKey('we', endpoints[0].id) ?? GARBAGE;

const dir = t.testdir();
const good = join(dir, 'good');
await makeWholeStore(good);
const undamaged = await dump(good);

let made = 0;

t.test('lists of jobs that are right cost one look at each job', async (t) => {
  const databases = await openDatabases(good, { readOnly: true });
  const { jobs } = databases;
  let looks = 0;
  const getBinary = jobs.getBinary.bind(jobs);
  jobs.getBinary = (key) => {
    looks += 1;
    return getBinary(key);
  };
  const view = new IndexView(databases, Date.now());
  for (const index of ['scopes', 'lookups'] as const)
    for (const page of RULES[index].tell(view)) t.strictSame(page, [], 'nothing is left to judge');
  t.equal(looks, jobs.getStats().entryCount);
  await databases.close();
});

t.test('an entry of a list in the place of another is found, and the other is missed', async (t) => {
  for (const [name, prefix] of [
    ['scopes', 8],
    ['lookups', 12],
  ] as const) {
    const path = copy('replaced');
    await tamper(path, (databases) => {
      const [one] = entriesOf(databases[name]);
      const key = Buffer.from(one?.key ?? GARBAGE);
      databases[name].remove(key);
      return databases[name].put(
        Buffer.concat([key.subarray(0, prefix - 8), Buffer.alloc(8, 1), key.subarray(prefix)]),
        Buffer.alloc(0),
      );
    });
    await isMended(t, path, [
      [name, 'missing', 1],
      [name, 'superfluous', 1],
    ]);
  }
});

type Damage = (databases: Databases) => unknown;
type Found = [index: IndexFlaw['index'], kind: IndexFlaw['kind'], entries: number];

/** Each with entries that are well formed and follow from nothing. */
const byIndex: [IndexFlaw['index'], keyof Databases & string, extra: [Buffer, Buffer][]][] = [
  [
    'tiles',
    'tiles',
    [
      [tileKey(0, 2), Buffer.alloc(32)],
      [tileKey(2, 0), Buffer.alloc(32)],
      [tileKey(200, 0), GARBAGE],
    ],
  ],
  ['outcomes', 'outcomes', [[NOBODY, encodeSealed(1)]]],
  [
    'waiting',
    'waiting',
    [
      [keyOf(first), Buffer.alloc(0)],
      [keyOf(failed), GARBAGE],
    ],
  ],
  ['scopes', 'scopes', [[Buffer.concat([Buffer.alloc(8, 1), keyOf(first)]), Buffer.alloc(0)]]],
  [
    'lookups',
    'lookups',
    [
      [Buffer.concat([Buffer.alloc(4), Buffer.alloc(8, 1), keyOf(first)]), Buffer.alloc(0)],
      [Buffer.concat([Buffer.alloc(4, 0xff), Buffer.alloc(8, 1), keyOf(first)]), Buffer.alloc(0)],
    ],
  ],
  ['expiry', 'expiry', [[expiryKey(5, Buffer.alloc(16)), Buffer.alloc(0)]]],
  ['quotas', 'quotas', [[Buffer.concat([timeKey(Date.now()), Buffer.alloc(16)]), encodeRecord({ jobs: 5 })]]],
  ['endpoint_revisions', 'endpointRevisions', [[counterKey(2 ** 50), Buffer.alloc(0)]]],
];

type Entries = { key: Buffer; value: Buffer }[];
/** Does something to an index whose entries are given, and tells how many of them. */
type Edit = (database: NamedDatabase, entries: Entries, extra: [Buffer, Buffer][]) => unknown[];

/** To all indexes at once. */
function toEach(edit: Edit, kind: IndexFlaw['kind'], except?: string): [Damage, Found[]] {
  const found: Found[] = [];
  const damage: Damage = (databases) =>
    byIndex.flatMap(([index, name, extra]) => {
      if (index === except) return [];
      // How jobs failed follows from nothing.
      const own = entriesOf(databases[name] as NamedDatabase).filter(
        ({ value }) => index !== 'outcomes' || value[0] === 's'.charCodeAt(0),
      );
      const edits = edit(databases[name] as NamedDatabase, own, extra);
      found.push([index, kind, edits.length]);
      return edits;
    });
  return [damage, found];
}

const general: [string, [Damage, Found[]]][] = [
  ['one entry is lost', toEach((d, [one]) => [d.remove(one?.key ?? GARBAGE)], 'missing')],
  ['all entries are lost', toEach((d, all) => all.map(({ key }) => d.remove(key)), 'missing')],
  [
    'there are entries too many',
    toEach((d, _, extra) => extra.map(([key, value]) => d.put(key, value)), 'superfluous'),
  ],
  // What is no record cannot be told apart from how a job failed.
  [
    'there are keys that are none',
    toEach(
      (d) => [Buffer.alloc(1), Buffer.alloc(1, 0xff), GARBAGE].map((key) => d.put(key, GARBAGE)),
      'superfluous',
      'outcomes',
    ),
  ],
  [
    'each entry is garbage',
    toEach((d, all) => all.map(({ key }) => d.put(key, GARBAGE)), 'wrong', 'outcomes'),
  ],
];
for (const [name, [damage, found]] of general) {
  t.test(name, async (t) => {
    const path = copy('damaged');
    await tamper(path, damage);
    const report = await check(path);
    t.match(report, { problemCount: 0, problems: [] });
    t.notOk(isWhole(report));
    await isMended(t, path, found);
    t.ok(isWhole(await check(path)));
  });
}

const special: [string, Damage, ...Found[]][] = [
  ['a tile with other hashes', ({ tiles }) => flip(tiles, tileKey(1, 0), 5), ['tiles', 'wrong', 1]],
  ['a tile cut short', ({ tiles }) => cutShort(tiles, tileKey(0, 1), 32), ['tiles', 'wrong', 1]],
  ['a tile that is wider than the tree', ({ tiles }) => widen(tiles, tileKey(0, 1)), ['tiles', 'wrong', 1]],
  [
    'outcomes that point elsewhere',
    ({ outcomes }) => [
      outcomes.put(keyOf(first), encodeSealed(1)),
      outcomes.put(keyOf(shared), Buffer.concat([Buffer.from('s'), Buffer.alloc(8, 0xff)])),
    ],
    ['outcomes', 'wrong', 2],
  ],
  [
    'a job that waits as if it were sealed',
    ({ outcomes, waiting: list }) => [
      outcomes.put(keyOf(waiting), encodeSealed(1)),
      list.remove(keyOf(waiting)),
    ],
    ['outcomes', 'superfluous', 1],
    ['waiting', 'missing', 1],
  ],
  [
    'a source URL that nobody needs',
    ({ sources }) => [
      sources.put(keyOf(failed), encodeRecord('https://a.example/')),
      sources.put(keyOf(waiting), encodeRecord('https://a.example/')),
    ],
    ['sources', 'superfluous', 2],
  ],
  [
    'a count that is another',
    ({ quotas }) => {
      const [{ key, value } = { key: GARBAGE, value: GARBAGE }] = entriesOf(quotas);
      return quotas.put(key, encodeRecord({ ...parse(value), jobs: 5 }));
    },
    ['quotas', 'wrong', 1],
  ],
  [
    'a count of a window that is long over, which cannot be read',
    ({ quotas }) => quotas.put(Buffer.concat([timeKey(5), Buffer.alloc(16)]), GARBAGE),
    ['quotas', 'superfluous', 1],
  ],
  [
    'a revision in the middle',
    ({ endpointRevisions }) => endpointRevisions.remove(counterKey(2)),
    ['endpoint_revisions', 'missing', 1],
  ],
  [
    'a message about a job that has not ended, of nobody, and of another client',
    ({ outbox, endpoints: all, deadLetters }) => {
      const [{ value } = { value: GARBAGE }] = entriesOf(all);
      const told = encodeRecord({ type: 'job.completed', occurredAt: 5, attempts: 0 });
      return [
        outbox.put(deliveryKey(endpoint, 5, keyOf(waiting)), told),
        outbox.put(deliveryKey(endpoint, 5, NOBODY), GARBAGE),
        deadLetters.put(deliveryKey(endpoint, 5, keyOf(waiting)), told),
        deadLetters.put(GARBAGE, told),
        all.put(FOREIGN, encodeRecord({ ...parse(value), clientId: 'claims' })),
        outbox.put(deliveryKey(FOREIGN, 5, keyOf(first)), told),
      ];
    },
    ['outbox', 'superfluous', 3],
    ['dead_letters', 'superfluous', 2],
  ],
  [
    'everything at once',
    ({ tiles, outcomes, waiting: list, scopes, lookups, expiry, quotas }) =>
      [tiles, list, scopes, lookups, expiry, quotas]
        .flatMap((database) => entriesOf(database).map(({ key }) => database.remove(key)))
        .concat(outcomes.remove(keyOf(first))),
    ['outcomes', 'missing', 1],
    ['waiting', 'missing', 4],
    ['quotas', 'missing', 1],
  ],
];
for (const [name, damage, ...found] of special) {
  t.test(name, async (t) => {
    const path = copy('damaged');
    await tamper(path, damage);
    await isMended(t, path, found);
  });
}

t.test('a repair loses of a message only how often it was tried', async (t) => {
  const path = copy('messages');
  await tamper(path, ({ outbox, deadLetters, tallies }) => [
    ...[outbox, deadLetters].flatMap((d) =>
      entriesOf(d)
        .filter(({ key }) => !isTest(key))
        .map(({ key }) => d.put(key, GARBAGE)),
    ),
    tallies.put(endpoint, GARBAGE),
  ]);
  t.match(await repaired(t, path), {
    outbox: { wrong: SIZE * 2 },
    dead_letters: { wrong: 1 },
    tallies: { wrong: 1 },
  });
  const store = await openStore({ path });
  const all = { limit: 1000 };
  const before = await openStore({ path: copy('before') });
  for (const { id } of endpoints) {
    const facts = ({
      endpointId,
      webhookId,
      type,
      occurredAt,
      at,
    }: {
      endpointId: string;
      webhookId: string;
      type: string;
      occurredAt: number;
      at: number;
    }) => ({ endpointId, webhookId, type, occurredAt, at });
    t.same(
      (await store.webhooks.outbox.pending(id, all)).map(facts),
      (await before.webhooks.outbox.pending(id, all)).map(facts),
    );
    t.same(
      (await store.webhooks.outbox.deadLetters(id, all)).map(facts),
      (await before.webhooks.outbox.deadLetters(id, all)).map(facts),
    );
  }
  t.match(await store.webhooks.outbox.deadLetters(endpoints[0].id, all), [{ attempts: 0, death: 'overdue' }]);
  t.match(await store.webhooks.outbox.tally(endpoints[0].id), {
    delivered: 0,
    deadLetters: 1,
    pending: SIZE,
  });
  await store.close();
  await before.close();
});

t.test('entries that a daemon leaves for a while are not flaws', async (t) => {
  const path = copy('leftovers');
  await tamper(path, ({ expiry, idempotency, outbox, tallies, quotas }) => {
    const [{ key } = { key: GARBAGE }] = entriesOf(idempotency);
    const removed = Buffer.alloc(16, 9);
    return [
      expiry.put(expiryKey(1, key), Buffer.alloc(0)), // a key that was used again, 48 h later
      ...entriesOf(idempotency)
        .filter(({ value }) => value.includes(waiting.id))
        .flatMap((entry) => [
          idempotency.remove(entry.key),
          ...entriesOf(expiry)
            .filter((time) => time.key.subarray(6).equals(entry.key))
            .map((time) => expiry.remove(time.key)),
        ]),
      outbox.put(deliveryKey(removed, 5, NOBODY), encodeRecord({ type: 'job.completed' })), // its endpoint is no more
      tallies.put(removed, encodeRecord({})),
      quotas.put(Buffer.concat([timeKey(5), Buffer.alloc(16)]), encodeRecord({ jobs: 7 })), // a window that is over
    ];
  });
  const before = await dump(path);
  const report = await check(path);
  t.same(report.flaws, []);
  t.ok(isWhole(report));
  await repaired(t, path);
  t.same(await dump(path), before);
});

t.test('a killed repair is repeated, and the store opens to nothing else until then', async (t) => {
  const path = copy('killed');
  await tamper(path, ({ scopes, lookups, expiry, tiles }) =>
    [scopes, lookups, expiry, tiles].flatMap((d) => entriesOf(d).map(({ key }) => d.remove(key))),
  );
  let left = Number.POSITIVE_INFINITY;
  for (const _ of ['after the tiles', 'after the scopes', 'after the lookups']) {
    const child = new Child('repairer.ts', path);
    await child.gone();
    t.equal(child.process.signalCode, 'SIGKILL');
    await t.rejects(openStore({ path }), {
      name: 'OperatorError',
      message: /under repair since .*: run `pdfseal repair-index` again/,
    });
    await t.rejects(openStore({ path, readOnly: true }), { message: /under repair/ });
    const half = await openStore({ path, readOnly: true, repairing: true });
    const now = flawCount(await flawsOf(half));
    await half.close();
    t.ok(now > 0 && now < left, `${now} entries are left`);
    left = now;
  }
  await repaired(t, path);
  t.same(await dump(path), undamaged);
  await (await openStore({ path })).close();
});

t.test('a repair that ends with flaws keeps the store marked', async (t) => {
  const path = copy('marked');
  const store = await openStore({ path });
  t.equal(
    await store.indexes.repair({ backup: '/a/copy', onMended: () => {}, isGood: async () => false }),
    false,
  );
  await store.close();
  await t.rejects(openStore({ path }), { message: /under repair/ });
  const again = await openStore({ path, repairing: true });
  t.match(again.identity, { repair: { begunAt: Number, backup: '/a/copy' } });
  t.equal(await again.indexes.repair({ onMended: () => {}, isGood: async () => true }), true);
  await again.close();
  t.same(await dump(path), undamaged);
});

function copy(name: string): string {
  made += 1;
  const path = join(dir, `${name}-${made}`);
  cpSync(good, path, { recursive: true });
  return path;
}

/** The damage is found, as that and nothing else of these indexes; then it is mended. */
async function isMended(t: Test, path: string, found: Found[]): Promise<void> {
  const store = await openStore({ path, readOnly: true });
  const seen = await flawsOf(store);
  await store.close();
  for (const [index, kind, entries] of found)
    t.equal(seen[index][kind], entries, `${index}: ${entries} ${kind}`);
  t.same(await repaired(t, path), seen, 'what was found is what was mended');
  t.same(
    (await dump(path)).filter((line) => !line.includes(FOREIGN.toString('hex'))),
    undamaged,
  );
}

async function repaired(t: Test, path: string): Promise<IndexReport> {
  const mended = emptyIndexReport();
  const store = await openStore({ path, repairing: true });
  const isGood = async () => flawCount(await flawsOf(store)) === 0;
  const onMended = ({ index, kind }: IndexFlaw) => {
    mended[index][kind] += 1;
  };
  t.ok(await store.indexes.repair({ isGood, onMended }));
  await store.close();
  return mended;
}

async function flawsOf(store: Store): Promise<IndexReport> {
  const report = emptyIndexReport();
  for await (const { index, kind } of store.indexes.check()) report[index][kind] += 1;
  return report;
}

async function check(path: string): Promise<StoreReport> {
  const store = await openStore({ path, readOnly: true });
  try {
    return await checkStore(store, { trust: trusting(1), problemsMax: 9, onLeaves: () => {} });
  } finally {
    await store.close();
  }
}

function entriesOf(database: NamedDatabase): { key: Buffer; value: Buffer }[] {
  return Array.from(database.getRange({}), ({ key, value }) => ({
    key: Buffer.from(key),
    value: Buffer.from(value),
  }));
}

function isTest(key: Buffer): boolean {
  return !undamaged.some((line) => line.startsWith(`jobs ${key.subarray(-16).toString('hex')}`));
}

function parse(value: Buffer): object {
  return JSON.parse(value.subarray(8).toString()) as object;
}

async function flip(database: NamedDatabase, at: Buffer, byte: number): Promise<void> {
  const value = Buffer.from(database.getBinary(at) ?? '');
  value.writeUInt8(value.readUInt8(byte) ^ 1, byte);
  await database.put(at, value);
}

async function cutShort(database: NamedDatabase, at: Buffer, bytes: number): Promise<void> {
  await database.put(at, Buffer.from(database.getBinary(at)?.subarray(0, -bytes) ?? ''));
}

async function widen(database: NamedDatabase, at: Buffer): Promise<void> {
  await database.put(at, Buffer.concat([database.getBinary(at) ?? Buffer.alloc(0), Buffer.alloc(32)]));
}
