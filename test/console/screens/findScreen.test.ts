/** Find, and the page of a receipt: by pointer and by keyboard, on every screen, with what strangers wrote. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import type { ReceivedJob, Sealed } from '../../../src/job/job.ts';
import { verifyReceiptText } from '../../../src/prove/verify/verify.ts';
import type { BrowserPage } from '../../page/chromium.ts';
import { onePage, pdfFile } from '../../support/pdf.ts';
import { HOSTILE } from '../../support/receipts.ts';
import { receiptOf, sealed } from '../../support/sealedPdfs.ts';
import { makeContent } from '../../support/sealing.ts';
import { SEALED_AT } from '../../support/wholeStore.ts';
import { digestsOf, jobOf, openSealedStore, type SealedStore, sealFirst } from '../sealedStore.ts';
import { openTestConsole, type TestConsole } from '../testConsole.ts';
import { look, tabTo } from './everyScreen.ts';

const DOCUMENT = Buffer.from('%PDF-1.7 a contract\n%%EOF\n');
const CHANGED = Buffer.from('%PDF-1.7 a c0ntract\n%%EOF\n');
const CLIENTS = ['acme-web', 'billing', HOSTILE.slice(0, 60)];
const DAY_MS = 86_400_000;
interface Sought extends SealedStore {
  test: TestConsole;
  contract: ReceivedJob;
  hostile: ReceivedJob;
}

/** Some jobs that are sealed, one that failed, and one that waits. */
async function openFind(t: Test): Promise<Sought> {
  const found = await openSealedStore(t, CLIENTS);
  const { store } = found;
  const contract = jobOf(DOCUMENT, { customerReference: 'Contract 2026/17', purpose: 'contracts' });
  const hostile = jobOf(Buffer.from('other'), {
    clientId: CLIENTS[2] ?? '',
    customerReference: HOSTILE,
    purpose: HOSTILE.slice(0, 128),
    content: makeContent({ scan: { verdict: 'clean', engine: `ClamAV ${HOSTILE}` } }),
  });
  const others = Array.from({ length: 40 }, (_, n) =>
    jobOf(Buffer.from(`document ${n}`), {
      clientId: n % 2 === 0 ? 'acme-web' : 'billing',
      purpose: n % 20 === 0 ? 'yearly' : 'invoices',
      customerReference: `Invoice ${n}`,
      acceptedAt: SEALED_AT - (n + 1) * DAY_MS,
    }),
  );
  await sealFirst(store, [contract, hostile, ...others]);
  const failed = jobOf(Buffer.from('failed'), { customerReference: 'went wrong' });
  const waiting = jobOf(Buffer.from('waiting'), { customerReference: 'not yet' });
  for (const job of [failed, waiting]) await store.jobs.accept(job);
  const failure = { code: 'virus_scan_failed', message: 'A virus was found.', failedAt: SEALED_AT } as const;
  await store.jobs.fail(failed.id, failure);
  const test = await openTestConsole(t, found);
  return { ...found, test, contract, hostile };
}

const VERDICT = `document.querySelector('#verdict')`;
const SHOWN_CHECKS = `[...document.querySelectorAll('.check')].map(({ dataset }) => [dataset.check, dataset.outcome, dataset.code])`;
const settled = (page: BrowserPage) => page.until(`/good|bad|warning|plain/.test(${VERDICT}?.className)`);
const textOf = (page: BrowserPage, selector: string) =>
  page.evaluate(`document.querySelector(${JSON.stringify(selector)})?.textContent ?? ''`);

t.test('dropping a document leads from the login to its receipt in three clicks at most', async (t) => {
  const { test, contract, store, evidence } = await openFind(t);
  const dir = t.testdir({ 'contract.pdf': DOCUMENT, 'changed.pdf': CHANGED });
  const page = await test.browse(t, 'auditor'); // the first click: the button of the link
  await page.evaluate(`document.querySelector('nav a[href="/find"]').click()`); // the second
  await page.until(`location.pathname === '/find' && document.readyState === 'complete'`);
  const before = page.requests.length;
  await page.drop(join(dir, 'contract.pdf'));
  await page.until(`location.pathname === '/find/${contract.id}' && document.readyState === 'complete'`);
  await settled(page);
  t.match(await page.evaluate(`${VERDICT}.className`), 'good');
  t.match(
    await textOf(page, '#verdict'),
    /Good.*This document was sealed.*not changed.*not scanned.*contract\.pdf/s,
  );
  const { outcome } = (await store.jobs.get(contract.id)) ?? {};
  const receipt = await evidence.receipt(contract, outcome as Sealed);
  const { checks } = verifyReceiptText(receipt, evidence.trust(), digestsOf(DOCUMENT));
  t.strictSame(
    await page.evaluate(SHOWN_CHECKS),
    checks.map(({ name, outcome, code }) => [name, outcome, code]),
    'check by check what the library says',
  );
  const sent = page.requests.slice(before).map((url) => new URL(url));
  t.ok(
    sent.some(({ search }) => search === `?q=${contract.content.document.sha256}`),
    'the digest is sent',
  );
  t.strictSame(new Set(sent.map(({ host }) => host)).size, 1, 'to the console alone');

  await page.drop(join(dir, 'changed.pdf'));
  await page.until(`${VERDICT}.className.includes('bad')`);
  t.match(await textOf(page, '#verdict'), /Bad/);
  const type = (text: string) =>
    page.evaluate(`{
      const input = document.querySelector('#expected');
      input.value = ${JSON.stringify(text)};
      input.dispatchEvent(new Event('input'));
    }`);
  await type('ab'.repeat(32));
  t.match(await textOf(page, '#verdict'), /Could not tell.*not the trust file whose SHA-256 you typed/s);
  t.equal(await page.evaluate(`document.querySelector('#report .columns').checkVisibility()`), false);
  await type('');
  t.match(await textOf(page, '#verdict'), /Bad/);
  await page.navigate(`${test.url}/find`);
  await page.drop(join(dir, 'changed.pdf'));
  await page.until(`location.search.startsWith('?q=') && document.readyState === 'complete'`);
  t.match(await textOf(page, '#results'), new RegExp(`Nothing found.*${digestsOf(CHANGED).sha256}`, 's'));
  await page.drop(dir);
  await page.until(`document.querySelector('#drop-work').textContent.includes('cannot be read')`);
  t.strictSame(page.complaints, []);
});

