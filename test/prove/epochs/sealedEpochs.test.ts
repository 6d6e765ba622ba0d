/** What a trail may say of epochs, and what it may not: whoever can write to the store tries. */
import t from 'tap';
import type { Certificate } from '../../../src/asn1/certificate.ts';
import { toBase64, toHex } from '../../../src/base/bytes.ts';
import { sha256 } from '../../../src/base/crypto.ts';
import type { Epoch } from '../../../src/log/epochs.ts';
import type { LogKey } from '../../../src/log/verifierKey.ts';
import type { ActName, ActObject } from '../../../src/manifest/auditRecord.ts';
import { epochObject, parseForm, sealedForms } from '../../../src/manifest/sealedForm.ts';
import type { TrustedAuthority, TrustedEpoch } from '../../../src/manifest/trustFile.ts';
import {
  authorityDifferences,
  deriveEpochs,
  type EpochAct,
  laterEpochs,
  requireStored,
  trustDifferences,
} from '../../../src/prove/epochs/sealedEpochs.ts';
import { makePki } from '../../support/authority.ts';
import { item } from '../../support/partitions.ts';
import { firstEpoch, makeKey } from '../../support/sealing.ts';
import { fc, tries } from '../../support/seed.ts';

const ORIGIN = 'seal.example.com/test/2026';
const HOUR_MS = 3_600_000;
const BEGIN = Date.parse('2026-03-01T00:00:00Z');
const publicKey = (algorithm: 'ed25519' | 'ecdsa-p256', region: string): LogKey => {
  const { privateKey: _, ...key } = makeKey(algorithm, region);
  return key;
};
const [eu, us, newEu, attacker] = [
  publicKey('ed25519', 'eu'),
  publicKey('ecdsa-p256', 'us'),
  { ...publicKey('ed25519', 'eu'), keyLabel: 'log-e2' },
  publicKey('ed25519', 'eu'),
];

const hours = (count: number) => BEGIN + count * HOUR_MS;
const first = firstEpoch([eu, us], {
  from: BEGIN,
  quorum: { needed: 2, regions: ['eu', 'us'] },
  timestamps: 'required',
  roots: [{ name: 'built-in', root: 'MIIB' }],
});
const second: Epoch = { ...first, from: hours(10), keys: firstEpoch([newEu, us]).keys };
const third: Epoch = { ...second, from: hours(20), quorum: { needed: 2 } };
const stored = [first, second, third];

/** A record, sealed in the batch after that hour; undefined: not yet. */
function act(number: number, act: ActName, object: Epoch | ActObject, after?: number): EpochAct {
  return {
    record: {
      number,
      act,
      at: new Date(hours(after ?? 30)).toISOString(),
      object:
        'keys' in object && 'roots' in object ? epochObject(ORIGIN, object as Epoch) : (object as ActObject),
    },
    ...(after !== undefined && { after: hours(after) }),
  };
}

const create = { ...act(1, 'log.create', first), after: -Infinity };
const planSecond = act(4, 'epoch.plan', second, 8);
const beginSecond = act(5, 'epoch.begin', second, 10);
const planThird = act(7, 'epoch.plan', third, 12);
const history = [create, planSecond, beginSecond, planThird];
const HEAD = hours(13);

function judge(list: readonly Epoch[], acts: readonly EpochAct[] = history, head = HEAD): void {
  requireStored(sealedForms(ORIGIN, list), deriveEpochs(ORIGIN, acts, head));
}

t.test('the list of epochs follows from the records', async (t) => {
  judge(stored);
  const { list } = deriveEpochs(ORIGIN, history, HEAD);
  t.strictSame(
    list.map(({ record, isSealed, isBegun }) => [record, isSealed, isBegun]),
    [
      [1, true, true],
      [4, true, true],
      [7, true, false],
    ],
  );
  t.strictSame(
    list.map(({ form }) => ({ ...form, until: null })),
    stored.map((epoch) => sealedForms(ORIGIN, [epoch])[0]),
  );
  t.throws(() => deriveEpochs(ORIGIN, []), {
    message: 'no audit record says what the first epoch is',
    code: 'epochs_contradicted',
  });
});

