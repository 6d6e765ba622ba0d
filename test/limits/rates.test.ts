import t from 'tap';
import type { RatePolicy } from '../../src/limits/policies.ts';
import { Rates } from '../../src/limits/rates.ts';
import { fc, tries } from '../support/seed.ts';

const START_MS = Date.UTC(2026, 0, 2, 3, 4, 5, 678);

const anyPolicy = fc.record({
  requests: fc.integer({ min: 1, max: 1_000_000 }),
  windowMs: fc.integer({ min: 1_000, max: 3_600_000 }),
});
const anyPause = fc.oneof(
  fc.constant(0),
  fc.integer({ min: 0, max: 100 }),
  fc.integer({ max: 7_200_000, min: 0 }),
);

t.test('requests are allowed as tokens return one by one', async () => {
  fc.assert(
    fc.property(
      fc.oneof(
        anyPolicy,
        anyPolicy.map((policy) => ({ ...policy, requests: (policy.requests % 5) + 1 })),
      ),
      fc.array(anyPause, { maxLength: 60 }),
      (policy, pauses) => {
        let now = START_MS;
        const rates = new Rates(() => now);
        // In fractions of a token of 1/windowMs, without rounding.
        const full = BigInt(policy.requests) * BigInt(policy.windowMs);
        let tokens = full;
        for (const pause of pauses) {
          now += pause;
          tokens += BigInt(pause) * BigInt(policy.requests);
          if (tokens > full) tokens = full;
          const whole = tokens / BigInt(policy.windowMs);
          const { remaining, resetMs } = rates.remainder('a', policy);
          if (BigInt(remaining) !== whole) return false;
          if (resetMs < 1 || rates.remainder('b', policy).remaining !== policy.requests) return false;
          const taken = rates.take('a', policy);
          if (taken !== whole > 0n) return false;
          if (taken) tokens -= BigInt(policy.windowMs);
        }
        return true;
      },
    ),
    { numRuns: tries(500) },
  );
});

t.test('the reset is the exact moment from which one more is allowed', async () => {
  fc.assert(
    fc.property(anyPolicy, fc.integer({ min: 1, max: 50 }), (policy, requests) => {
      let now = START_MS;
      const rates = new Rates(() => now);
      for (let n = 0; n < requests; n++) rates.take('a', policy);
      const { remaining, resetMs } = rates.remainder('a', policy);
      now += resetMs - 1;
      const before = rates.remainder('a', policy).remaining;
      now += 1;
      return before === remaining && rates.remainder('a', policy).remaining > remaining;
    }),
  );
});

t.test('a clock that is set back does not lock clients out', async (t) => {
  let now = START_MS;
  const rates = new Rates(() => now);
  const policy: RatePolicy = { requests: 1, windowMs: 1_000 };
  t.ok(rates.take('a', policy));
  now -= 3_600_000;
  t.notOk(rates.take('a', policy));
  now += 1_000;
  t.ok(rates.take('a', policy));
});

t.test('another policy begins anew, and the same one continues', async (t) => {
  const rates = new Rates(() => START_MS);
  const policy = { requests: 2, windowMs: 1_000 };
  t.ok(rates.take('a', policy));
  t.ok(rates.take('a', { ...policy }));
  t.notOk(rates.take('a', { ...policy }));
  t.ok(rates.take('a', { ...policy, requests: 3 }));
  t.equal(rates.remainder('a', { ...policy, requests: 3 }).remaining, 2);
});

t.test('nodes that report to each other keep one rate on average', async (t) => {
  const policy = { requests: 60, windowMs: 60_000 };
  let now = START_MS;
  const nodes = [new Rates(() => now), new Rates(() => now), new Rates(() => now)];
  let taken = 0;
  const minutes = 30;
  for (let second = 0; second < minutes * 60; second++) {
    now += 1_000;
    for (const node of nodes)
      for (let request = 0; request < 5; request++) taken += Number(node.take('a', policy));
    for (const node of nodes) {
      const told = [...node.untold()];
      for (const other of nodes)
        if (other !== node) for (const [client, requests] of told) other.add(client, policy, requests);
    }
  }
  // At first, each node has a bucket of its own for a second.
  t.ok(taken <= 60 * (minutes + 1) + 2 * 60, `${taken} in ${minutes} minutes`);
  t.ok(taken >= 60 * (minutes - 2), `${taken} in ${minutes} minutes`);
  for (const node of nodes) t.strictSame([...node.untold()], [], 'nothing is told twice');
});

t.test('a node that reports a few clients at a time reaches all of them', async (t) => {
  const policy = { requests: 1000, windowMs: 60_000 };
  const rates = new Rates(() => START_MS);
  const clients = ['a', 'b', 'c', 'd', 'e'];
  const told = new Set<string>();
  for (let second = 0; second < 3; second++) {
    for (const client of clients) rates.take(client, policy);
    let left = 2;
    for (const [client] of rates.untold()) {
      told.add(client);
      if (--left === 0) break;
    }
  }
  t.strictSame([...told], clients);
});

t.test('reports cannot invent clients, or take more than a window from one', async (t) => {
  const policy = { requests: 10, windowMs: 60_000 };
  let now = START_MS;
  const rates = new Rates(() => now);
  rates.add('nobody', policy, 5);
  t.strictSame([...rates.clients()], []);
  t.ok(rates.take('a', policy));
  rates.add('a', policy, 1_000_000);
  t.match(rates.remainder('a', policy), { remaining: 0, resetMs: 66_000 });
  t.notOk(rates.take('a', policy));
  now += 66_000;
  t.ok(rates.take('a', policy));
});
