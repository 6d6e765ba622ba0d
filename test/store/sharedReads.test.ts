/** Reads of many at one moment ask the database once, and never see what is older than the question. */
import t from 'tap';
import { SharedReads } from '../../src/store/postgresql/sharedReads.ts';

t.test('reads requested during a read share the next one', async (t) => {
  const asked: string[][] = [];
  const answers: (() => void)[] = [];
  let durable = 'first';
  const reads = new SharedReads(async (keys) => {
    asked.push(keys);
    const seen = durable;
    await new Promise<void>((resolve) => answers.push(resolve));
    return new Map(keys.filter((key) => key !== 'unknown').map((key) => [key, seen]));
  });
  const early = [reads.get('a'), reads.get('b'), reads.get('a')];
  await new Promise(setImmediate);
  durable = 'second';
  const late = [reads.get('a'), reads.get('unknown')];
  await new Promise(setImmediate);
  t.same(asked, [['a', 'b']], 'one at a time');
  answers[0]?.();
  t.same(await Promise.all(early), ['first', 'first', 'first']);
  await new Promise(setImmediate);
  answers[1]?.();
  t.same(await Promise.all(late), ['second', undefined]);
  t.same(asked, [
    ['a', 'b'],
    ['a', 'unknown'],
  ]);
});

t.test('a read that fails rejects only those that share it', async (t) => {
  let isDown = true;
  const reads = new SharedReads(async (keys) => {
    if (isDown) throw new Error('the database is away');
    return new Map(keys.map((key) => [key, 1]));
  });
  await Promise.all(['a', 'b'].map((key) => t.rejects(reads.get(key), { message: 'the database is away' })));
  isDown = false;
  t.equal(await reads.get('a'), 1);
});
