import t from 'tap';
import {
  countOf,
  describeQuorum,
  encodeQuorum,
  meetsQuorum,
  parseQuorum,
  type QuorumPolicy,
  quorumFault,
} from '../../src/log/quorum.ts';
import { fc, tries } from '../support/seed.ts';

const of = (...regions: string[]) => regions.map((region) => ({ region }));

t.test('a number counts keys', async (t) => {
  t.ok(meetsQuorum({ needed: 2 }, of('eu', 'eu')));
  t.notOk(meetsQuorum({ needed: 2 }, of('eu')));
  t.notOk(meetsQuorum({ needed: 1 }, []));
});

t.test('regions count once each, and others not at all', async (t) => {
  const policy = { needed: 2, regions: ['eu', 'us', 'ap'] };
  t.notOk(meetsQuorum(policy, of('eu', 'eu', 'eu')));
  t.notOk(meetsQuorum(policy, of('eu', 'sa', 'af')));
  t.ok(meetsQuorum(policy, of('ap', 'eu', 'eu')));
});

t.test('a quorum that no signatures could meet is a fault', async (t) => {
  t.equal(quorumFault({ needed: 1 }, of('eu')), undefined);
  t.equal(quorumFault({ needed: 3 }, of('eu', 'us')), '3 of 2 keys can never sign');
  t.equal(quorumFault({ needed: 1, regions: ['eu', 'us'] }, of('eu')), 'region us has no key');
  t.equal(quorumFault({ needed: 2, regions: ['eu', 'us'] }, of('us', 'eu', 'eu')), undefined);
});

const mixed = (classical: string[], postQuantum: string[]) => [
  ...classical.map((region) => ({ region, algorithm: 'ed25519' })),
  ...postQuantum.map((region) => ({ region, algorithm: 'mldsa44' })),
];

t.test('post-quantum keys count if the policy asks for them, and never as classical ones', async (t) => {
  const policy = { needed: 2, postQuantum: 1 };
  t.ok(meetsQuorum(policy, mixed(['eu', 'us'], ['eu'])));
  t.notOk(meetsQuorum(policy, mixed(['eu', 'us', 'ap', 'sa'], [])), 'none is missing but the one');
  t.notOk(meetsQuorum(policy, mixed(['eu'], ['eu', 'us', 'ap'])));
  t.notOk(meetsQuorum({ needed: 2 }, mixed(['eu'], ['eu', 'us'])), 'nobody asked for them');
  t.ok(meetsQuorum({ needed: 1 }, mixed(['eu'], ['us'])));
  const regions = { needed: 2, regions: ['eu', 'us'], postQuantum: 1 };
  t.notOk(meetsQuorum(regions, mixed(['eu'], ['us'])), 'their region counts for nothing');
  t.ok(meetsQuorum(regions, mixed(['eu', 'us'], ['ap'])));
  t.equal(countOf(policy, mixed(['eu', 'us', 'ap'], [])), 2, 'one is missing');
  t.equal(countOf(policy, mixed(['eu', 'us', 'ap'], ['eu'])), 3);
  t.equal(countOf(policy, mixed(['eu', 'us', 'ap'], ['eu', 'us'])), 4, 'one of each kind to spare');
  t.equal(quorumFault(policy, mixed(['eu', 'us'], [])), '1 of 0 post-quantum keys can never sign');
  t.equal(quorumFault(policy, mixed(['eu'], ['eu'])), '2 of 1 classical keys can never sign');
  t.equal(quorumFault(regions, mixed(['eu'], ['us'])), 'region us has no classical key');
  t.equal(
    describeQuorum(policy, mixed(['eu', 'us'], [])),
    'signed by 2 classical keys (regions: eu, us) and 0 post-quantum keys; needed: 2 classical and 1 post-quantum',
  );
});

t.test('the result names the signers and the policy', async (t) => {
  const policy = { needed: 2, regions: ['eu', 'us', 'ap'] };
  t.equal(describeQuorum(policy, of('eu', 'eu')), 'signed by 2 keys (regions: eu); needed: 2 of eu, us, ap');
  t.equal(describeQuorum({ needed: 1 }, []), 'signed by 0 keys (regions: none); needed: 1');
});

