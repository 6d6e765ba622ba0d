import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { Rounds } from '../../src/base/rounds.ts';

const NEVER_MS = 3_600_000;

t.test('rounds', async (t) => {
  t.test('repeat by themselves, and stop when closed', async (t) => {
    let done = 0;
    const work = async () => {
      done += 1;
    };
    const rounds = new Rounds(work, 5, (error) => t.error(error));
    while (done < 3) await sleep(1);
    await rounds.close();
    const before = done;
    await sleep(20);
    t.equal(done, before);
    await rounds.now();
    t.equal(done, before + 1, 'but on request');
  });

  t.test('never overlap, and one that is requested begins after the request', async (t) => {
    const log: string[] = [];
    let free = Promise.withResolvers<void>();
    const work = async () => {
      log.push('begin');
      await free.promise;
      log.push('end');
    };
    const rounds = new Rounds(work, NEVER_MS, (error) => t.error(error));
    const first = rounds.now();
    await sleep(1);
    const second = rounds.now();
    t.equal(rounds.now(), second, 'all that are asked for meanwhile are one round');
    free.resolve();
    free = Promise.withResolvers();
    await first;
    await sleep(1);
    t.same(log, ['begin', 'end', 'begin']);
    free.resolve();
    await second;
    t.same(log, ['begin', 'end', 'begin', 'end']);
    await rounds.close();
  });

  t.test('go on after one that failed', async (t) => {
    const errors: unknown[] = [];
    let done = 0;
    const work = async () => {
      done += 1;
      if (done === 1) throw new Error('no luck');
    };
    const rounds = new Rounds(work, NEVER_MS, (error) => errors.push(error));
    await rounds.now();
    await rounds.now();
    await rounds.close();
    t.equal(done, 2);
    t.match(errors, [{ message: 'no luck' }]);
  });

  t.test('notice that they are closed, and the one under way is waited for', async (t) => {
    let isDone = false;
    const work = async (signal: AbortSignal) => {
      while (!signal.aborted) await sleep(1);
      isDone = true;
    };
    const rounds = new Rounds(work, NEVER_MS, (error) => t.error(error));
    const round = rounds.now();
    await sleep(1);
    await rounds.close();
    t.ok(isDone);
    await round;
  });
});
