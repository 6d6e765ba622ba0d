/** The audit trail in a browser. */
import t from 'tap';
import { openTestConsole } from '../testConsole.ts';
import { look } from './everyScreen.ts';

const HOSTILE = '<script>alert(1)</script>\u202egnp.exe';

t.test('the trail can be read on every screen', async (t) => {
  const test = await openTestConsole(t);
  await test.record('key.issue', 'Anna', { client: HOSTILE, scopes: ['x'.repeat(512)] });
  for (let n = 0; n < 5; n += 1)
    await test.record('config.reload', 'ש'.repeat(64), { sha256: 'ab'.repeat(32) });
  const page = await test.browse(t, 'auditor');
  for (const path of ['/audit', '/audit/1', '/audit?who=nobody']) {
    await page.navigate(`${test.url}${path}`);
    await look(t, page, path);
  }
  t.strictSame(page.complaints, []);
});