t.test('a sealed PDF leads to its receipt, and is judged with its seal', async (t) => {
  const original = pdfFile(onePage());
  const own = await openSealedStore(t, ['billing']);
  const jobs = [original, DOCUMENT].map((one) => jobOf(one, { clientId: 'billing' })) as [
    ReceivedJob,
    ReceivedJob,
  ];
  const [job, other] = jobs;
  await sealFirst(own.store, jobs);
  const { outcome } = (await own.store.jobs.get(job.id)) ?? {};
  const receipt = await own.evidence.receipt(job, outcome as Sealed);
  const pdf = await sealed(original, receipt, Date.parse(JSON.parse(receipt).sealed_at));
  const dir = t.testdir({ 'sealed.pdf': pdf, 'more.pdf': Buffer.concat([pdf, Buffer.from('%')]) });
  const test = await openTestConsole(t, own);
  const page = await test.browse(t, 'auditor');
  for (const [name, tone, said] of [
    ['sealed.pdf', 'good', /Good.*not changed.*Its receipt is attached/s],
    ['more.pdf', 'bad', /Bad.*This PDF was changed after it was sealed/s],
  ] as const) {
    await page.navigate(`${test.url}/find`);
    await page.drop(join(dir, name));
    await page.until(`location.pathname === '/find/${job.id}' && document.readyState === 'complete'`);
    await settled(page);
    t.match(await page.evaluate(`${VERDICT}.className`), tone, name);
    t.match(await textOf(page, '#verdict'), said, name);
    const checks = (await page.evaluate(SHOWN_CHECKS)) as string[][];
    t.strictSame(checks[0]?.slice(0, 2), ['seal', tone === 'good' ? 'passed' : 'failed'], name);
  }
  await page.drop(join(dir, 'sealed.pdf'));
  await page.until(`${VERDICT}.className.includes('good')`);
  await page.navigate(`${test.url}/find/${other.id}`);
  await settled(page);
  t.match(await textOf(page, '#verdict'), /The receipt alone/, 'on another page it counts for nothing');
  await page.drop(join(dir, 'sealed.pdf'));
  await page.until(`${VERDICT}.className.includes('bad')`);
  t.match(await textOf(page, '#verdict'), /This is not the document of this receipt/);
  const foreign = await sealed(original, await receiptOf(original));
  writeFileSync(join(dir, 'foreign.pdf'), foreign);
  await page.navigate(`${test.url}/find/${job.id}`);
  await settled(page);
  await page.drop(join(dir, 'foreign.pdf'));
  await page.until(`${VERDICT}.className.includes('warning')`);
  const [seal, , passed] = (await page.evaluate(SHOWN_CHECKS)) as string[][];
  t.strictSame(seal?.slice(0, 2), ['seal', 'unknown'], 'the receipt in it is another one');
  t.strictSame(passed?.slice(0, 2), ['document', 'passed']);
  t.strictSame(page.complaints, []);
});

t.test('a file is hashed in slices, and the file dropped last counts', async (t) => {
  const { test, contract } = await openFind(t);
  const dir = t.testdir({ 'contract.pdf': DOCUMENT });
  const large = join(dir, 'large.pdf');
  writeFileSync(large, Buffer.alloc(64 * 2 ** 20, 'x'));
  const page = await test.browse(t, 'auditor');
  await page.navigate(`${test.url}/find`);
  await page.drop(large);
  await page.until(`document.querySelector('#drop-bar').value > 0`);
  t.match(await textOf(page, '#drop-work'), /Reading/);
  await page.drop(join(dir, 'contract.pdf'));
  await page.until(`location.pathname === '/find/${contract.id}'`);
});