t.test('a planned epoch can be cancelled, and planned again', async (t) => {
  const cancel = act(8, 'epoch.cancel', third, 13);
  judge([first, second], [...history, cancel]);
  judge(stored, [...history, cancel, act(9, 'epoch.plan', third)]);
  t.equal(
    deriveEpochs(ORIGIN, [...history, act(8, 'epoch.cancel', third)], HEAD).list.length,
    2,
    'not sealed yet',
  );
});

t.test(
  'while the daemon is stopped, an epoch is planned, and begins before its record is sealed',
  async (t) => {
    judge(stored, [create, planSecond, beginSecond, act(7, 'epoch.plan', third)], hours(19));
    t.equal(
      deriveEpochs(ORIGIN, [create, planSecond, act(7, 'epoch.plan', third)], hours(19)).list[2]?.isSealed,
      false,
    );
  },
);

t.test('the first epoch of a log without leaves follows from its record', async () => {
  judge([first], [act(1, 'log.create', first)], -Infinity);
});

const key = (one: Epoch['keys'][number]) => ({ ...one, spki: attacker.spki });
const past = (change: Partial<Epoch>) => [{ ...first, ...change }, second, third];

/** What an attacker makes of the list in the store, and what names it. */
const forgedLists: Record<string, [list: Epoch[], message: RegExp]> = {
  'a past epoch of the attacker’s own': [
    past({ keys: first.keys.slice(0, 1).map(key), quorum: { needed: 1 }, timestamps: 'none' }),
    /epoch 1: verifier_keys: eu\/log seal\S+ is not in audit record 1\n.*missing, audit record 1 has it\n(.*\n)*epoch 1: quorum: 1, but audit record 1 says 2 of eu, us\nepoch 1: timestamps: none, but audit record 1 says required/,
  ],
  'a key added': [
    past({ keys: [...first.keys, { ...key(first.keys[0] as never), region: 'ap' }] }),
    /epoch 1: verifier_keys: ap\/log seal\S+ is not in audit record 1/,
  ],
  'a key taken out': [
    past({ keys: first.keys.slice(0, 1) }),
    /epoch 1: verifier_keys: us\/log \S+ is missing, audit record 1 has it/,
  ],
  'a key in another region': [
    past({ keys: first.keys.map((one) => ({ ...one, region: 'us' })) }),
    /epoch 1: verifier_keys: us\/log \S+ is not in/,
  ],
  'a key under another label': [
    past({ keys: first.keys.map((one) => ({ ...one, keyLabel: 'other' })) }),
    /epoch 1: verifier_keys: eu\/other/,
  ],
  'another partition': [
    past({ keys: first.keys.map((one) => ({ ...one, partition: 'other' })) }),
    /epoch 1: partitions: eu\/other is not in/,
  ],
  'the order of keys': [
    past({ keys: first.keys.toReversed() }),
    /epoch 1: verifier_keys: not in the order of audit record 1/,
  ],
  'the quorum lowered': [
    past({ quorum: { needed: 1 } }),
    /epoch 1: quorum: 1, but audit record 1 says 2 of eu, us$/,
  ],
  'no regions in the quorum': [past({ quorum: { needed: 2 } }), /epoch 1: quorum: 2, but/],
  'no time-stamps': [
    past({ timestamps: 'none' }),
    /epoch 1: timestamps: none, but audit record 1 says required$/,
  ],
  'another root': [
    past({ roots: [{ name: 'built-in', root: 'MIIC' }] }),
    /epoch 1: timestamp_roots: built-in MIIC is not in/,
  ],
  'one root more': [
    past({ roots: [...first.roots, { name: 'x', root: 'MIIC' }] }),
    /timestamp_roots: x MIIC is not in/,
  ],
  'the beginning moved': [
    past({ from: BEGIN + 1 }),
    /epoch 1: from: 2026-03-01T00:00:00\.001Z, but audit record 1 says 2026-03-01T00:00:00\.000Z/,
  ],
  'the end moved': [
    [first, { ...second, from: hours(9) }, third],
    /epoch 2: from: .*, but audit record 4 says/,
  ],
  'an epoch in between': [
    [first, { ...second, keys: second.keys.map(key), from: hours(5) }, second, third],
    /epoch 4: the store has it from .* on, but no audit record does/,
  ],
  'an epoch before': [[{ ...first, from: hours(-1) }, ...stored], /epoch 1: from/],
  'an epoch taken out': [
    [first, third],
    /epoch 2: from(.*\n)*epoch 3: audit record 7 has it, the store does not/,
  ],
  'the newest epoch taken out': [[first, second], /epoch 3: audit record 7 has it, the store does not/],
  'an epoch that no record has': [
    [...stored, { ...third, from: hours(40) }],
    /epoch 4: the store has it from .* on, but no audit record does/,
  ],
  'two names where the record has two keys': [
    past({ keys: [{ ...(first.keys[1] as never as Epoch['keys'][number]), keyLabel: 'x,y' }] }),
    /epoch 1: verifier_keys: us\/x,y/,
  ],
  nothing: [[], /epoch 1: audit record 1 has it, the store does not/],
};
for (const [name, [list, message]] of Object.entries(forgedLists))
  t.test(`refused: ${name}`, async (t) => {
    t.throws(() => judge(list), { message, code: 'epochs_contradicted' });
  });

