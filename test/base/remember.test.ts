import t from 'tap';
import { remember, rememberEach } from '../../src/base/remember.ts';

t.test('the newest keys are remembered, and at most twice as many', async (t) => {
  const made: string[] = [];
  const lengthOf = remember(3, (key) => {
    made.push(key);
    return { length: key.length };
  });
  const first = lengthOf('a');
  t.equal(lengthOf('a'), first, 'the same object');
  for (const key of ['bb', 'ccc', 'dddd', 'a', 'bb', 'ccc', 'dddd'])
    t.equal(lengthOf(key).length, key.length);
  t.strictSame(made, ['a', 'bb', 'ccc', 'dddd'], 'three and more are kept');
  for (let n = 0; n < 100; n++) lengthOf(`${n}`);
  made.length = 0;
  for (let n = 97; n < 100; n++) lengthOf(`${n}`);
  t.strictSame(made, [], 'the newest three');
  t.not(lengthOf('a'), first, 'forgotten');
  t.strictSame(made, ['a']);
});

t.test('results that are thrown or undefined are not remembered', async (t) => {
  let calls = 0;
  const made = remember(3, (key) => {
    calls += 1;
    if (key === 'throws') throw new Error('so');
    return undefined;
  });
  for (const key of ['throws', 'undefined']) {
    const call = () => made(key);
    if (key === 'throws') for (let n = 0; n < 2; n++) t.throws(call);
    else for (let n = 0; n < 2; n++) t.equal(call(), undefined);
  }
  t.equal(calls, 4);
});

t.test('each object has its result made once, even if another has the same content', async (t) => {
  let calls = 0;
  const made = rememberEach((_: object) => {
    calls += 1;
    return undefined;
  });
  const key = {};
  for (let n = 0; n < 3; n++) t.equal(made(key), undefined);
  t.equal(calls, 1, 'undefined counts');
  made({});
  t.equal(calls, 2);
});
