/** How often the store is asked for what fronts accepted. */
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { newJobId } from '../../src/job/id.ts';
import { RefusedJobs } from '../../src/seal/refusedJobs.ts';
import { startArrivalFeed } from '../../src/watch/arrivalFeed.ts';
import { until } from '../support/until.ts';

const LOGGER = pino({ level: 'silent' });
const NEVER_MS = 2 ** 31 - 1;

/** A feed of jobs that the sealer knows already. After each look, `ended` of them end. */
function openFeed(t: Test, jobs: number, ended: number) {
  const waiting = new Set(Array.from({ length: jobs }, newJobId));
  let listed = [...waiting];
  const looks: number[] = [];
  let notify = () => {};
  const feed = startArrivalFeed({
    store: { jobs: {}, credentials: { all: async () => [] } } as never,
    arrivals: {
      look: async (isKnown: (jobId: string) => boolean) => {
        looks.push(listed.length);
        const over = listed.filter((jobId) => !isKnown(jobId));
        listed = listed.filter((jobId) => !over.includes(jobId));
        for (const jobId of [...waiting].slice(0, ended)) waiting.delete(jobId);
        return [];
      },
      tell: async () => {},
      onNotice: (listener) => {
        notify = listener;
      },
    },
    sealer: { knows: (jobId: string) => waiting.has(jobId), take: () => {}, obstacle: () => undefined },
    sources: { take: () => {} },
    jobsMax: () => jobs,
    scans: false,
    clock: Date.now,
    refused: new RefusedJobs(LOGGER),
    intervalMs: NEVER_MS,
    onFatal: (error) => t.fail(String(error)),
  });
  t.teardown(() => feed.close());
  return { looks, notify: () => notify() };
}

t.test(
  'while waiting jobs are sealed a few at a time, their ids are not read over and over again',
  async (t) => {
    const { looks, notify } = openFeed(t, 500, 1);
    await until('it has looked', () => looks.length === 1);
    notify();
    await until('it has looked again', () => looks.length > 1);
    await sleep(50);
    t.same(looks, [500, 500]);
  },
);

t.test('once few jobs are left, the next look follows at once', async (t) => {
  const { looks, notify } = openFeed(t, 3, 3);
  await until('it has looked', () => looks.length === 1);
  notify();
  await until('it has looked again', () => looks.length > 2);
  notify();
  await until('there is nothing any more', () => looks.at(-1) === 0);
  t.same(looks, [3, 3, 3, 0]);
});
