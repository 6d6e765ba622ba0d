import { setImmediate as nextTurn } from 'node:timers/promises';
import t from 'tap';
import { beginFewPerTurn } from '../../src/http/fewPerTurn.ts';
import type { RequestContext } from '../../src/http/requestContext.ts';

t.test('simultaneous requests begin a few at a time, in their order', async (t) => {
  const middleware = beginFewPerTurn();
  const begun: number[] = [];
  const begin = (n: number) => middleware({} as RequestContext, async () => void begun.push(n));
  const upTo = (count: number) => Array.from({ length: count }, (_, n) => n);
  const requests = upTo(20).map(begin);
  t.same(begun, upTo(8));
  await nextTurn();
  t.same(begun, upTo(16));
  const late = begin(20);
  await nextTurn();
  t.same(begun, upTo(21));
  await Promise.all([...requests, late]);
  await nextTurn();
  const after = begin(21);
  t.same(begun, upTo(22), 'without a wait where there is room');
  await after;
});

t.test('a request that fails does not use up the turn of another', async (t) => {
  const middleware = beginFewPerTurn();
  const fault = new Error('a fault');
  const fail = () => middleware({} as RequestContext, () => Promise.reject(fault));
  await Promise.all(Array.from({ length: 30 }, () => t.rejects(fail(), fault)));
  await middleware({} as RequestContext, async () => t.pass('it begins'));
});
