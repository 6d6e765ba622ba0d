/** A browser that signs in with a certificate. */
import t from 'tap';
import { openPage } from '../../page/chromium.ts';
import { issueClient } from '../../support/certificates.ts';
import { openTlsConsole } from '../overTls.ts';
import { look, tabTo } from './everyScreen.ts';

t.test('signing in and out works in a browser, by pointer and by keyboard', async (t) => {
  const console = await openTlsConsole(t);
  const port = await console.portFor(t, console.client('anna'));
  const page = await openPage(t, `https://localhost:${port}/`, { anyCertificate: true });
  await look(t, page, 'the sign-in page of a certificate');
  await page.emulate(1280, 'light');
  await page.evaluate(`document.querySelector('main button').click()`);
  await page.until(`document.querySelector('nav') !== null && document.readyState === 'complete'`);
  await tabTo(t, page, 'Log out');
  await page.press('Enter');
  await page.until(`location.pathname === '/logout' && document.readyState === 'complete'`);
  await page.navigate(`https://localhost:${port}/`);
  await tabTo(t, page, 'Open the console');
  await page.press('Enter');
  await page.until(`document.querySelector('nav') !== null && document.readyState === 'complete'`);
  t.equal(await page.evaluate('document.cookie'), '', 'no script reads the cookie');
  const isOfSignIn = (text: string) => /status of 401/.test(text);
  t.strictSame(
    page.complaints.filter((text) => !isOfSignIn(text)),
    [],
  );
  const eve = await console.portFor(
    t,
    issueClient(console.dir, 'eve', console.authority, { subject: '/CN=<b>eve<\\/b>/O=x\u202Ey' }),
  );
  await page.navigate(`https://localhost:${eve}/`);
  t.equal(await page.evaluate(`document.querySelectorAll('main b').length`), 0);
  await look(t, page, 'a certificate of nobody');
});
