import type { Test } from 'tap';
import { storedQuotas } from '../../src/health/sections/quotasSection.ts';
import type { LimitPolicies } from '../../src/limits/policies.ts';
import { windowAt } from '../../src/limits/quotas.ts';
import type { Store } from '../../src/store/store.ts';
import { putCredentials, sampleCredential, sampleJob } from '../store/samples.ts';
import { openTestConsole } from './testConsole.ts';

const NOW = Date.UTC(2026, 10, 23, 13, 0);
export const DAY_MS = 86_400_000;
export const day = (jobs: number) => ({ jobs, windowMs: DAY_MS });
const rate = { requests: 100, windowMs: 3_600_000 };

/** Clients that may create some jobs in a day, and a daemon that has counted requests of one of them. */
export async function limited(t: Test, clients: LimitPolicies['clients'], names = Object.keys(clients)) {
  const policies: LimitPolicies = { rate, quotas: { default: day(10) }, clients };
  const usage = { limit: 100, window_seconds: 3600, used: 25, resets_at: '2026-11-23T13:15:00.000Z' };
  const opened: { store?: Store } = {};
  const test = await openTestConsole(t, {
    clock: () => NOW,
    quotas: async () => (opened.store ? await storedQuotas(opened.store, policies, NOW) : []),
    rates: [{ client_id: 'billing', rate: usage, quotas: [] }],
  });
  opened.store = test.store;
  const credentials = names.map((clientId, n) => sampleCredential({ clientId, id: `key_${n}` }));
  await putCredentials(test.store, credentials);
  const use = async (clientId: string, quota: string, jobs: number) => {
    for (let n = 0; n < jobs; n += 1)
      await test.store.jobs.accept(sampleJob({ clientId, quota: windowAt(NOW, quota, day(1)) }));
  };
  return { test, use };
}
