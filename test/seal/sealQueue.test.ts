/** Which jobs the next batch takes if more wait than it can have. */
import t from 'tap';
import { newJobId } from '../../src/job/id.ts';
import { Pending, type Sealable } from '../../src/seal/pending.ts';
import { SealQueue } from '../../src/seal/sealQueue.ts';
import { makeJob } from '../support/sealing.ts';

const waiting = (clientId: string) => new Pending(makeJob(newJobId(), { clientId }), 'queued') as Sealable;
const clientsOf = (jobs: Sealable[]) => jobs.map(({ job }) => job.clientId).join(' ');

t.test('a batch takes equally many jobs of each client that waits', (t) => {
  const queue = new SealQueue();
  for (let n = 0; n < 100; n += 1) queue.add(waiting('greedy'));
  for (const clientId of ['modest', 'other', 'modest']) queue.add(waiting(clientId));
  t.equal(clientsOf(queue.take(4)), 'greedy greedy modest other', 'in the order in which they came');
  t.equal(clientsOf(queue.take(3)), 'greedy greedy modest', 'a share that is left over goes to the others');
  t.equal(clientsOf(queue.take(2)), 'greedy greedy');
  t.equal(queue.take(1_000).length, 94);
  t.equal(queue.length, 0);
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
