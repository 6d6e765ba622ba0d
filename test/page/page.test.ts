/** The verifier as a browser runs it: the built page, and the bundled package, in a real one. */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import t from 'tap';
import { bundle, hashOfSource } from '../../page/build.ts';
import type { Content } from '../../src/job/job.ts';
import { encodeReceipt, type Receipt, receiptDigest } from '../../src/manifest/receipt.ts';
import { encodeTrust } from '../../src/manifest/trust.ts';
import { type Verdict, verifyReceiptText } from '../../src/verify.ts';
import { HeldClock, makeAuthority, makePki } from '../support/authority.ts';
import { type BrowserPage, openPage } from '../support/chromium.ts';
import { makeContent, makeJob, makeKey, oneEpoch, sealJobs } from '../support/sealing.ts';
import { fc } from '../support/seed.ts';

const PAGE = new URL('../../dist/verify.html', import.meta.url);
/** More than one chunk of a file's stream. */
const DOCUMENT = Buffer.alloc(300_000, '%PDF-1.7 …\n');
const document = {
  sha256: createHash('sha256').update(DOCUMENT).digest('hex'),
  sha512: createHash('sha512').update(DOCUMENT).digest('hex'),
  bytes: DOCUMENT.length,
};
const origin = 'seal.example.com/sandbox/2026';
const sealedAt = Date.parse('2026-03-04T05:06:07.300Z');
const keys = [makeKey('ed25519', 'eu-1'), makeKey('ecdsa-p256', 'us-1')] as const;
const pki = await makePki('rsa-3072');
const receipt = await seal({ document });
const ofCopy = await seal({ document: makeContent().document, sealedDocument: document });
const trust = encodeTrust({
  timestampAuthorities: [{ name: 'built-in', root: pki.root }],
  logs: [
    oneEpoch({
      origin,
      environment: 'env_sandbox',
      quorum: 2,
      timestamps: 'required',
      keys: keys.map(({ privateKey: _, ...key }) => key),
    }),
  ],
});

async function seal(content: Partial<Content>): Promise<Receipt> {
  const jobs = [
    makeJob('job_1', { content: makeContent(content), customerReference: 'Ü 7' }),
    makeJob('job_2'),
  ];
  const authority = makeAuthority([pki.unit], new HeldClock(sealedAt));
  const [sealed] = await sealJobs({ jobs, environment: 'sandbox', origin, keys, sealedAt, authority });
  if (sealed === undefined) throw new Error('nothing was sealed');
  return sealed;
}

/** What a forger does last: receipt_sha512 is no secret. */
function finish(forged: Receipt): string {
  return JSON.stringify({ ...forged, receipt_sha512: receiptDigest(forged) });
}

function withEvidence(change: Partial<Receipt['evidence']>): string {
  return finish({ ...receipt, evidence: { ...receipt.evidence, ...change } });
}

const RESULT = `({
  outcome: document.querySelector('#outcome').className,
  words: document.querySelector('#outcome').textContent,
  checks: [...document.querySelectorAll('tbody tr')].map(({ cells: [name, outcome, detail] }) =>
    ({ name: name.textContent, outcome: outcome.textContent, detail: detail.textContent })),
})`;

/** What the page is to say of a verdict. */
function words({ outcome, matches, checks }: Verdict): unknown {
  const copy = ': the copy without XMP metadata, not the document as it was received';
  const good = `Good${matches === 'sealed_document' ? copy : ''}`;
  return { outcome, words: { good, bad: 'Bad', unknown: 'Could not tell' }[outcome], checks };
}

/** What the page says after this was done to it. */
async function shownAfter(page: BrowserPage, act: () => Promise<unknown>): Promise<unknown> {
  await page.evaluate(`document.querySelector('#outcome').className = ''`);
  await act();
  await page.until(`document.querySelector('#outcome').className !== ''`);
  return page.evaluate(RESULT);
}