/** What an attacker adds to the trail, or takes from it, and what names it. The list in the store always follows from it. */
const mine: Epoch = {
  ...first,
  keys: first.keys.slice(0, 1).map(key),
  quorum: { needed: 1 },
  timestamps: 'none',
};
const forgedTrails: Record<string, [acts: EpochAct[], message: RegExp]> = {
  'an epoch in the past, by a late record': [
    [create, planSecond, beginSecond, act(8, 'epoch.plan', { ...mine, from: hours(11) }, 12)],
    /^audit record 8 \(epoch\.plan\) has no effect: the epoch begins at 2026-03-01T11:00:00\.000Z, but the log has a batch of 2026-03-01T12:00:00\.000Z already/,
  ],
  'an epoch in the past, by a record that is not sealed': [
    [create, planSecond, beginSecond, act(8, 'epoch.plan', { ...mine, from: HEAD })],
    /^audit record 8 \(epoch\.plan\) has no effect: the epoch begins at .* already/,
  ],
  'an epoch before the last': [
    [...history, act(8, 'epoch.plan', { ...mine, from: hours(15) })],
    /before the one of/,
  ],
  'another first epoch': [[create, act(8, 'log.create', mine, 12)], /a log is created by the first record/],
  'a first record that is not sealed, with leaves': [
    [act(1, 'log.create', mine), planSecond],
    /^audit record 1 .* already/,
  ],
  'a first record that was sealed late': [
    [act(1, 'log.create', mine, 3), planSecond],
    /^audit record 1 .* already/,
  ],
  'an epoch cancelled after it began': [
    [...history.slice(0, 3), act(8, 'epoch.cancel', second, 11)],
    /^audit record 8 \(epoch\.cancel\).* already/,
  ],
  'an epoch cancelled that is not the last': [
    [...history, act(8, 'epoch.cancel', { ...third, from: hours(21) }, 13)],
    /from: /,
  ],
  'the first epoch cancelled': [[create, act(2, 'epoch.cancel', first)], /^audit record 2 .* already/],
  'a cancel that means other keys': [
    [...history, act(8, 'epoch.cancel', { ...third, keys: mine.keys }, 13)],
    /verifier_keys/,
  ],
  'another epoch begins than the one that was planned': [
    [create, planSecond, act(5, 'epoch.begin', { ...second, quorum: { needed: 1 } }, 10)],
    /^audit record 5 .*quorum: 1, but audit record 4 says/,
  ],
  'an epoch begins that nobody planned': [
    [create, act(5, 'epoch.begin', second, 10)],
    /no epoch .* can be meant/,
  ],
  'a plan that does not say what the epoch is': [
    [create, act(4, 'epoch.plan', { from: new Date(second.from).toISOString(), keys: ['eu/log'] }, 8)],
    /does not say what the epoch is/,
  ],
  'a plan with a quorum that nobody can read': [
    [
      ...history,
      act(8, 'epoch.plan', { ...epochObject(ORIGIN, { ...third, from: hours(25) }), quorum: 'x' }),
    ],
    /^audit record 8 \(epoch\.plan\) has no effect: what it says is not an epoch of this log/,
  ],
  'a plan with a key that nobody can read': [
    [
      ...history,
      act(8, 'epoch.plan', {
        ...epochObject(ORIGIN, { ...third, from: hours(25) }),
        verifier_keys: ['junk'],
      }),
    ],
    /^audit record 8 \(epoch\.plan\) has no effect: what it says is not an epoch of this log/,
  ],
  'a plan before the first epoch': [
    [act(1, 'epoch.plan', second, 8)],
    /^audit record 1 \(epoch\.plan\): no record before it says what the first epoch is/,
  ],
  'a first record that does not say what the epoch is': [
    [act(1, 'log.create', { log_origin: ORIGIN, keys: ['eu/log'], quorum: 1, timestamps: 'none' }, 8)],
    /^audit record 1 \(log\.create\): it does not say what the epoch is/,
  ],
};
for (const [name, [acts, message]] of Object.entries(forgedTrails))
  t.test(`without effect, or refused at the start of the list: ${name}`, async (t) => {
    if (acts[0] !== create) {
      t.throws(() => deriveEpochs(ORIGIN, acts, HEAD), { message, code: 'epochs_contradicted' });
      return;
    }
    const found = deriveEpochs(ORIGIN, acts, HEAD);
    t.strictSame({ ...found, void: [] }, deriveEpochs(ORIGIN, acts.slice(0, -1), HEAD));
    t.equal(found.void.length, 1);
    t.match(found.void[0], message);
  });

