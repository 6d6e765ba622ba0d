/** Records that a forger makes of true tokens, with authorities that stamp any hash. */
import t, { type Test } from 'tap';
import { type ArchiveTimestamp, encodeSequence } from '../../src/asn1/archiveTimestamp.ts';
import {
  type EvidenceRecord,
  encodeEvidenceRecord,
  type RecordFault,
  type RecordVerdict,
  verifyEvidenceRecord,
} from '../../src/asn1/evidenceRecord.ts';
import { type DigestName, digestOf } from '../../src/base/crypto.ts';
import { DATA, fourGenerations, recordOf, renew, stamp, yearMs } from '../support/evidence.ts';
import { randomBytes } from '../support/seed.ts';

const { second, third, roots, ...made } = await fourGenerations();
const [initial, renewed, rehashed, last] = [made.initial, made.renewed, made.rehashed, made.last].map(
  recordOf,
) as [EvidenceRecord, EvidenceRecord, EvidenceRecord, EvidenceRecord];
/** The record of another checkpoint, after the same renewals as `renewed`. */
const other = recordOf(made.renewed.slice(2));

function verify(record: EvidenceRecord, year: number): RecordVerdict {
  return verifyEvidenceRecord({
    record: encodeEvidenceRecord(record),
    data: DATA,
    trustedRoots: roots,
    at: yearMs(year),
  });
}

function isRefused(t: Test, record: EvidenceRecord, year: number, fault: RecordFault, what: string): void {
  const { outcome, lines } = verify(record, year);
  t.equal(outcome, 'bad', what);
  t.ok(
    lines.some((line) => line.outcome === 'bad' && line.fault === fault),
    `${what}: ${fault}`,
  );
}

const ALL: DigestName[] = ['sha256', 'sha384', 'sha512'];
/** The record with other chains, which declares every hash function. */
const rebuilt = (chains: ArchiveTimestamp[][]): EvidenceRecord => ({
  digests: ALL,
  certificates: [],
  chains,
});
const [first, second1] = renewed.chains[0] as [ArchiveTimestamp, ArchiveTimestamp];
const [before, after] = rehashed.chains as [ArchiveTimestamp[], ArchiveTimestamp[]];
const hash = (digest: DigestName, ...parts: Uint8Array[]) => digestOf(digest, Buffer.concat(parts));
/** One more archive time-stamp by an authority that stamps that hash. */
const stamped = async (
  era: typeof second,
  digest: DigestName,
  over: Uint8Array,
): Promise<ArchiveTimestamp> => ({
  token: await stamp(era, digest, over, era.clock.time),
});

t.test('a tree that does not lead from the last time-stamp to the root is refused', async (t) => {
  const leaf = hash('sha512', first.token);
  const trees: Record<string, (tree: Uint8Array[][]) => Uint8Array[][] | undefined> = {
    'of another checkpoint': () => other.chains[0]?.[1]?.reducedHashTree,
    'without a list': () => [],
    'with an empty first list': (tree) => [[], ...tree],
    'with an empty list above': (tree) => [...tree, []],
    'that ends too soon': (tree) => tree.slice(0, -1),
    'with a hash too many': ([list = [], ...lists]) => [[...list, randomBytes(64)], ...lists],
    'with the leaf twice': ([list = [], ...lists]) => [[...list, leaf], ...lists],
    'with a list twice': ([list = [], ...lists]) => [list, list, ...lists],
    'in another order': (tree) => tree.toReversed(),
    'that begins at the parent of the leaf': (tree) => tree.slice(1),
    'whose first list is the parent': ([list = [], ...lists]) => [[hash('sha512', ...list)], ...lists],
    'with two hashes in one': ([list = [], ...lists]) => [[Buffer.concat(list)], ...lists],
    'with the hash of other data': ([list = [], ...lists]) => [
      [...list.slice(1), hash('sha512', DATA)],
      ...lists,
    ],
    'left out': () => undefined,
  };
  t.equal(verify(rebuilt([[first, { ...second1 }]]), 2045).outcome, 'good');
  for (const [what, change] of Object.entries(trees)) {
    const { token, reducedHashTree = [] } = second1;
    const tree = change(reducedHashTree);
    isRefused(
      t,
      rebuilt([[first, { token, ...(tree && { reducedHashTree: tree }) }]]),
      2045,
      'imprint',
      what,
    );
  }
  const around = { ...first, reducedHashTree: [[hash('sha512', DATA), randomBytes(64)]] };
  isRefused(t, rebuilt([[around]]), 2035, 'imprint', 'around an initial token');
  const strange = await stamped(second, 'sha512', randomBytes(64));
  isRefused(t, rebuilt([[first, strange]]), 2045, 'imprint', 'a token over something else');
  const root = [[leaf], [randomBytes(64)]];
  isRefused(
    t,
    rebuilt([[first, { ...strange, reducedHashTree: root }]]),
    2045,
    'imprint',
    'with a random root',
  );
});

