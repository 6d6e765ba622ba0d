/** Which jobs the next batch takes if more wait than it can have. */
import t from 'tap';
import { Presence } from '../../src/base/presence.ts';
import { newJobId } from '../../src/job/id.ts';
import { Pending, type Sealable } from '../../src/seal/pending.ts';
import { SealQueue } from '../../src/seal/sealQueue.ts';
import { makeJob } from '../support/sealing.ts';

const waiting = (clientId: string) => new Pending(makeJob(newJobId(), { clientId }), 'queued') as Sealable;
const clientsOf = (jobs: Sealable[]) => jobs.map(({ job }) => job.clientId).join(' ');

t.test('a batch takes equally many jobs of each client that waits', (t) => {
  const queue = new SealQueue(new Presence(() => 0));
  for (let n = 0; n < 100; n += 1) queue.add(waiting('greedy'));
  for (const clientId of ['modest', 'other', 'modest']) queue.add(waiting(clientId));
  t.equal(clientsOf(queue.take(4)), 'greedy greedy modest other', 'in the order in which they came');
  t.equal(clientsOf(queue.take(3)), 'greedy greedy modest', 'a share that is left over goes to the others');
  t.equal(clientsOf(queue.take(2)), 'greedy greedy');
  t.equal(queue.take(1_000).length, 64, 'few, as long as the others may come again');
  t.equal(queue.length, 30);
  t.end();
});

t.test('a client that is alone has as many jobs in a batch as there may be', (t) => {
  let now = 0;
  const queue = new SealQueue(new Presence(() => now));
  for (let n = 0; n < 1_000; n += 1) queue.add(waiting('greedy'));
  t.equal(queue.take(700).length, 700);
  queue.add(waiting('modest'));
  t.equal(queue.take(700).length, 65);
  now += 1_000;
  t.equal(queue.take(700).length, 236, 'the other has gone');
  for (const clientId of ['modest', 'greedy']) for (let n = 0; n < 100; n += 1) queue.add(waiting(clientId));
  now += 1_000;
  t.equal(queue.take(700).length, 128, 'both have waited for long, and still wait');
  t.end();
});

t.test('jobs that were put back come first among those of their client', (t) => {
  const queue = new SealQueue();
  const [first, second, third] = [waiting('greedy'), waiting('greedy'), waiting('greedy')];
  queue.add(first);
  queue.add(second);
  const taken = queue.take(2);
  queue.add(third);
  queue.add(waiting('modest'));
  queue.putBack(taken);
  t.strictSame(
    [...queue.take(2)].map(({ job }) => job.clientId),
    ['greedy', 'modest'],
  );
  t.strictSame(queue.take(2), [second, third]);
  t.end();
});

t.test('a job that has ended takes no place in a batch', (t) => {
  const queue = new SealQueue();
  const ended = waiting('greedy');
  for (const one of [ended, waiting('greedy'), waiting('greedy')]) queue.add(one);
  ended.settle({ kind: 'sealed', leafIndex: 0, sealedAt: 0 });
  t.equal(queue.take(2).filter(({ isOver }) => !isOver).length, 2);
  t.equal(queue.length, 0);
  t.end();
});