t.test('a removed record or a kept cancelled epoch is refused', async (t) => {
  t.throws(() => judge(stored, [create, beginSecond, planThird]), {
    message: /audit record 5 .* has no effect: no epoch/,
  });
  t.throws(() => judge(stored, history.slice(0, 3)), { message: /epoch 3: the store has it/ });
  t.throws(() => judge(stored, [...history, act(8, 'epoch.cancel', third, 13)]), {
    message: /epoch 3: the store has it from .* on, but no audit record does/,
  });
});

t.test('a trust file is checked against the records as well', async (t) => {
  const sealed = deriveEpochs(ORIGIN, history, HEAD);
  const trusted: TrustedEpoch[] = stored.map(({ from, roots: _, ...epoch }, index) => ({
    ...epoch,
    notBefore: from,
    ...(index < 2 && { notAfter: (stored[index + 1]?.from ?? 0) - 1 }),
  }));
  const [one, two, three] = [item(trusted, 0), item(trusted, 1), item(trusted, 2)];
  const differences = (...epochs: TrustedEpoch[]) =>
    trustDifferences({ origin: ORIGIN, environment: 'env_test', epochs }, sealed).join('\n');
  t.equal(differences(one, two, three), '');
  t.equal(differences(one, two), '', 'an older file');
  t.equal(differences(one, { ...two, notAfter: hours(11) }), '', 'an epoch that was ended early');
  t.match(
    differences(one, { ...two, notBefore: hours(5) }),
    /^the trust file has an epoch from 2026-03-01T05:00/,
  );
  t.match(
    differences({ ...one, quorum: { needed: 1 } }),
    /^the trust file, epoch from \S+ on: quorum: 1, but audit record 1/,
  );
  t.match(differences({ ...one, timestamps: 'none' }), /timestamps: none/);
  t.match(differences({ ...one, keys: one.keys.map((key) => ({ ...key, ...attacker })) }), /verifier_keys/);
});

