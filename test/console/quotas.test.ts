/** Access: what the configuration allows each client, and what it has used, as the store and the daemon count it. */
import t, { type Test } from 'tap';
import { storedQuotas } from '../../src/admin/status/quotasSection.ts';
import type { LimitPolicies } from '../../src/limits/policies.ts';
import { windowAt } from '../../src/limits/quotas.ts';
import type { Store } from '../../src/store/store.ts';
import { sampleCredential, sampleJob } from '../store/samples.ts';
import { HOSTILE } from '../support/receipts.ts';
import { look } from './screens/everyScreen.ts';
import { openTestConsole } from './testConsole.ts';

const NOW = Date.UTC(2026, 10, 23, 13, 0);
const DAY_MS = 86_400_000;
const day = (jobs: number) => ({ jobs, windowMs: DAY_MS });
const rate = { requests: 100, windowMs: 3_600_000 };

/** Clients that may create some jobs in a day, and a daemon that has counted requests of one of them. */
async function limited(t: Test, clients: LimitPolicies['clients'], names = Object.keys(clients)) {
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
  await test.store.credentials.put(credentials, null);
  const use = async (clientId: string, quota: string, jobs: number) => {
    for (let n = 0; n < jobs; n += 1)
      await test.store.jobs.accept(sampleJob({ clientId, quota: windowAt(NOW, quota, day(1)) }));
  };
  return { test, use };
}

/** The rows of the table, the text of each without markup. */
function rowsOf(text: string): string[] {
  const rows = text.split('<tbody>')[1]?.match(/<tr>.*?<\/tr>/gs) ?? [];
  return rows.map((row) =>
    row
      .replaceAll(/<[^>]*>/g, ' ')
      .replaceAll(/\s+/g, ' ')
      .trim(),
  );
}

t.test('each limit of each client is listed, the most used first', async (t) => {
  const { test, use } = await limited(t, {
    archive: {
      quotas: { default: { jobs: Infinity, windowMs: DAY_MS } },
      rate: { requests: Infinity, windowMs: 1000 },
    },
    billing: { quotas: { invoice: day(4) } },
    closed: { quotas: { default: day(0) } },
  });
  await use('billing', 'invoice', 3);
  const { cookie } = test.signedIn('auditor');
  const { text } = await test.get('/access/quotas', { cookie });
  t.strictSame(rowsOf(text), [
    'closed jobs of all other purposes 0 used up 0 in 1d in 11h',
    'closed requests 0 100 in 1h',
    'billing jobs of all other purposes 0 10 in 1d in 11h',
    'billing jobs: invoice 3 4 in 1d in 11h',
    'billing requests 25 100 in 1h',
    'archive nothing: this client has no limit',
  ]);
  t.match(text, /class="meter bad".*class="meter good".*aria-label="75 % used"/s);
  const { text: one } = await test.get('/access/quotas?client=archive', { cookie });
  t.equal(rowsOf(one).length, 1);
  t.match((await test.get('/access/quotas?client=nobody', { cookie })).text, /There is no client/);
  t.match(await test.get('/access/quotas'), { status: 401 });
});

t.test('the limits can be read on every screen', async (t) => {
  const many = Array.from({ length: 201 }, (_, n) => `client-${n}`);
  const { test, use } = await limited(t, { [HOSTILE]: { quotas: { [HOSTILE]: day(1) } } }, [
    HOSTILE,
    'billing',
    ...many,
  ]);
  await use(HOSTILE, HOSTILE, 1);
  const page = await test.browse(t, 'auditor');
  await page.navigate(`${test.url}/access/quotas`);
  await look(t, page, 'quotas');
  t.match(
    await page.evaluate(`document.querySelector('#quotas').textContent`),
    /200 of 407 limits are shown/,
  );
  t.match(
    await page.evaluate(`document.querySelector('tbody tr').textContent`),
    /script/,
    'what is used up comes first',
  );
  t.equal(await page.evaluate(`document.querySelectorAll('main script').length`), 0);
  t.equal(await page.evaluate(`document.querySelector('nav.choice [aria-current]').textContent`), 'Quotas');
  t.strictSame(page.complaints, []);
});
