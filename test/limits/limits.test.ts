import t from 'tap';
import { Allowance } from '../../src/limits/allowance.ts';
import { Limits } from '../../src/limits/limits.ts';
import type { LimitPolicies } from '../../src/limits/policies.ts';
import { NO_LIMITS } from '../support/limits.ts';

const DAY_MS = 86_400_000;
const START_MS = Date.UTC(2026, 0, 2, 23, 59, 30);
const ENDLESS = Number.POSITIVE_INFINITY;

const daily = (jobs: number) => ({ jobs, windowMs: DAY_MS });
const limitsOf = (policies: Partial<LimitPolicies>) =>
  new Limits({ ...NO_LIMITS, ...policies }, [], () => START_MS);

t.test('without policies nothing is counted or reported', async (t) => {
  const allowance = new Allowance(limitsOf({}), 'a');
  allowance.refuseExhausted();
  allowance.takeRequest();
  t.equal(allowance.takeJob('p'), undefined);
  allowance.close();
  t.strictSame(allowance.standings(), []);
});

t.test('a job uses the quota of its purpose, its client or the default', async (t) => {
  const limits = limitsOf({
    quotas: { default: daily(1), invoice: daily(2), free: daily(ENDLESS) },
    clients: {
      own: { quotas: { invoice: daily(3), letter: daily(4) } },
      endless: { quotas: { default: daily(ENDLESS) } },
    },
  });
  const of = (client: string, purpose?: string) => {
    const standing = limits.quota(client, purpose);
    return standing && `${standing.name} ${standing.limit}`;
  };
  t.equal(of('a'), 'default 1');
  t.equal(of('a', 'anything'), 'default 1');
  t.equal(of('a', 'default'), 'default 1');
  t.equal(of('a', 'invoice'), 'invoice 2');
  t.equal(of('a', 'Invoice'), 'default 1');
  t.equal(of('a', 'letter'), 'default 1');
  t.equal(of('a', 'free'), undefined);
  t.equal(of('own', 'invoice'), 'invoice 3');
  t.equal(of('own', 'letter'), 'letter 4');
  t.equal(of('own'), 'default 1');
  t.equal(of('endless'), undefined);
  t.equal(of('endless', 'invoice'), 'invoice 2');
  for (const name of ['__proto__', 'constructor', 'toString']) {
    t.equal(of('a', name), 'default 1', name);
    t.equal(of(name, name), 'default 1', name);
  }
});

t.test('purposes without a quota of their own share one', async (t) => {
  const limits = limitsOf({ quotas: { default: daily(2) } });
  t.ok(limits.takeJob('a', 'x'));
  t.ok(limits.takeJob('a', undefined));
  t.throws(() => limits.takeJob('a', 'y'), {
    code: 'quota_exceeded',
    message: /"default" of this client, 2 jobs in 1d, is used up.*after 2026-01-03T00:00:00\.000Z/,
    retryAfterSeconds: 30,
  });
  t.ok(limits.takeJob('b', 'y'), 'of another client');
});

t.test('a client without any quota left is refused before its purpose is known', async (t) => {
  const refusal = (quotas: LimitPolicies['quotas'], used: string[]) => {
    const limits = limitsOf({ quotas });
    for (const purpose of used) limits.takeJob('a', purpose);
    try {
      limits.refuseExhausted('a');
      return undefined;
    } catch (error) {
      return (error as Error).message.match(/"(.*)"/)?.[1];
    }
  };
  t.equal(refusal({ default: daily(1) }, []), undefined);
  t.equal(refusal({ default: daily(1) }, ['x']), 'default');
  t.equal(refusal({ default: daily(1), invoice: daily(1) }, ['x']), undefined, 'it may be an invoice');
  t.equal(refusal({ default: daily(1), free: daily(ENDLESS) }, ['x']), undefined);
  t.equal(refusal({ invoice: daily(1) }, ['invoice']), undefined, 'it may be anything else');
  const hourly = { jobs: 1, windowMs: DAY_MS / 24 };
  t.equal(refusal({ default: { jobs: 1, windowMs: 7 * DAY_MS }, x: hourly }, ['x', 'y']), 'x', 'the soonest');
});

t.test('an unused allowance is returned', async (t) => {
  const limits = limitsOf({ quotas: { default: daily(2) } });
  const left = () => limits.quota('a', undefined)?.remaining;
  const failed = new Allowance(limits, 'a');
  t.match(failed.takeJob('x'), { name: 'default', endsAt: Date.UTC(2026, 0, 3) });
  t.strictSame(failed.takeJob('y'), failed.takeJob('x'), 'it takes one');
  t.equal(left(), 1);
  failed.close();
  failed.close();
  t.equal(left(), 2);

  const accepted = new Allowance(limits, 'a');
  const quota = accepted.takeJob('x');
  accepted.keep();
  accepted.close();
  t.equal(left(), 1);
  if (quota) limits.giveBack({ clientId: 'a', quota });
  t.equal(left(), 2, 'a job that failed before its create was answered');
});

t.test('new policies apply at once, also to what was counted before', async (t) => {
  const rate = { requests: 1, windowMs: 60_000 };
  const limits = limitsOf({ rate, quotas: { default: daily(1) } });
  limits.takeRequest('a');
  t.throws(() => limits.takeRequest('a'), {
    code: 'rate_limit_exceeded',
    message: 'This client may send 1 requests in 1m. Repeat the request in 60 s.',
    retryAfterSeconds: 60,
  });
  limits.takeRequest('b');
  limits.takeJob('a', undefined);
  limits.update({ ...NO_LIMITS, quotas: { default: daily(2) } });
  limits.takeRequest('a');
  t.equal(limits.rate('a'), undefined);
  limits.takeJob('a', undefined);
  t.throws(() => limits.takeJob('a', undefined), { code: 'quota_exceeded' });
  limits.update({ ...NO_LIMITS, quotas: { default: daily(1) } });
  t.equal(limits.quota('a', undefined)?.remaining, 0, 'never less than nothing');
});

t.test('a date that jumps does not return requests', async (t) => {
  let [date, elapsed] = [START_MS, 0];
  const policies = {
    ...NO_LIMITS,
    rate: { requests: 1, windowMs: 60_000 },
    quotas: { default: daily(1) },
  };
  const limits = new Limits(
    policies,
    [],
    () => date,
    () => {},
    () => elapsed,
  );
  limits.takeRequest('a');
  date += 26 * 3_600_000;
  t.throws(() => limits.takeRequest('a'), { code: 'rate_limit_exceeded' });
  date -= 52 * 3_600_000;
  t.throws(() => limits.takeRequest('a'), { code: 'rate_limit_exceeded' });
  elapsed += 60_000;
  t.doesNotThrow(() => limits.takeRequest('a'));
});
