/** Access: what the configuration allows each client, and what it has used, as the store and the daemon count it. */
import t from 'tap';
import { DAY_MS, day, limited } from './limitedClients.ts';

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
    'archive none for this client',
  ]);
  t.match(text, /class="meter bad".*class="meter good".*aria-label="75 % used"/s);
  const { text: one } = await test.get('/access/quotas?client=archive', { cookie });
  t.equal(rowsOf(one).length, 1);
  t.match((await test.get('/access/quotas?client=nobody', { cookie })).text, /No clients/);
  t.match(await test.get('/access/quotas'), { status: 401 });
});
