/** What each client is allowed and has used, in a browser. */
import t from 'tap';
import { HOSTILE } from '../../support/receipts.ts';
import { day, limited } from '../limitedClients.ts';
import { look } from './everyScreen.ts';

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
  t.match(await page.evaluate(`document.querySelector('#quotas').textContent`), /Showing 200 of 407 limits/);
  t.match(
    await page.evaluate(`document.querySelector('tbody tr').textContent`),
    /script/,
    'what is used up comes first',
  );
  t.equal(await page.evaluate(`document.querySelectorAll('main script').length`), 0);
  t.equal(await page.evaluate(`document.querySelector('nav.choice [aria-current]').textContent`), 'Quotas');
  t.strictSame(page.complaints, []);
});