t.test('the page', async (t) => {
  const page = await openPage(t, PAGE.href);
  const dir = t.testdir({
    'document.pdf': DOCUMENT,
    'changed.pdf': Buffer.from(DOCUMENT).fill('x', 299_999),
  });
  let files = 0;
  const choose = async (name: string, text: string) => {
    files += 1;
    const file = join(dir, `${files}.json`);
    writeFileSync(file, text);
    await page.choose(`input[name=${name}]`, file);
  };

  await t.test('says of each receipt what Node says of it', async (t) => {
    await page.choose('input[name=document]', join(dir, 'document.pdf'));
    await choose('trust', trust);
    const { timestamps, certificates } = receipt.evidence;
    for (const [what, text, outcome] of [
      ['as it was served', encodeReceipt(receipt), 'good'],
      ['of a copy', encodeReceipt(ofCopy), 'good'],
      ['another reference', finish({ ...receipt, customer_reference: 'other' }), 'bad'],
      ['a digest that is not its own', encodeReceipt({ ...receipt, kms_key_id: 'eu-1/other' }), 'bad'],
      ['no time-stamp', withEvidence({ timestamps: [], certificates: [] }), 'bad'],
      ['no certificate', withEvidence({ certificates: [] }), 'bad'],
      ['a time-stamp cut short', withEvidence({ timestamps: [{ type: 'rfc3161', token: 'MIIB' }] }), 'bad'],
      [
        'one signature less',
        withEvidence({ checkpoint: receipt.evidence.checkpoint.replace(/— .*\n$/, '') }),
        'bad',
      ],
      ['a later version', JSON.stringify({ ...receipt, algorithm: 'pdfseal-v9.x' }), 'unknown'],
      ['no JSON', '<script>alert(1)</script>', 'bad'],
      [
        'text that means something in HTML',
        finish({ ...receipt, job_id: '<img src=x onerror=alert(1)>' }),
        'bad',
      ],
    ] as const) {
      t.ok(timestamps.length > 0 && certificates.length > 0);
      const found = await shownAfter(page, () => choose('receipt', text));
      const expected = verifyReceiptText(text, trust, document);
      t.equal(expected.outcome, outcome, what);
      t.strictSame(found, words(expected), what);
    }
  });

  await t.test('sees a document that was changed, and a trust file of others', async (t) => {
    const good = { outcome: 'good' };
    const document = 'input[name=document]';
    const pick = (name: string) => shownAfter(page, () => page.choose(document, join(dir, name)));
    t.match(await shownAfter(page, () => choose('receipt', encodeReceipt(receipt))), good);
    t.match(await pick('changed.pdf'), {
      outcome: 'bad',
      checks: [{}, { name: 'document', outcome: 'failed' }],
    });
    t.match(await pick('document.pdf'), good);
    t.match(await shownAfter(page, () => choose('trust', '{}')), {
      outcome: 'unknown',
      checks: [{ name: 'trust', outcome: 'unknown' }],
    });
  });

  await t.test('takes files that are dropped on it, in any order', async (t) => {
    const texts = [trust, encodeReceipt(receipt)];
    const drop = `{
      const dataTransfer = new DataTransfer();
      for (const text of ${JSON.stringify(texts)}) dataTransfer.items.add(new File([text], 'some.json'));
      dataTransfer.items.add(new File([Uint8Array.from(atob('${DOCUMENT.toString('base64')}'), (c) => c.charCodeAt(0))], 'some.pdf'));
      document.body.dispatchEvent(new DragEvent('drop', { dataTransfer, bubbles: true, cancelable: true }));
    }`;
    const found = await shownAfter(page, () => page.evaluate(drop));
    t.strictSame(found, words(verifyReceiptText(encodeReceipt(receipt), trust, document)));
  });

  t.strictSame(page.requests, [PAGE.href], 'it asked for nothing but itself');
  t.strictSame(page.complaints, []);

  await t.test('can send nothing', async (t) => {
    let asked = 0;
    const server = createServer((_, response) => {
      asked += 1;
      response.end();
    }).listen(0, '127.0.0.1');
    t.teardown(() => server.close());
    await once(server, 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    t.equal((await fetch(url)).status, 200, 'somebody listens');
    t.equal(await page.evaluate(`fetch('${url}').then(() => 'sent', () => 'refused')`), 'refused');
    const image = `new Promise((done) => { const image = new Image(); image.onload = image.onerror = ({ type }) => done(type); image.src = '${url}'; })`;
    t.equal(await page.evaluate(image), 'error');
    t.equal(asked, 1);
    t.ok(page.complaints.every((text) => /Content Security Policy/.test(text)));
  });
});

t.test('the package, bundled: the same verdict on whatever is changed', async (t) => {
  const script = await bundle(`export { verifyReceiptText } from 'pdfseald/verify';`);
  const policy = `default-src 'none'; script-src ${hashOfSource(script)}`;
  const html = `<!doctype html><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="${policy}"><script>${script}</script>`;
  const page = await openPage(t, pathToFileURL(join(t.testdir({ 'page.html': html }), 'page.html')).href);

  const texts = [encodeReceipt(receipt), ...mutations()];
  const call = `${JSON.stringify(texts)}.map((text) => pdfseald.verifyReceiptText(text, ${JSON.stringify(trust)}, ${JSON.stringify(document)}))`;
  const found = (await page.evaluate(call)) as Verdict[];
  const expected = texts.map((text) => verifyReceiptText(text, trust, document));
  t.equal(expected[0]?.outcome, 'good');
  const outcomes = new Set(expected.map(({ outcome }) => outcome));
  t.ok(outcomes.has('bad'));
  const differing = texts.filter((_, i) => JSON.stringify(found[i]) !== JSON.stringify(expected[i]));
  t.strictSame(differing, []);
  t.equal(found.length, texts.length);
});

/** Receipts with a few octets changed: of the text, of the token, of a signature line, of a certificate. */
function mutations(): string[] {
  const { checkpoint, timestamps, certificates } = receipt.evidence;
  const token = timestamps[0]?.token ?? '';
  const edit = fc.record({
    at: fc.double({ min: 0, max: 0.999, noNaN: true }),
    by: fc.integer({ min: 1, max: 255 }),
  });
  const octets = (base64: string, { at, by }: { at: number; by: number }) => {
    const changed = Buffer.from(base64, 'base64');
    const index = Math.floor(at * changed.length);
    changed[index] = (changed[index] ?? 0) ^ by;
    return changed.toString('base64');
  };
  const mutation = fc.tuple(fc.nat(3), edit).map(([kind, change]) => {
    switch (kind) {
      case 0:
        return withEvidence({ timestamps: [{ type: 'rfc3161', token: octets(token, change) }] });
      case 1:
        return withEvidence({ certificates: certificates.map((one) => octets(one, change)) });
      case 2:
        return withEvidence({
          checkpoint: checkpoint.replace(/[\w+/=]{60,}/, (line) => octets(line, change)),
        });
      default: {
        const text = encodeReceipt(receipt);
        const index = Math.floor(change.at * text.length);
        return text.slice(0, index) + String.fromCharCode(change.by & 0x7f) + text.slice(index + 1);
      }
    }
  });
  return fc.sample(mutation, 300);
}
