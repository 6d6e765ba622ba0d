import t from 'tap';
import type { QuotaWindow } from '../../src/job/job.ts';
import { Quotas, windowAt } from '../../src/limits/quotas.ts';
import { fc, tries } from '../support/seed.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const START_MS = Date.UTC(2026, 0, 2, 3, 4, 5, 678);

t.test('windows begin with the hour, the day and the week in UTC', async (t) => {
  const spans = (windowMs: number, at = START_MS) => {
    const { startsAt, endsAt } = windowAt(at, 'n', { jobs: 1, windowMs });
    t.equal(endsAt - startsAt, windowMs);
    return new Date(startsAt).toISOString();
  };
  t.equal(spans(HOUR_MS), '2026-01-02T03:00:00.000Z');
  t.equal(spans(DAY_MS), '2026-01-02T00:00:00.000Z');
  t.equal(spans(7 * DAY_MS), '2025-12-29T00:00:00.000Z', 'a Monday');
  t.equal(spans(DAY_MS, Date.UTC(2026, 0, 2)), '2026-01-02T00:00:00.000Z', 'the start belongs to it');
  t.equal(spans(DAY_MS, Date.UTC(2026, 0, 2) - 1), '2026-01-01T00:00:00.000Z');
  t.equal(spans(DAY_MS, 5), '1970-01-01T00:00:00.000Z', 'a clock that was never set');
});

t.test('the count equals that of all jobs in the window', async () => {
  const anyStep = fc.record({
    client: fc.constantFrom('a', 'b'),
    name: fc.constantFrom('default', 'invoice'),
    windowMs: fc.constantFrom(HOUR_MS, DAY_MS),
    jobs: fc.integer({ min: 1, max: 4 }),
    action: fc.constantFrom('take', 'take', 'take', 'give back', 'restart'),
    /** Back too, as a clock that is corrected. */
    pauseMs: fc.oneof(fc.constant(0), fc.integer({ min: -HOUR_MS, max: 2 * HOUR_MS })),
  });
  fc.assert(
    fc.property(fc.array(anyStep, { maxLength: 80 }), (steps) => {
      let now = START_MS;
      let quotas = new Quotas(() => now, []);
      const taken: { client: string; window: QuotaWindow }[] = [];
      for (const { client, name, windowMs, jobs, action, pauseMs } of steps) {
        now += pauseMs;
        const policy = { jobs, windowMs };
        const { startsAt } = windowAt(now, name, policy);
        const mine = taken.filter(
          (one) =>
            one.client === client &&
            one.window.name === name &&
            one.window.startsAt === startsAt &&
            one.window.endsAt - startsAt === windowMs,
        );
        if (quotas.remainder(client, name, policy).remaining !== Math.max(0, jobs - mine.length))
          return false;
        if (action === 'take') {
          const window = quotas.take(client, name, policy);
          if ((window !== undefined) !== mine.length < jobs) return false;
          if (window) taken.push({ client, window });
        } else if (action === 'give back') {
          const [one] = taken.splice(0, 1);
          if (one) quotas.giveBack(one.client, one.window);
        } else {
          const groups = Map.groupBy(taken, (one) => JSON.stringify(one));
          const counts = Array.from(groups.values(), (ones) => {
            const [{ client: clientId, window }] = ones as [(typeof ones)[number]];
            return { clientId, ...window, jobs: ones.length };
          });
          quotas = new Quotas(() => now, counts);
        }
      }
      return true;
    }),
    { numRuns: tries(500) },
  );
});

t.test('the quota is restored when its window ends', async (t) => {
  let now = START_MS;
  const quotas = new Quotas(() => now, []);
  const policy = { jobs: 1, windowMs: DAY_MS };
  const late = quotas.take('a', 'n', policy);
  t.ok(late);
  t.notOk(quotas.take('a', 'n', policy));
  const { resetMs } = quotas.remainder('a', 'n', policy);
  now += resetMs - 1;
  t.notOk(quotas.take('a', 'n', policy));
  now += 1;
  t.ok(quotas.take('a', 'n', policy));
  if (late) quotas.giveBack('a', late);
  t.notOk(quotas.take('a', 'n', policy), 'what was taken of the day before is given back to that');
});