t.test('a trust file that was ended too late, or that lacks the newest epoch, is named', async (t) => {
  const sealed = deriveEpochs(ORIGIN, history, HEAD);
  const one: TrustedEpoch = { ...first, notBefore: first.from };
  const log = (...epochs: TrustedEpoch[]) => ({ origin: ORIGIN, environment: 'env_test', epochs });
  t.match(trustDifferences(log({ ...one, notAfter: hours(10) }), sealed), [
    /epoch from \S+ on: it reaches beyond 2026-03-01T10:00:00.000Z, when the next epoch began/,
  ]);
  t.match(laterEpochs(log(one), sealed), [
    /^the trust file lacks the epoch from 2026-03-01T10:00:00.000Z on/,
  ]);
  t.strictSame(
    laterEpochs(log({ ...one, notAfter: hours(10) - 1 }), sealed),
    [],
    'it says nothing of later times',
  );
  const two = { ...second, notBefore: second.from };
  t.strictSame(laterEpochs(log(two), sealed), [], 'the third has not begun');
});

t.test('each root of a trust file is one that the log sealed for an epoch of the file', async (t) => {
  const [own, later, certified, acme] = await Promise.all([makePki(), makePki(), makePki(), makePki()]);
  const named = (name: string, { root }: { root: Certificate }) => ({ name, root: toBase64(root.der) });
  const acts = [
    { ...act(1, 'log.create', { ...first, roots: [named('built-in', own)] }), after: -Infinity },
    act(2, 'epoch.plan', { ...second, roots: [named('built-in', own), named('acme', later)] }, 8),
    act(3, 'epoch.plan', { ...third, roots: [named('acme', acme)] }),
  ];
  const sealed = deriveEpochs(ORIGIN, acts, HEAD);
  const digest = ({ root }: { root: Certificate }) => toHex(sha256(root.der));
  const differences = (
    timestampAuthorities: TrustedAuthority[],
    { epochs = [first, second], isExported = false } = {},
  ) =>
    authorityDifferences(
      { timestampAuthorities },
      { epochs: epochs.map((epoch) => ({ ...epoch, notBefore: epoch.from })) },
      sealed,
      { certificates: new Set([digest(certified)]), isExported },
    );
  const builtIn = [own, certified].map(({ root }) => ({ name: 'built-in', root }));
  t.strictSame(differences([...builtIn, { name: 'acme', root: later.root }]), []);
  const strict = { name: 'acme', root: later.root, accuracyMaxMs: 1000, notAfter: hours(11) };
  t.strictSame(differences([strict]), [], 'an administrator asks for more');
  const both = [first, second];
  const unsealed: [string, TrustedAuthority, Epoch[], boolean][] = [
    ['another root', { name: 'built-in', root: acme.root }, both, false],
    ['another root, exported', { name: 'built-in', root: acme.root }, both, true],
    ['another name', { name: 'acme', root: own.root }, both, false],
    ['a certificate under another name', { name: 'acme', root: certified.root }, both, false],
    ['a root of an epoch that the file lacks', { name: 'acme', root: later.root }, [first], false],
    ['a root of a plan that is not sealed', { name: 'acme', root: acme.root }, stored, false],
  ];
  for (const [what, authority, epochs, isExported] of unsealed)
    t.match(
      differences([authority], { epochs, isExported }),
      [new RegExp(`^the trust file has the root ${digest(authority)} of ${authority.name}, which no sealed`)],
      what,
    );
  t.strictSame(
    differences([{ name: 'acme', root: acme.root }], { isExported: true }),
    [],
    'from the configuration',
  );
  t.match(differences([{ ...strict, accuracyMaxMs: 300_001 }]), [
    /accepts an accuracy of 300001 ms from acme/,
  ]);
});

t.test('an old trust file does not pass for an epoch that asks for post-quantum signatures', async (t) => {
  const { privateKey: _, ...postQuantum } = { ...makeKey('mldsa44', 'eu'), keyLabel: 'post-quantum' };
  const safe = (begins: number, wanted: number): Epoch => ({
    ...first,
    from: hours(begins),
    keys: firstEpoch([eu, us, postQuantum]).keys,
    quorum: { needed: 2, postQuantum: wanted },
  });
  const open: TrustedEpoch = { ...first, notBefore: first.from };
  const said = (one: TrustedEpoch, ...acts: EpochAct[]) =>
    trustDifferences(
      { origin: ORIGIN, environment: 'env_test', epochs: [one] },
      deriveEpochs(ORIGIN, [create, ...acts], HEAD),
    );
  const [plan, begin] = [act(2, 'epoch.plan', safe(10, 1), 8), act(3, 'epoch.begin', safe(10, 1), 10)];
  t.strictSame(said(open, plan, begin), [
    'the trust file lacks the epoch from 2026-03-01T10:00:00.000Z on, which asks for post-quantum signatures: get the newest trust file',
  ]);
  t.strictSame(said({ ...open, notAfter: hours(10) - 1 }, plan, begin), [], 'it says nothing of that time');
  t.strictSame(said(open, plan), [], 'the epoch has not begun');
  t.strictSame(said(open, planSecond, beginSecond), [], 'it asks for none');
});

