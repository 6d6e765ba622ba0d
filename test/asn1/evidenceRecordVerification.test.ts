import t from 'tap';
import { type ArchiveTimestamp, encodeSequence } from '../../src/asn1/archiveTimestamp.ts';
import type { Certificate } from '../../src/asn1/certificate.ts';
import { MalformedDer } from '../../src/asn1/der.ts';
import {
  type EvidenceRecord,
  encodeEvidenceRecord,
  type RecordVerification,
  verifyEvidenceRecord,
} from '../../src/asn1/evidenceRecord.ts';
import { reducedTree } from '../../src/asn1/hashTree.ts';
import { digestOf } from '../../src/base/crypto.ts';
import {
  type Archived,
  DATA,
  derOf,
  fourGenerations,
  makeEra,
  recordOf,
  renew,
  stamp,
  yearMs,
} from '../support/evidence.ts';
import { randomBytes } from '../support/seed.ts';

const { first, second, third, fourth, roots, ...made } = await fourGenerations();
const { initial, renewed, rehashed, last } = made;

type Objection = NonNullable<RecordVerification['objection']>;

function verify(
  record: Uint8Array | EvidenceRecord,
  year: number,
  changes: Partial<RecordVerification> = {},
) {
  const der = record instanceof Uint8Array ? record : encodeEvidenceRecord(record);
  return verifyEvidenceRecord({ record: der, data: DATA, trustedRoots: roots, at: yearMs(year), ...changes });
}

t.test('records of four authorities verify over forty years', async (t) => {
  const kinds = ['initial', 'time-stamp renewal', 'hash renewal', 'time-stamp renewal'];
  for (const [made, year, until] of [
    [initial, 2035, 2041],
    [renewed, 2045, 2051],
    [rehashed, 2055, 2061],
    [last, 2065, 2071],
  ] as const)
    for (const item of made) {
      const verdict = verify(derOf(item), year, { data: item.data });
      const count = [initial, renewed, rehashed, last].indexOf(made) + 1;
      t.match(verdict, { outcome: 'good', holdsUntil: yearMs(until) });
      t.strictSame(
        verdict.lines.map(({ kind }) => kind),
        kinds.slice(0, count),
      );
    }
  t.match(verify(recordOf(last), 2065), {
    lines: [
      {
        digest: 'sha512',
        timestamp: { genTime: yearMs(2031), notAfter: yearMs(2041), authority: /Era of 2030/ },
      },
      { digest: 'sha512', timestamp: { genTime: yearMs(2040) + 1 } },
      { digest: 'sha384', timestamp: { genTime: yearMs(2050) + 1 } },
      { digest: 'sha384', timestamp: { genTime: yearMs(2060) + 1 } },
    ],
  });
});

t.test('a renewal must come before the former time-stamp ends', async (t) => {
  t.match(verify(recordOf(renewed), 2052), {
    outcome: 'unknown',
    fault: 'expired',
    detail: /2 of 2 is no longer valid: .*Era of 2040.* is not valid at 2052/,
  });
  t.match(verify(recordOf(renewed), 2039), { outcome: 'unknown', fault: 'future' });
  t.match(verify(recordOf(renewed), 2045, { at: Number.NaN }), { outcome: 'unknown', fault: 'expired' });
  const [late] = await renew(initial, 'sha512', third, yearMs(2055));
  t.match(verify(derOf(late as Archived), 2056), {
    outcome: 'bad',
    fault: 'gap',
    detail: /1 of 2 was no longer valid when the next one was made/,
  });
  const [lateHash] = await renew(initial, 'sha256', third, yearMs(2055));
  t.match(verify(derOf(lateHash as Archived), 2056), { outcome: 'bad', fault: 'gap' });
});