t.test('without scripts, no place for dropping a file is shown', async (t) => {
  const { test } = await openFind(t);
  const page = await test.browse(t, 'auditor');
  await page.navigate(`${test.url}/find`);
  const shown = `getComputedStyle(document.querySelector('#drop')).display`;
  t.equal(await page.evaluate(shown), 'grid');
  await page.evaluate(`document.querySelector('#drop').hidden = true`);
  t.equal(await page.evaluate(shown), 'none', 'as it comes from the console');
});

t.test('a job can be found, compared and printed by keyboard alone', async (t) => {
  const { test, contract } = await openFind(t);
  const dir = t.testdir({ 'contract.pdf': DOCUMENT });
  const page = await test.browse(t, 'auditor');
  await page.emulate(1280, 'light');
  await tabTo(t, page, 'Find');
  await page.press('Enter');
  await page.until(`location.pathname === '/find' && document.readyState === 'complete'`);
  await tabTo(t, page, 'file');
  await tabTo(t, page, 'q');
  await page.evaluate(`document.activeElement.value = 'Contract 2026/17'`);
  await page.press('Enter');
  await page.until(`location.search.includes('Contract') && document.readyState === 'complete'`);
  await page.evaluate(`document.querySelector('#to').focus()`);
  await tabTo(t, page, 'Clear');
  await page.press('Tab');
  await page.press('Enter');
  await page.until(`location.pathname === '/find/${contract.id}' && document.readyState === 'complete'`);
  await settled(page);
  t.match(await textOf(page, '#verdict'), /The receipt alone.*genuine.*Choose the document/s);
  await page.choose('#file', join(dir, 'contract.pdf'));
  await page.until(`${VERDICT}.className.includes('good')`);
  await page.evaluate(`document.querySelector('.checks summary').focus()`);
  await page.press('Enter');
  t.equal(await page.evaluate(`document.querySelector('.checks details').open`), true);
  const folded = `document.querySelectorAll('details:not([open])').length`;
  await page.evaluate(`addEventListener('beforeprint', () => { window.onPaper = ${folded}; })`);
  t.match((await page.print()).subarray(0, 5).toString(), '%PDF-');
  t.equal(await page.evaluate('window.onPaper'), 0, 'nothing is folded on paper');
  t.ok(Number(await page.evaluate(folded)) > 0, 'and all is folded again');
  t.strictSame(page.complaints, []);
});

t.test('every state of a job is readable on every screen', async (t) => {
  const { test, hostile, contract, store } = await openFind(t);
  const dir = t.testdir({ 'contract.pdf': DOCUMENT });
  const page = await test.browse(t, 'auditor');
  const one = async (reference: string) => {
    const viewer = { clientId: 'acme-web', organization: 'acme', partnerOf: [] };
    const { records } = await store.jobs.list({ viewer, limit: 1, customerReference: reference });
    return records[0]?.job.id ?? '';
  };
  await page.navigate(`${test.url}/find`);
  await look(t, page, 'newest');
  await page.navigate(`${test.url}/find?q=nothing&from=2026-02-30x`);
  await look(t, page, 'a day that is none');
  await page.navigate(`${test.url}/find?q=nothing`);
  await look(t, page, 'nothing');
  for (const [name, id] of [
    ['failed', await one('went wrong')],
    ['waiting', await one('not yet')],
  ] as const) {
    await page.navigate(`${test.url}/find/${id}`);
    await look(t, page, name);
  }
  await page.navigate(`${test.url}/find/${hostile.id}`);
  await settled(page);
  await page.evaluate(`for (const one of document.querySelectorAll('details')) one.open = true`);
  await look(t, page, 'hostile');
  t.match(await textOf(page, 'main'), /<script>alert\(1\)<\/script>\\u202e/);
  t.equal(await page.evaluate(`document.querySelectorAll('main script').length`), 0);
  t.equal(await page.evaluate(`typeof window.alerted`), 'undefined');
  await page.navigate(`${test.url}/find/${contract.id}`);
  await page.drop(join(dir, 'contract.pdf'));
  await page.until(`${VERDICT}.className.includes('good')`);
  await look(t, page, 'good');
  t.strictSame(page.complaints, []);
});

t.test('a receipt of a megabyte is verified, and one that cannot be fetched is reported', async (t) => {
  const { store, evidence, contract } = await openFind(t);
  let isGone = false;
  const test = await openTestConsole(t, {
    store,
    evidence: {
      ...evidence,
      async receipt(job, outcome) {
        if (isGone) throw new Error('the disk is gone');
        const text = await evidence.receipt(job, outcome);
        return text.padEnd(1_000_000);
      },
    },
  });
  const page = await test.browse(t, 'auditor');
  await page.navigate(`${test.url}/find/${contract.id}`);
  await settled(page);
  t.match(await textOf(page, '#verdict'), /This receipt is genuine/);
  isGone = true;
  await page.navigate(`${test.url}/find/${contract.id}`);
  await settled(page);
  t.match(await textOf(page, '#verdict'), /could not be fetched.*Reload/s);
});