t.test(
  'no later acts remove the first epoch, put the epochs out of order, or make reading throw',
  async () => {
    const form = epochObject(ORIGIN, second);
    const value = fc.oneof(fc.string(), fc.double(), fc.boolean(), fc.constant(null), fc.array(fc.string()));
    const object = fc.oneof(
      fc.dictionary(fc.string(), value),
      fc.dictionary(fc.constantFrom(...Object.keys(form)), value).map((change) => ({ ...form, ...change })),
      fc.constantFrom(form, epochObject(ORIGIN, third)),
    );
    const names = ['log.create', 'epoch.plan', 'epoch.cancel', 'epoch.begin'] as const;
    const acts = fc.array(
      fc.tuple(fc.constantFrom(...names), object, fc.option(fc.nat(30), { nil: undefined })),
    );
    fc.assert(
      fc.property(acts, (later) => {
        const all = later.map(([name, object, after], index) => act(index + 2, name, object, after));
        const { list } = deriveEpochs(ORIGIN, [create, ...all], HEAD);
        const begins = list.map(({ form }) => form.from);
        const isSound = list[0]?.record === 1 && list[0].form.from === new Date(BEGIN).toISOString();
        return isSound && JSON.stringify(begins) === JSON.stringify(begins.toSorted());
      }),
      { numRuns: tries(2000) },
    );
  },
);

t.test('an epoch is read from its sealed form unchanged, and a wrong form is refused', async (t) => {
  for (const [index, form] of sealedForms(ORIGIN, stored).entries()) {
    t.strictSame(parseForm(ORIGIN, form), stored[index]);
    for (const wrong of [
      { ...form, verifier_keys: form.verifier_keys.map((line) => `${line}x`) },
      { ...form, verifier_keys: form.verifier_keys.map((line) => line.replaceAll(' ', '')) },
      { ...form, verifier_keys: form.verifier_keys.map((line) => line.replace('/', ' ')) },
      { ...form, partitions: [] },
      { ...form, partitions: ['', ''] },
      { ...form, partitions: [...form.partitions, 'eu/log'] },
      { ...form, quorum: 0 },
      { ...form, quorum: '2 of eu,us' },
      { ...form, timestamp_roots: ['built-in'] },
    ])
      t.equal(parseForm(ORIGIN, wrong), undefined, JSON.stringify(wrong));
    t.equal(parseForm('other.example.com/log', form), undefined, 'of another log');
  }
});

t.test('neither the label of a software key nor the post-quantum rule can be taken away', async (t) => {
  const { privateKey: _, ...postQuantum } = makeKey('mldsa44', 'us');
  const keys = firstEpoch([eu, { ...postQuantum, software: true }]).keys;
  const epoch: Epoch = { ...first, keys, quorum: { needed: 1, postQuantum: 1 } };
  const acts = [{ ...act(1, 'log.create', epoch), after: -Infinity }];
  judge([epoch], acts);
  const unlabelled = { ...epoch, keys: keys.map(({ software: _, ...key }) => key) };
  t.throws(() => judge([unlabelled], acts), /software_keys: us\/log is missing, audit record 1 has it/);
  const weaker = { ...epoch, quorum: { needed: 1 } };
  t.throws(() => judge([weaker], acts), /quorum: 1, but audit record 1 says 1 classical and 1 post-quantum/);
  const labelled = [{ ...act(1, 'log.create', unlabelled), after: -Infinity }];
  t.throws(() => judge([epoch], labelled), /software_keys: us\/log is not in audit record 1/);
});
