import t from 'tap';
import { BoundedBytes, BoundedCounts, BoundedMap, BoundedSet } from '../../src/base/bounded.ts';

t.test('a full map that refuses takes changes of what it has, and nothing new', async (t) => {
  const map = new BoundedMap<string, number>({ max: 2, whenFull: 'refuse it' });
  t.ok(map.set('a', 1));
  t.notOk(map.isFull);
  t.ok(map.set('b', 2));
  t.ok(map.isFull);
  t.notOk(map.set('c', 3));
  t.ok(map.set('a', 4));
  t.strictSame(
    [...map],
    [
      ['a', 4],
      ['b', 2],
    ],
  );
  map.delete('a');
  t.ok(map.set('c', 3), 'there is room again');
  t.equal(map.size, 2);
  map.clear();
  t.strictSame([...map.values()], []);
});

t.test('a full map that forgets drops the oldest entry', async (t) => {
  const map = new BoundedMap<string, number>({ max: 2, whenFull: 'forget the oldest' });
  for (const [n, key] of ['a', 'b', 'a', 'c'].entries()) t.ok(map.set(key, n));
  t.notOk(map.has('a'), 'an entry that is replaced keeps its age');
  t.strictSame(
    [...map],
    [
      ['b', 1],
      ['c', 3],
    ],
  );
});

t.test('a set has a bound too', async (t) => {
  const refusing = new BoundedSet<string>({ max: 1, whenFull: 'refuse it' });
  t.strictSame(
    ['a', 'b', 'a'].map((one) => refusing.add(one)),
    [true, false, true],
  );
  const forgetting = new BoundedSet<string>({ max: 1, whenFull: 'forget the oldest' });
  for (const one of ['a', 'b']) t.ok(forgetting.add(one));
  t.strictSame(
    ['a', 'b'].map((one) => forgetting.has(one)),
    [false, true],
  );
});

t.test('names beyond the first are counted together', async (t) => {
  const counts = new BoundedCounts({ max: 2, others: '(others)' });
  t.strictSame(
    ['a', 'b', 'c', 'a', 'd'].map((name) => counts.add(name)),
    [1, 1, 1, 2, 2],
  );
  t.strictSame(
    [...counts],
    [
      ['a', 2],
      ['b', 1],
      ['(others)', 2],
    ],
  );
  counts.clear();
  t.strictSame([...counts], []);
  t.equal(counts.add('c'), 1);
});

t.test('bytes are added up to the maximum, and are copies', async (t) => {
  const all = new BoundedBytes(10);
  const piece = Buffer.from('abc');
  for (let n = 0; n < 3; n += 1) t.ok(all.add(piece));
  t.notOk(all.add(Buffer.from('de')), 'nothing of a piece that is too long');
  t.ok(all.add(Buffer.from('d')));
  t.ok(all.add(Buffer.alloc(0)));
  t.notOk(all.add(piece));
  piece.fill('x');
  t.equal(all.bytes.toString(), 'abcabcabcd');
  t.equal(all.length, 10);
  t.equal(new BoundedBytes(10).bytes.length, 0);
});