t.test('a hash function other than the chain’s, or undeclared, is refused', async (t) => {
  const sha256 = await stamped(second, 'sha256', hash('sha256', first.token));
  isRefused(t, rebuilt([[first, sha256]]), 2045, 'digest', 'in the same chain');
  isRefused(
    t,
    rebuilt([[first, { ...sha256, digest: 'sha512' }]]),
    2045,
    'imprint',
    'under the name of another',
  );
  isRefused(
    t,
    rebuilt([[{ ...first, digest: 'sha256' }]]),
    2035,
    'imprint',
    'the tree’s, and not the token’s',
  );
  isRefused(t, { ...initial, digests: [] }, 2035, 'digest', 'none declared');
  isRefused(t, { ...rehashed, digests: ['sha512'] }, 2055, 'digest', 'one declared of two');
});

t.test('missing, doubled or moved time-stamps and chains are refused', async (t) => {
  isRefused(t, other, 2045, 'imprint', 'the record of another checkpoint');
  isRefused(t, rebuilt([[first, second1, second1]]), 2045, 'order', 'a time-stamp twice');
  isRefused(t, rebuilt([[first, first]]), 2035, 'order', 'the first time-stamp twice');
  isRefused(t, rebuilt([[second1, first]]), 2045, 'imprint', 'time-stamps in another order');
  isRefused(t, rebuilt([[second1]]), 2045, 'imprint', 'without the first time-stamp');
  isRefused(t, rebuilt([[first], ...last.chains.slice(1)]), 2065, 'imprint', 'without one in the middle');
  isRefused(t, rebuilt([before, before]), 2045, 'order', 'a chain twice');
  isRefused(t, rebuilt([before, before, after]), 2055, 'order', 'a chain twice, and its renewal');
  isRefused(t, rebuilt([before, after, after]), 2055, 'order', 'a hash renewal twice');
  isRefused(t, rebuilt([after, before]), 2055, 'imprint', 'chains in another order');
  isRefused(t, rebuilt([after]), 2055, 'imprint', 'without the first chain');
  isRefused(t, rebuilt([[...before, ...after]]), 2055, 'digest', 'a hash renewal as if it were in the chain');
  isRefused(t, rebuilt([[first], [second1]]), 2045, 'imprint', 'a time-stamp renewal as if it began a chain');
  const third256 = recordOf(await renew(made.renewed, 'sha256', third, yearMs(2050) + 2));
  isRefused(t, rebuilt([...third256.chains.slice(1)]), 2055, 'imprint', 'a renewal alone');
});

t.test('a hash renewal that does not cover the data and all chains is refused', async (t) => {
  const seq = (chains: ArchiveTimestamp[][]) => hash('sha384', encodeSequence(chains));
  const data = hash('sha384', DATA);
  const leaf = (chains: ArchiveTimestamp[][]) => hash('sha384', data, seq(chains));
  const noted = { ...first, attributes: Buffer.from('a100', 'hex') };
  const renewals: [string, Uint8Array, ArchiveTimestamp[][]?][] = [
    ['of other data', hash('sha384', hash('sha384', Buffer.from('other')), seq([before]))],
    ['of the data alone', data],
    ['of the chains alone', seq([before])],
    ['of the last token', hash('sha384', second1.token)],
    ['of a sequence in another order', leaf([before.toReversed()])],
    ['of a part of the chains', leaf([[first]])],
    [
      'of a chain that is no sequence',
      hash('sha384', data, hash('sha384', encodeSequence([before]).subarray(4))),
    ],
    [
      'of chains by the old hash function',
      hash('sha384', hash('sha512', DATA), hash('sha512', encodeSequence([before]))),
    ],
    ['of chains without an attribute', leaf([before]), [[noted, second1]]],
    [
      'of chains that name the hash function',
      leaf([before]),
      [before.map((one) => ({ ...one, digest: 'sha512' as const }))],
    ],
  ];
  const good = await stamped(third, 'sha384', leaf([before]));
  t.equal(verify(rebuilt([before, [good]]), 2055).outcome, 'good');
  for (const [what, over, chains = [before]] of renewals)
    isRefused(t, rebuilt([...chains, [await stamped(third, 'sha384', over)]]), 2055, 'imprint', what);
});