t.test('the times of the time-stamps must ascend strictly', async (t) => {
  const overlap = await makeEra(2030, 2050);
  for (const [at, outcome] of [
    [yearMs(2031), 'bad'],
    [yearMs(2031) - 1, 'bad'],
    [yearMs(2031) + 1, 'good'],
  ] as const)
    for (const digest of ['sha512', 'sha384'] as const) {
      const [again] = await renew(initial, digest, overlap, at);
      const verdict = verify(derOf(again as Archived), 2032, { trustedRoots: [...roots, overlap.root] });
      t.match(verdict, outcome === 'good' ? { outcome } : { outcome, fault: 'order' }, `${digest} at ${at}`);
    }
});

t.test('a record with an untrusted authority is undecided, unless it is bad', async (t) => {
  const without = (one: Certificate | undefined) => ({ trustedRoots: roots.filter((root) => root !== one) });
  for (const root of roots)
    t.match(verify(recordOf(last), 2065, without(root)), { outcome: 'unknown', fault: 'untrusted' });
  const broken = recordOf(last);
  broken.digests = ['sha512'];
  t.match(
    verify(broken, 2065, without(roots[0])),
    { outcome: 'bad', fault: 'digest' },
    'what is bad comes before what is not known',
  );
  const asked: string[] = [];
  const objection: Objection = ({ authority }, at) => {
    asked.push(`${authority} ${new Date(at).getUTCFullYear()}`);
    return undefined;
  };
  t.match(verify(recordOf(renewed), 2045, { objection }), { outcome: 'good' });
  t.match(asked, [/2030.* 2031/, /2030.* 2040/, /2040.* 2040/, /2040.* 2045/]);
  const until =
    (year: number): Objection =>
    (_, at) =>
      at >= yearMs(year) ? 'stolen' : undefined;
  t.match(verify(recordOf(renewed), 2045, { objection: until(2031) }), {
    outcome: 'bad',
    fault: 'authority',
    detail: /1 of 2 stolen/,
  });
  t.match(verify(recordOf(renewed), 2045, { objection: until(2035) }), {
    outcome: 'bad',
    fault: 'gap',
    detail: /stolen/,
  });
  t.match(verify(recordOf(renewed), 2045, { objection: until(2042) }), {
    outcome: 'unknown',
    fault: 'expired',
  });
});

const H512 = (data: Uint8Array) => digestOf('sha512', data);

t.test('the two hashes of a hash renewal can be in either order, but not otherwise', async (t) => {
  for (const { data, record: before } of renewed) {
    const pair = [digestOf('sha384', data), digestOf('sha384', encodeSequence(before.chains))] as const;
    const [first, second] = pair.toSorted(Buffer.compare) as [Uint8Array, Uint8Array];
    const stamped = async (...parts: Uint8Array[]) => {
      const leaf = parts.length === 1 ? (parts[0] as Uint8Array) : digestOf('sha384', Buffer.concat(parts));
      const token = await stamp(third, 'sha384', leaf, yearMs(2050) + 1);
      const record = { ...before, digests: ['sha512' as const, 'sha384' as const] };
      return verify({ ...record, chains: [...before.chains, [{ token }]] }, 2055, { data }).outcome;
    };
    const isSorted = pair[0] === first;
    t.equal(await stamped(...pair), 'good');
    t.equal(await stamped(first, second), 'good');
    t.equal(await stamped(second, first), isSorted ? 'bad' : 'good');
    t.equal(await stamped(data, pair[1]), 'bad');
    t.equal(await stamped(pair[1]), 'bad');
  }
});

t.test('each hash renewal covers all chains before it', async (t) => {
  const [twice] = await renew(last, 'sha256', fourth, yearMs(2065));
  const record = recordOf([twice as Archived]);
  t.match(verify(record, 2066), { outcome: 'good', lines: { length: 5 } });
  const [before, between, after] = record.chains as [
    ArchiveTimestamp[],
    ArchiveTimestamp[],
    ArchiveTimestamp[],
  ];
  for (const chains of [
    [before, after],
    [between, after],
    [before, between.slice(0, 1), after],
    [before.slice(0, 1), between, after],
  ])
    t.match(verify({ ...record, chains }, 2066).lines.at(-1), { outcome: 'bad', fault: 'imprint' });
});

