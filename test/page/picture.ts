/** Makes docs/images/verify.png: what the page for browsers says of a document that is as it was sealed. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeFixtures } from '../support/receipts.ts';
import { openPage } from './chromium.ts';

const ROOT = new URL('../../', import.meta.url);

const [good] = await makeFixtures();
if (good === undefined) throw new Error('no receipt was made');
const dir = mkdtempSync(join(tmpdir(), 'pdfseal-picture-'));
const ends: (() => Promise<void>)[] = [];
try {
  const page = await openPage({ teardown: (end) => ends.push(end) }, new URL('dist/verify.html', ROOT).href);
  await page.emulate(1100, 'light');
  const files = Object.entries({
    'contract.pdf': good.document,
    'contract.pdf.receipt.json': good.receipt,
    'trust.json': good.trust,
  }).map(([name, content]) => {
    writeFileSync(join(dir, name), content);
    return join(dir, name);
  });
  await page.drop(...files);
  await page.until(`document.querySelector('#outcome').className === 'good'`);
  writeFileSync(new URL('docs/images/verify.png', ROOT), await page.screenshot());
} finally {
  for (const end of ends) await end();
  rmSync(dir, { recursive: true });
}
