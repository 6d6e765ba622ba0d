import { createHash } from 'node:crypto';
import t from 'tap';
import { type ArchiveTimestamp, encodeSequence, UnsupportedRecord } from '../../src/asn1/archiveTimestamp.ts';
import {
  constructed,
  contextTag,
  integer,
  MalformedDer,
  octetString,
  oid,
  primitive,
  sequence,
  setOf,
} from '../../src/asn1/der.ts';
import {
  beginsOver,
  type EvidenceRecord,
  encodeEvidenceRecord,
  parseEvidenceRecord,
  renewalLeaf,
} from '../../src/asn1/evidenceRecord.ts';
import { digestAlgorithm } from '../../src/asn1/signatureAlgorithm.ts';
import { toHex } from '../../src/base/bytes.ts';
import { DOCUMENT, makeAuthority, makePki, makeToken } from '../support/authority.ts';
import { partsOf } from '../support/der.ts';
import { derOf, makeEra, renew, yearMs } from '../support/evidence.ts';
import { fc, tries } from '../support/seed.ts';

const pki = await makePki();
const token = Uint8Array.from(await makeToken(makeAuthority([pki.unit])));
const initial: EvidenceRecord = { digests: ['sha512'], certificates: [], chains: [[{ token }]] };
const der = encodeEvidenceRecord(initial);

const H = (name: string, ...parts: Uint8Array[]) => createHash(name).update(Buffer.concat(parts)).digest();
const toBuffer = (bytes: Uint8Array = new Uint8Array(0)) => Buffer.from(bytes);
const SHA_1 = sequence(oid('1.3.14.3.2.26'));

t.test('an initial record wraps a token with about 35 bytes', async (t) => {
  t.ok(der.length - token.length < 45, `${der.length - token.length} bytes`);
  const { digests, certificates, chains, chainDers } = parseEvidenceRecord(der);
  t.strictSame([digests, certificates, chains.flat().map(Object.keys)], [['sha512'], [], [['token']]]);
  t.same(
    [chains[0]?.[0]?.token, chainDers[0]].map(toBuffer),
    [token, sequence(sequence(token))].map(toBuffer),
  );
});

t.test('a record starts over its own data, and over no other', async (t) => {
  t.equal(beginsOver(der)(DOCUMENT), true);
  t.equal(beginsOver(der)(Buffer.from('another')), false);
  const items = ['a', 'b', 'c'].map((name) => ({ data: Buffer.from(name) }));
  const [first, , third] = await renew(items, 'sha384', await makeEra(2030, 2041), yearMs(2031));
  t.strictSame(
    items.map(({ data }) => [first, third].map((one) => one && beginsOver(derOf(one))(data))),
    // Neighbours in a hash tree have the same record.
    [
      [true, false],
      [true, false],
      [false, true],
    ],
  );
  for (const broken of [der.subarray(1), Buffer.alloc(0), sequence(integer(2))])
    t.equal(beginsOver(broken)(DOCUMENT), false);
});

