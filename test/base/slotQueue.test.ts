import t from 'tap';
import { SlotQueue } from '../../src/base/slotQueue.ts';

const immediately = () => new Promise((resolve) => setImmediate(resolve));

t.test('the client that holds the fewest is next', async (t) => {
  const slots = new SlotQueue({ of: 'tasks', max: 2 });
  const order: string[] = [];
  const gives: (() => void)[] = [];
  const ask = (clientId: string) =>
    slots.take(clientId).then((give) => {
      order.push(clientId);
      gives.push(give);
    });
  for (const clientId of ['greedy', 'greedy', 'greedy', 'modest', 'late']) void ask(clientId);
  await immediately();
  t.same(order, ['greedy', 'modest'], 'half of all for one client, however long it has been waiting');
  for (let done = 0; done < 5; done += 1) {
    gives.shift()?.();
    await immediately();
  }
  t.same(order, ['greedy', 'modest', 'greedy', 'late', 'greedy'], 'and then in turn');
});

t.test('a wait ends with a refusal after its time', async (t) => {
  const slots = new SlotQueue({ of: 'tasks', max: 2 });
  const give = await slots.take('a');
  await t.rejects(slots.take('a', { waitMs: 1 }), { code: 'too_many_requests', retryAfterSeconds: 2 });
  const other = await slots.take('b');
  await t.rejects(slots.take('c', { waitMs: 1 }), { code: 'queue_full', retryAfterSeconds: 2 });
  const gone = new AbortController();
  const waiting = slots.take('c', { signal: gone.signal });
  gone.abort(new Error('gone'));
  await t.rejects(waiting, { message: 'gone' });
  await t.rejects(slots.take('c', { signal: gone.signal }), { message: 'gone' });
  give();
  give();
  other();
  const gives = [await slots.take('a'), await slots.take('b')];
  t.equal(gives.length, 2, 'and nothing is lost to those who left');
});