const sixteen = Array.from({ length: 16 }, (_, n) => `region-${n}`);
const read: [unknown, QuorumPolicy][] = [
  [1, { needed: 1 }],
  [16, { needed: 16 }],
  ['2 of eu, us, ap', { needed: 2, regions: ['eu', 'us', 'ap'] }],
  ['1 of eu-west', { needed: 1, regions: ['eu-west'] }],
  [`16 of ${sixteen.join(', ')}`, { needed: 16, regions: sixteen }],
  ['2  of  eu,us , ap', { needed: 2, regions: ['eu', 'us', 'ap'] }],
  ['2 classical and 1 post-quantum', { needed: 2, postQuantum: 1 }],
  [
    '2 classical of eu, us, ap and 2 post-quantum',
    { needed: 2, regions: ['eu', 'us', 'ap'], postQuantum: 2 },
  ],
];
const refused = [
  0,
  17,
  1.5,
  -1,
  Number.NaN,
  Infinity,
  '2',
  '',
  'two of eu, us',
  '0 of eu',
  '2 of eu',
  '2 of eu, eu',
  '1 of EU',
  '1 of eu,',
  '1 of ,eu',
  '1 of eu us',
  '01 of eu',
  '1 of',
  '1of eu',
  '1 of eu\n',
  '2 classical',
  '2 classical of eu, us',
  '2 and 1 post-quantum',
  '2 of eu, us and 1 post-quantum',
  '2 classical and 0 post-quantum',
  '0 classical and 1 post-quantum',
  '1 post-quantum',
  '2 classical and 15 post-quantum',
  '2 classical and 1 post-quantum and 1 post-quantum',
  '2 classical and 1 classical',
  '2 classical of eu and 1 post-quantum',
  '2 classical and 1 post-quantum\n',
  null,
  undefined,
  true,
  [1],
  { needed: 1 },
  1n,
];
t.test('a quorum is read from its written form, or refused', async (t) => {
  for (const [text, policy] of read) t.strictSame(parseQuorum(text), policy, String(text));
  for (const text of refused) t.equal(parseQuorum(text), undefined, String(text));
});

const region = fc.stringMatching(/^[a-z0-9][a-z0-9-]{0,62}$/);
const policy = fc.oneof(
  fc.integer({ min: 1, max: 16 }).map((needed): QuorumPolicy => ({ needed })),
  fc
    .uniqueArray(region, { minLength: 1, maxLength: 16 })
    .chain((regions) =>
      fc.integer({ min: 1, max: regions.length }).map((needed): QuorumPolicy => ({ needed, regions })),
    ),
);

t.test('every policy reads back, and some signers can meet it', async (t) => {
  fc.assert(
    fc.property(policy, (one) => {
      t.strictSame(parseQuorum(encodeQuorum(one)), one);
      const everybody = one.regions ? of(...one.regions) : of(...Array<string>(one.needed).fill('eu'));
      t.equal(quorumFault(one, everybody), undefined);
    }),
    { numRuns: tries(200) },
  );
});

t.test('any input is safe, and what is read is a policy', async (t) => {
  const wordish = fc
    .array(fc.constantFrom('1', '2', ' ', 'of', ' of ', ',', 'eu', 'us', '-', '\n', '\u00a0'), {
      maxLength: 12,
    })
    .map((words) => words.join(''));
  t.doesNotThrow(() =>
    fc.assert(
      fc.property(fc.oneof(fc.anything({ withBigInt: true }), wordish), (input) => {
        const read = parseQuorum(input);
        if (read === undefined) return true;
        const { needed, regions } = read;
        return needed >= 1 && (regions === undefined || (needed <= regions.length && !regions.includes('')));
      }),
      { numRuns: tries(5000) },
    ),
  );
});

t.test('more signers never make a quorum fail', async (t) => {
  fc.assert(
    fc.property(policy, fc.array(region), region, (one, regions, more) => {
      if (meetsQuorum(one, of(...regions))) t.ok(meetsQuorum(one, of(...regions, more)));
    }),
    { numRuns: tries(200) },
  );
});
