/** PDFs that hold their receipt, dropped on the page: as the command judges them, and back comes the document. */
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { Verdict } from '../../src/prove/verify/verify.ts';
import { pdfseal } from '../support/commands.ts';
import { onePage, pdfFile, stream } from '../support/pdf.ts';
import { makeSealedPdfs, receiptOf, SEALED_TRUST, sealed } from '../support/sealedPdfs.ts';
import { until } from '../support/until.ts';
import { openPage } from './chromium.ts';

const PAGE = new URL('../../dist/verify.html', import.meta.url).href;
const fixtures = await makeSealedPdfs();
const SHOWN = `({
  outcome: document.querySelector('#outcome').className,
  checks: [...document.querySelectorAll('#report > .card .check, #report > .column .check')].map((item) =>
    ({ name: item.dataset.check, outcome: item.dataset.outcome, code: item.dataset.code, detail: item.querySelector('.detail bdi').textContent })),
})`;
const SAID = `document.querySelector('#outcome .said')?.textContent ?? ''`;
const SAVE = `[...document.querySelectorAll('#report .files button')]`;

t.test('the page', async (t) => {
  const dir = t.testdir({ 'trust.json': SEALED_TRUST, saved: {} });
  const page = await openPage(t, PAGE);
  await page.saveTo(join(dir, 'saved'));
  const put = (name: string, content: Buffer | string) => {
    writeFileSync(join(dir, name), content);
    return join(dir, name);
  };
  const show = async (...files: string[]) => {
    await page.evaluate(`document.querySelector('button[type=reset]').click()`);
    await page.drop(...files, join(dir, 'trust.json'));
    await page.until(
      `document.querySelectorAll('#files li').length === ${files.length + 1} && !['', 'reading'].includes(document.querySelector('#outcome').className)`,
    );
  };
  const saved = async (name: string) => {
    await page.evaluate(`${SAVE}[0].click()`);
    const path = join(dir, 'saved', name);
    // The browser takes the name with an empty file, and puts the whole document in its place.
    await until(name, async () => (statSync(path, { throwIfNoEntry: false })?.size ?? 0) > 0);
    return readFileSync(path);
  };

  await t.test('says the same of each as the command, and saves the document of a good one', async (t) => {
    for (const [n, { name, pdf, outcome, original }] of fixtures.entries()) {
      const file = put(`${n}.sealed.pdf`, pdf);
      await show(file);
      const said = await pdfseal(['verify', file, '--trust', join(dir, 'trust.json'), '--json']);
      const { checks, ...verdict }: Verdict = JSON.parse(said.stdout);
      t.equal(verdict.outcome, outcome, name);
      t.strictSame(await page.evaluate(SHOWN), { outcome, checks }, name);
      t.equal(checks[0]?.name, 'seal', name);
      t.equal(await page.evaluate(`${SAVE}.length`), original === undefined ? 0 : 1, name);
      if (original !== undefined) t.strictSame(await saved(`${n}.original.pdf`), original, name);
    }
  });

  await t.test('says what to add if the PDF does not hold its receipt', async (t) => {
    const document = pdfFile(onePage());
    await show(put('plain.pdf', document));
    t.match(await page.evaluate(SAID), /^Could not tell.*No receipt is attached.*Choose its receipt too/s);
    await page.drop(put('plain.receipt.json', await receiptOf(document)));
    await page.until(`document.querySelector('#outcome').className === 'good'`);
  });

  await t.test('says what was attached, and what was changed', async (t) => {
    const of = (name: string) => fixtures.find((one) => one.name === name)?.pdf ?? '';
    await show(put('good.pdf', of('good')));
    t.match(await page.evaluate(SAID), /This document was sealed.*Its receipt is attached to it/s);
    await show(put('page.pdf', of('another page')));
    t.match(await page.evaluate(SAID), /^Bad.*This PDF was changed after it was sealed/s);
  });

  await t.test('finds the receipts of several PDFs, in other files or in themselves', async (t) => {
    const of = (name: string) => fixtures.find((one) => one.name === name)?.pdf ?? '';
    const apart = pdfFile(onePage('/Lang (de)'));
    await show(
      put('good.pdf', of('good')),
      put('page.pdf', of('another page')),
      put('apart.pdf', apart),
      put('apart.receipt', await receiptOf(apart)),
      put('alone.pdf', pdfFile(onePage('/Lang (fr)'))),
    );
    const rows = `[...document.querySelectorAll('.several > tbody > tr:not(.details)')].map((row) => [...row.cells].slice(0, 3).map((cell) => cell.textContent))`;
    t.strictSame(await page.evaluate(rows), [
      ['Good', 'apart.pdf', 'apart.receipt'],
      ['Good', 'good.pdf', 'attached to the document'],
      ['Bad', 'page.pdf', 'attached to the document'],
      ['Could not tell', 'alone.pdf', 'no matching receipt among the files'],
    ]);
  });

  await t.test('reads a large one in slices', async (t) => {
    const large = pdfFile({ ...onePage(), 5: stream('', Buffer.alloc(12 << 20, '0 g ')) });
    const file = put('large.pdf', await sealed(large, await receiptOf(large)));
    await page.evaluate(`{
      const read = Blob.prototype.arrayBuffer;
      window.longest = 0;
      Blob.prototype.arrayBuffer = function () {
        window.longest = Math.max(window.longest, this.size);
        return read.call(this);
      };
    }`);
    await show(file);
    t.match(await page.evaluate(SHOWN), { outcome: 'good' });
    t.ok(Number(await page.evaluate('window.longest')) <= 4 << 20);
    t.ok((await saved('large.original.pdf')).equals(large));
  });

  await t.test('stops reading a PDF that was removed', async (t) => {
    mkdirSync(join(dir, 'more'));
    const file = put('more/scanned.pdf', Buffer.concat([Buffer.from('%PDF-1.7\n'), Buffer.alloc(40 << 20)]));
    await page.evaluate(`{
      const read = Blob.prototype.arrayBuffer;
      window.slices = 0;
      window.go = [];
      Blob.prototype.arrayBuffer = function () {
        window.slices += 1;
        return window.slices < 4 ? read.call(this) : new Promise((resolve) => window.go.push(() => resolve(read.call(this))));
      };
    }`);
    await page.evaluate(`document.querySelector('button[type=reset]').click()`);
    await page.drop(file, join(dir, 'trust.json'));
    await page.until('window.go.length === 1');
    await page.evaluate(`document.querySelector('button[type=reset]').click()`);
    await page.evaluate('window.go[0](), new Promise((done) => setTimeout(done, 300))');
    t.equal(await page.evaluate('window.go.length'), 1, 'no further slice is read');
    t.equal(await page.evaluate(`document.querySelector('#outcome').className`), 'waiting');
  });

  t.strictSame(
    page.requests.filter((url) => !url.startsWith('blob:')),
    [PAGE],
    'it asked for nothing but itself',
  );
  t.strictSame(page.complaints, []);
});