t.test('a written record reads back, and a read record is written back', async (t) => {
  const digest = fc.constantFrom('sha256' as const, 'sha384' as const, 'sha512' as const);
  const bytes = (max: number) => fc.uint8Array({ maxLength: max });
  const timestamp: fc.Arbitrary<ArchiveTimestamp> = fc.record(
    {
      digest,
      attributes: bytes(9).map((value) =>
        constructed(contextTag(1), [sequence(oid('1.2.3'), setOf([octetString(value)]))]),
      ),
      reducedHashTree: fc.array(fc.array(bytes(70), { maxLength: 4 }), { maxLength: 4 }),
      token: bytes(300).map((content) => sequence(octetString(content))),
    },
    { requiredKeys: ['token'] },
  );
  const record: fc.Arbitrary<EvidenceRecord> = fc.record({
    digests: fc.array(digest, { maxLength: 3 }),
    certificates: fc.array(
      bytes(40).map((content) => sequence(octetString(content))),
      { maxLength: 3 },
    ),
    chains: fc.array(fc.array(timestamp, { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 3 }),
  });
  fc.assert(
    fc.property(record, (value) => {
      const encoded = encodeEvidenceRecord(value);
      const { chainDers, ...read } = parseEvidenceRecord(encoded);
      t.equal(toHex(sequence(...chainDers)), toHex(encodeSequence(value.chains)));
      t.equal(toHex(encodeEvidenceRecord(read)), toHex(encoded));
      t.same(read.chains.flat().map(Object.keys), value.chains.flat().map(Object.keys));
    }),
    { numRuns: tries(60) },
  );
});

t.test('the leaf of a renewal covers the last token, or the data and all chains', async (t) => {
  const { chains } = initial;
  t.same(renewalLeaf(undefined, 'sha384', DOCUMENT), H('sha384', DOCUMENT), 'no record yet');
  t.same(renewalLeaf({ chains: [] }, 'sha384', DOCUMENT), H('sha384', DOCUMENT));
  t.same(
    renewalLeaf(initial, 'sha512', DOCUMENT),
    H('sha512', token),
    'the token’s imprint tells the hash function',
  );
  const pair = [H('sha384', DOCUMENT), H('sha384', encodeSequence(chains))];
  t.same(renewalLeaf(initial, 'sha384', DOCUMENT), H('sha384', ...pair), 'another hash function');
  const renewed = [
    ...chains,
    [
      { digest: 'sha384' as const, token },
      { digest: 'sha384' as const, token: sequence(token) },
    ],
  ];
  t.same(
    renewalLeaf({ chains: renewed }, 'sha384', DOCUMENT),
    H('sha384', sequence(token)),
    'the last token',
  );
  const older = [H('sha512', DOCUMENT), H('sha512', encodeSequence(renewed))];
  t.same(
    renewalLeaf({ chains: renewed }, 'sha512', DOCUMENT),
    H('sha512', ...older),
    'only the last chain counts',
  );
});

/** The record's parts in other hands: version, digest algorithms, whatever follows, and the sequence. */
function compose({
  version = integer(1),
  digests = sequence(digestAlgorithm('sha512')),
  optional = [] as Uint8Array[],
  chains = sequence(sequence(sequence(token))),
  after = [] as Uint8Array[],
}): Uint8Array {
  return sequence(version, digests, ...optional, chains, ...after);
}

t.test('the composer makes a good record, so that the following changes can fail', async (t) => {
  t.same(compose({}), der);
});

const chainOf = (...timestamp: Uint8Array[]) => ({ chains: sequence(sequence(sequence(...timestamp))) });
const trees = (...lists: Uint8Array[]) => chainOf(constructed(contextTag(2), lists), token);
const [info = token] = partsOf(token);

for (const [what, bytes] of [
  ['nothing', new Uint8Array(0)],
  ['a token alone', token],
  ['something after it', Buffer.concat([der, Buffer.of(0)])],
  ['something after the sequence', compose({ after: [integer(1)] })],
  ['no chain', compose({ chains: sequence() })],
  [
    'a chain without an archive time-stamp',
    compose({ chains: sequence(sequence(sequence(token)), sequence()) }),
  ],
  ['an archive time-stamp without a token', compose(chainOf())],
  ['two tokens in one', compose(chainOf(token, token))],
  ['a token that is no SEQUENCE', compose(chainOf(octetString(token)))],
  ['fields in another order', compose(chainOf(token, constructed(contextTag(0), [info])))],
  [
    'a tree before the algorithm',
    compose(chainOf(constructed(contextTag(2), []), constructed(contextTag(0), [info]), token)),
  ],
  ['a tree whose list is a hash', compose(trees(octetString(Buffer.alloc(64))))],
  ['a hash that is a number', compose(trees(sequence(integer(1))))],
  [
    'a hash in parts, as in BER',
    compose(trees(sequence(constructed(0x24, [octetString(Buffer.alloc(64))])))),
  ],
  [
    'cryptoInfos twice',
    compose({ optional: [constructed(contextTag(0), []), constructed(contextTag(0), [])] }),
  ],
  ['cryptoInfos that are certificates', compose({ optional: [constructed(contextTag(0), [pki.root.der])] })],
  ['no algorithms', sequence(integer(1), sequence(sequence(sequence(token))))],
  ['a version that is no number', compose({ version: octetString(Buffer.of(1)) })],
  ['too many bytes', Buffer.concat([der, Buffer.alloc(4_194_304)])],
  [
    '1,001 archive time-stamps',
    compose({
      chains: sequence(sequence(...Array.from({ length: 1_001 }, () => sequence(sequence())))),
    }),
  ],
  [
    '65 chains',
    compose({ chains: sequence(...Array.from({ length: 65 }, () => sequence(sequence(token)))) }),
  ],
  [
    '65 certificates',
    encodeEvidenceRecord({ ...initial, certificates: Array.from({ length: 65 }, () => pki.root.der) }),
  ],
] as const)
  t.test(`refused: ${what}`, async (t) => {
    t.throws(() => parseEvidenceRecord(bytes), MalformedDer);
  });

t.test('hundreds of thousands of elements are refused without another error', async (t) => {
  // Each is a NULL, in the length of three octets that such a list needs.
  const list = (tag: number, count: number) => primitive(tag, Buffer.alloc(2 * count, Buffer.of(5, 0)));
  const attribute = sequence(oid('1.2.840.113549.1.9.16.2.23'), primitive(0x31, list(0x30, 200_000)));
  for (const bytes of [
    sequence(integer(1), list(0x30, 200_000), sequence()),
    compose({ optional: [list(0xa0, 200_000)] }),
    compose({ optional: [constructed(contextTag(0), [attribute])] }),
    compose({ chains: list(0x30, 200_000) }),
    compose({ chains: sequence(list(0x30, 200_000)) }),
    compose(chainOf(list(0xa2, 200_000), token)),
    compose(chainOf(constructed(contextTag(2), [list(0x30, 200_000)]), token)),
  ])
    t.throws(() => parseEvidenceRecord(bytes), MalformedDer);
});

t.test('the same values in BER are refused', async (t) => {
  const long = (element: Uint8Array) => {
    // The length of 0x82 in three octets instead of two.
    const [tag = 0, form = 0] = element;
    if (form !== 0x82) throw new Error('not a length in two octets');
    return Buffer.concat([Buffer.of(tag, 0x83, 0), element.subarray(2)]);
  };
  const indefinite = (element: Uint8Array) =>
    Buffer.concat([Buffer.of(element[0] ?? 0, 0x80), element.subarray(4), Buffer.of(0, 0)]);
  for (const change of [long, indefinite]) {
    t.throws(() => parseEvidenceRecord(change(der)), MalformedDer);
    t.throws(
      () => parseEvidenceRecord(compose({ chains: change(sequence(sequence(sequence(token)))) })),
      MalformedDer,
    );
    t.throws(
      () => parseEvidenceRecord(compose({ chains: sequence(sequence(change(sequence(token)))) })),
      MalformedDer,
    );
    t.throws(() => parseEvidenceRecord(compose(chainOf(change(token)))), MalformedDer);
  }
  t.throws(() => parseEvidenceRecord(compose({ version: Buffer.of(2, 2, 0, 1) })), MalformedDer);
});

for (const [what, bytes] of [
  ['version 2', compose({ version: integer(2) })],
  ['version 0', compose({ version: integer(0) })],
  ['SHA-1 among the algorithms', compose({ digests: sequence(digestAlgorithm('sha512'), SHA_1) })],
  ['SHA-1 for a tree', compose(chainOf(constructed(contextTag(0), partsOf(SHA_1)), token))],
  ['encrypted data', compose({ optional: [constructed(contextTag(1), [sequence()])] })],
] as const)
  t.test(`not supported: ${what}`, async (t) => {
    t.throws(() => parseEvidenceRecord(bytes), UnsupportedRecord);
  });

t.test('in foreign cryptoInfos, everything except certificates is skipped', async (t) => {
  const other = sequence(oid('1.2.840.113549.1.9.16.2.24'), setOf([sequence()]));
  const values = sequence(
    oid('1.2.840.113549.1.9.16.2.23'),
    setOf([sequence(pki.root.der, pki.certificate.der)]),
  );
  const { certificates } = parseEvidenceRecord(
    compose({ optional: [constructed(contextTag(0), [other, values, other])] }),
  );
  t.same(certificates, [pki.root.der, pki.certificate.der]);
});