t.test('certificates next to the tokens help, and cannot mislead', async (t) => {
  const record = recordOf(initial);
  t.match(verify({ ...record, certificates: [...roots, second.certificate].map(({ der }) => der) }, 2035), {
    outcome: 'good',
  });
  t.match(
    verify({ ...record, certificates: [Buffer.from('3000', 'hex'), Buffer.from('30030101ff', 'hex')] }, 2035),
    { outcome: 'good' },
  );
  t.match(
    verify({ ...record, certificates: [first.root.der] }, 2035, { trustedRoots: [] }),
    { outcome: 'unknown', fault: 'untrusted' },
    'a root in the record is not trusted',
  );
  const token = await stamp(first, 'sha512', H512(DATA), yearMs(2031), false);
  const bare = { ...record, chains: [[{ token }]] };
  const certificates = [first.certificate.der];
  t.match(verify(bare, 2035), { outcome: 'bad', fault: 'certificate' });
  t.match(verify({ ...bare, certificates }, 2035), { outcome: 'good' }, 'in the record');
  t.match(verify(bare, 2035, { certificates }), { outcome: 'good' }, 'beside it');
});

t.test('trees in the forms of other programs verify', async (t) => {
  const leaf = H512(DATA);
  const siblings = [1, 2, 3, 4, 5].map(() => randomBytes(64));
  const sorted = (...hashes: Uint8Array[]) => Buffer.concat(hashes.toSorted(Buffer.compare));
  const [a, b, c, d, e] = siblings as [Buffer, Buffer, Buffer, Buffer, Buffer];
  const root = H512(sorted(H512(sorted(leaf, a, b)), c, d, e));
  const one = async (reducedHashTree: Uint8Array[][] | undefined, over: Uint8Array) =>
    verify(
      {
        digests: ['sha512'],
        certificates: [],
        chains: [
          [
            {
              ...(reducedHashTree && { reducedHashTree }),
              token: await stamp(first, 'sha512', over, yearMs(2031)),
            },
          ],
        ],
      },
      2032,
    );
  t.match(
    await one(
      [
        [a, leaf, b],
        [d, e, c],
      ],
      root,
    ),
    { outcome: 'good' },
  );
  t.match(await one([[leaf]], leaf), { outcome: 'good' });
  t.match(await one([[leaf], [a]], H512(sorted(leaf, a))), { outcome: 'good' });
  t.match(await one([[leaf, a]], leaf), { outcome: 'bad', fault: 'imprint' });
  const wide = Array.from({ length: 2_000 }, () => randomBytes(64));
  t.match(await one([[leaf, ...wide]], H512(sorted(leaf, ...wide))), { outcome: 'good' });
  const deep = reducedTree(leaf, wide) ?? [];
  t.match(
    await one(
      deep,
      wide.reduce((node, sibling) => H512(sorted(node, sibling)), leaf),
    ),
    { outcome: 'good' },
  );
});

t.test('roots can be given in DER', async (t) => {
  const trustedRoots = roots.map(({ der }) => der);
  t.match(verify(recordOf(last), 2065, { trustedRoots }), { outcome: 'good' });
  t.match(verify(recordOf(last), 2065, { trustedRoots: trustedRoots.slice(1) }), { fault: 'untrusted' });
  t.throws(
    () => verify(recordOf(last), 2065, { trustedRoots: [DATA] }),
    MalformedDer,
    'the caller’s mistake',
  );
});

t.test('any record gets a verdict', async (t) => {
  for (const bytes of [Buffer.alloc(0), Buffer.from('3000', 'hex'), DATA, roots[0]?.der ?? DATA])
    t.match(verify(bytes, 2035), { outcome: 'bad', fault: 'malformed', lines: [] });
  const hostile = {
    get length(): number {
      throw new Error('no');
    },
  } as unknown as Uint8Array;
  t.match(verifyEvidenceRecord({ record: hostile, data: DATA, trustedRoots: roots, at: 0 }), {
    outcome: 'bad',
  });
  const chains = [[{ token: Buffer.from('3000', 'hex') }]];
  t.match(verify({ ...recordOf(initial), chains }, 2035), { outcome: 'bad', fault: 'malformed' });
});
