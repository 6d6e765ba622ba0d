import t from 'tap';
import { BrokenInvariant } from '../../src/base/assert.ts';
import { fromBinary } from '../../src/base/bytes.ts';
import { encodeEntryBundle, parseTilePath, type TilePath, tilePath } from '../../src/log/tiles.ts';
import { fc } from '../support/seed.ts';
import vectors from '../vectors/tiles/tiles.json' with { type: 'json' };

t.test('the C2SP example is written and read', async (t) => {
  const { index, path } = vectors.index;
  t.equal(tilePath({ level: 0, index, width: 256 }), `tile/0/${path}`);
  t.equal(tilePath({ level: 'entries', index, width: 7 }), `tile/entries/${path}.p/7`);
  t.strictSame(parseTilePath(`tile/0/${path}`), { level: 0, index, width: 256 });
});

t.test('every path reads back', async (t) => {
  const paths: fc.Arbitrary<TilePath> = fc.record(
    {
      level: fc.oneof(fc.integer({ min: 0, max: 63 }), fc.constant('entries' as const)),
      index: fc.oneof(fc.integer({ min: 0, max: 2000 }), fc.maxSafeNat()),
      width: fc.integer({ min: 1, max: 256 }),
    },
    { noNullPrototype: true },
  );
  fc.assert(fc.property(paths, (path) => t.strictSame(parseTilePath(tilePath(path)), path)));
});

t.test('a path with another spelling is refused', async (t) => {
  const wrong = [
    '',
    'tile/0',
    'tile/0/0',
    'tile/0/00',
    'tile/0/0000',
    'tile/00/000',
    'tile/64/000',
    'tile/-1/000',
    'tile/data/000',
    'tile/0/x000/001',
    'tile/0/001/000',
    'tile/0/x001',
    'tile/0/000.p/0',
    'tile/0/000.p/01',
    'tile/0/000.p/256',
    'tile/0/000.p/',
    'tile/0/000.p/1/',
    '/tile/0/000',
    'tile/0/000\n',
    'tile/0/../000',
    `tile/0/${'x999/'.repeat(6)}999`,
    `tile/0/${'x999/'.repeat(5000)}999`,
  ];
  for (const path of wrong) t.equal(parseTilePath(path), undefined, path.slice(0, 40));
});

t.test('an entry bundle has each entry after its length', async (t) => {
  t.strictSame(
    encodeEntryBundle([Buffer.from('a'), Buffer.alloc(0), Buffer.alloc(258, 'b')]),
    fromBinary(`\0\x01a\0\0\x01\x02${'b'.repeat(258)}`),
  );
  t.throws(() => encodeEntryBundle([Buffer.alloc(65_536)]), BrokenInvariant);
});
