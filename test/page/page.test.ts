/** The verifier as a browser runs it: the built page, and the bundled package, in a real one. */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import t from 'tap';
import { bundle, hashOfSource } from '../../page/build.ts';
import { english } from '../../page/english.ts';
import type { Role } from '../../page/roles.ts';
import { tell } from '../../page/story.ts';
import { plainText, quoteName, visible } from '../../page/text.ts';
import type { Content } from '../../src/job/job.ts';
import { encodeTlogProof } from '../../src/log/tlogProof.ts';
import { encodeManifest } from '../../src/manifest/manifest.ts';
import { encodeReceipt, type Receipt, receiptDigest } from '../../src/manifest/receipt.ts';
import { encodeTrust } from '../../src/manifest/trustFile.ts';
import { provenBy } from '../../src/prove/verify/proven.ts';
import { type Verdict, verifyReceiptText } from '../../src/prove/verify/verify.ts';
import { HeldClock, makeAuthority, makePki } from '../support/authority.ts';
import { pdfseal } from '../support/commands.ts';
import { digestsOf, type Fixture, HOSTILE, makeFixtures, makeRenewed } from '../support/receipts.ts';
import { makeContent, makeJob, makeKey, oneEpoch, sealJobs } from '../support/sealing.ts';
import { fc, mutations } from '../support/seed.ts';
import { type BrowserPage, openPage } from './chromium.ts';

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
const genuineKeys = [makeKey('ed25519', 'eu-1'), makeKey('ecdsa-p256', 'us-1')] as const;
const pki = await makePki('rsa-3072');
const receipt = await seal({ document });
const ofCopy = await seal({ document: makeContent().document, sealedDocument: document });
const trust = trustIn(genuineKeys);
/** One receipt of an earlier version stands for all, whose verdicts are tested in Node. */
const fixtures = (await makeFixtures()).filter(({ name }) => !/^installation.* [2-9]$/.test(name));

const proof = encodeTlogProof({
  extra: encodeManifest(receipt.manifest),
  index: receipt.evidence.leaf_index,
  proof: receipt.evidence.inclusion_proof.map((hash) => Buffer.from(hash, 'base64')),
  checkpoint: receipt.evidence.checkpoint,
});

/** Whole, and signed by keys of his own. */
const forgersKeys = [makeKey('ed25519', 'eu-1'), makeKey('ecdsa-p256', 'us-1')] as const;
const forgers = {
  receipt: encodeReceipt(await seal({ document }, forgersKeys)),
  trust: trustIn(forgersKeys),
};

async function seal(content: Partial<Content>, keys = genuineKeys): Promise<Receipt> {
  const jobs = [
    makeJob('job_1', { content: makeContent(content), customerReference: 'Ü 7' }),
    makeJob('job_2'),
  ];
  const authority = makeAuthority([pki.unit], new HeldClock(sealedAt));
  const [sealed] = await sealJobs({ jobs, environment: 'sandbox', origin, keys, sealedAt, authority });
  if (sealed === undefined) throw new Error('nothing was sealed');
  return sealed;
}

function trustIn(keys: typeof genuineKeys): string {
  const log = oneEpoch({
    origin,
    environment: 'env_sandbox',
    quorum: 2,
    timestamps: 'required',
    keys: keys.map(({ privateKey: _, ...key }) => key),
  });
  return encodeTrust({ timestampAuthorities: [{ name: 'built-in', root: pki.root }], logs: [log] });
}

/** What a forger does last: receipt_sha512 is no secret. */
function finish(forged: Receipt): string {
  return JSON.stringify({ ...forged, receipt_sha512: receiptDigest(forged) });
}

function withEvidence(change: Partial<Receipt['evidence']>): string {
  return finish({ ...receipt, evidence: { ...receipt.evidence, ...change } });
}

const SETTLED = `!['', 'reading'].includes(document.querySelector('#outcome').className)`;

const RESULT = `({
  heading: document.querySelector('h1').textContent,
  outcome: document.querySelector('#outcome').className,
  lead: document.querySelector('#outcome .lead')?.textContent ?? '',
  trust: document.querySelector('#trust')?.textContent ?? '',
  faults: [...document.querySelectorAll('#faults li')].map(({ textContent }) => textContent.replace(/[\u2068\u2069]/g, '')),
  checks: [...document.querySelectorAll('#report > .card .check, #report > .column .check')].map((item) =>
    ({ name: item.dataset.check, outcome: item.dataset.outcome, code: item.dataset.code, detail: item.querySelector('.detail bdi').textContent })),
})`;

interface Shown {
  heading: string;
  outcome: string;
  lead: string;
  trust: string;
  faults: string[];
  checks: unknown[];
}

const sha256Of = (text: string) => createHash('sha256').update(text).digest('hex');

/** What the page is to say of a verdict. */
function shownFor(verdict: Verdict, receiptText: string, trustText = trust): Shown {
  const { lead } = tell(verdict, provenBy(receiptText, trustText, verdict), english);
  const { outcome, checks } = verdict;
  const heading = english.outcomes[outcome];
  return {
    heading,
    outcome,
    lead: plainText(lead),
    trust: `SHA-256 ${sha256Of(trustText)}`,
    faults: [],
    checks,
  };
}

/** What the page says after this was done to it. */
async function shownAfter(page: BrowserPage, act: () => Promise<unknown>, files = 0): Promise<Shown> {
  await page.evaluate(`document.querySelector('#outcome').className = ''`);
  await act();
  await page.until(`${SETTLED} && document.querySelectorAll('#files li').length >= ${files}`);
  return (await page.evaluate(RESULT)) as Shown;
}

const startAgain = (page: BrowserPage) =>
  page.evaluate(`document.querySelector('button[type=reset]').click()`);

/** Removes the nth of the files listed. */
const remove = (page: BrowserPage, nth: number) =>
  page.evaluate(`document.querySelectorAll('#files button')[${nth - 1}].click()`);

const MISSING_ALL = 'Nothing is chosen yet. Still missing: document, receipt, trust file.';
const hintsOf = (...roles: Role[]) =>
  roles.map((role) => `${english.slots[role].name}: ${english.slots[role].hint}`);
type Triple = readonly [pdf: string, receipt: string, trust: string];

const REFUSED = {
  heading: 'Could not tell',
  outcome: 'refused',
  lead: 'Nothing was checked: it is not clear which files belong together.',
  trust: '',
  checks: [],
};

type CheckName = Verdict['checks'][number]['name'];

const page = await openPage(t, PAGE.href);

t.test('the page', async (t) => {
  const dir = t.testdir({
    'document.pdf': DOCUMENT,
    'changed.pdf': Buffer.from(DOCUMENT).fill('x', 299_999),
    'receipt.json': encodeReceipt(receipt),
    'invoice.tlog-proof': proof,
    'trust.json': trust,
    folder: { 'trust.json': forgers.trust, 'receipt.json': forgers.receipt },
    'Anhang 3.pdf': forgers.trust,
    'forged.json': forgers.receipt,
    // A receipt and a trust file in one, by members that one reader takes and the other does not see.
    'both.json': JSON.stringify({ ...JSON.parse(forgers.trust), ...JSON.parse(forgers.receipt) }),
    // Starts as JSON, and is a PDF for whoever looks for its mark.
    'polyglot.json': `{"x": "%PDF-1.7", ${forgers.trust.slice(1)}`,
    // Readers differ about which of the two members counts.
    'twice.json': `{"schema": "pdfseal-trust/0", ${forgers.trust.slice(1)}`,
    'hidden.json': `${forgers.trust.slice(0, forgers.trust.lastIndexOf('}'))}, "schema": "other"}`,
    'document.json': DOCUMENT,
    '\u202efdp.exe<b>&amp;\u0007.json': forgers.trust,
  });
  const path = (name: string) => join(dir, name);
  const drop = (...names: string[]) => shownAfter(page, () => page.drop(...names.map(path)));
  const again = () => shownAfter(page, () => startAgain(page));
  const GENUINE = ['document.pdf', 'receipt.json', 'trust.json'];
  const GENUINE_ALONE = /^This receipt is genuine: its document was sealed on 4 March 2026, 05:06:07 UTC/;
  const good = shownFor(verifyReceiptText(encodeReceipt(receipt), trust, document), encodeReceipt(receipt));
  t.equal(good.outcome, 'good');
  t.equal(
    verifyReceiptText(forgers.receipt, forgers.trust, document).outcome,
    'good',
    'the forger’s own trust file vouches for what he made',
  );

  const choose = (name: string, file: string) => page.choose(`input[name=${name}]`, file);
  let files = 0;
  /** What it says of these, each chosen for its role. */
  const shownOf = async (document: string, receiptText: string, trustText = trust) => {
    await startAgain(page);
    await choose('document', path(document));
    for (const [name, text] of [
      ['trust', trustText],
      ['receipt', receiptText],
    ] as const) {
      files += 1;
      writeFileSync(path(`${files}.json`), text);
      await page.until(`!document.querySelector('input[name=${name}]').disabled`);
      // A document under a trust file is judged, too: its verdict must not be taken for that of the receipt.
      const shown = await shownAfter(page, () => choose(name, path(`${files}.json`)));
      if (name === 'receipt') return shown;
    }
    throw new Error('not reached');
  };

  await t.test('accepts a proof in the place of a receipt', async (t) => {
    await again();
    const inNode = shownFor(verifyReceiptText(proof, trust, document), proof);
    t.equal(inNode.outcome, 'unknown', 'a proof does not tell the time');
    t.strictSame(await drop('document.pdf', 'invoice.tlog-proof', 'trust.json'), inNode);
    await again();
  });

  await t.test('verifies post-quantum signatures, and names software keys', async (t) => {
    const at = (name: string) => readFileSync(new URL(`../vectors/postQuantum/${name}`, import.meta.url));
    const [trustText, text, bytes] = [
      at('trust.json').toString(),
      at('receipt.json').toString(),
      at('document.pdf'),
    ];
    const [sha256, sha512] = ['sha256', 'sha512'].map((name) => createHash(name).update(bytes).digest('hex'));
    const digests = { sha256: sha256 ?? '', sha512: sha512 ?? '', bytes: bytes.length };
    writeFileSync(path('post-quantum.pdf'), bytes);
    const expected = verifyReceiptText(text, trustText, digests);
    t.equal(expected.outcome, 'good');
    const found = await shownOf('post-quantum.pdf', text, trustText);
    t.strictSame(found, shownFor(expected, text, trustText));
    t.match(JSON.stringify(found.checks), /us\/post-quantum \(software\)/);
    const { evidence } = JSON.parse(text);
    const line = evidence.checkpoint.split('\n').find((one: string) => one.length > 3000);
    const flipped = text.replace(line.slice(2000, 2010), 'AAAAAAAAAA');
    t.match(await shownOf('post-quantum.pdf', flipped, trustText), { outcome: 'bad' });
  });

  await t.test('says the same of changed receipts as Node.js does', async (t) => {
    const { timestamps, certificates } = receipt.evidence;
    for (const [what, text, outcome] of [
      ['of a copy', encodeReceipt(ofCopy), 'good'],
      ['no certificate', withEvidence({ certificates: [] }), 'bad'],
      ['a time-stamp cut short', withEvidence({ timestamps: [{ type: 'rfc3161', token: 'MIIB' }] }), 'bad'],
      [
        'one signature less',
        withEvidence({ checkpoint: receipt.evidence.checkpoint.replace(/— .*\n$/, '') }),
        'bad',
      ],
      ['no JSON', '<script>alert(1)</script>', 'bad'],
      [
        'text that means something in HTML',
        finish({ ...receipt, job_id: '<img src=x onerror=alert(1)>' }),
        'bad',
      ],
    ] as const) {
      t.ok(timestamps.length > 0 && certificates.length > 0);
      const found = await shownOf('document.pdf', text);
      const expected = verifyReceiptText(text, trust, document);
      t.equal(expected.outcome, outcome, what);
      t.strictSame(found, shownFor(expected, text), what);
    }
  });

  await t.test('says the same of every kind of receipt as the command does', async (t) => {
    const names = fixtures.map(({ document, receipt, trust }, n) => {
      const triple = [path(`${n}.pdf`), path(`${n}.receipt`), path(`${n}.trust`)] as const;
      writeFileSync(triple[0], document);
      writeFileSync(triple[1], receipt);
      writeFileSync(triple[2], trust);
      return triple;
    });
    const verdicts = await verdictsOfCommand(names);
    for (const [n, [pdf, own, trustPath]] of names.entries()) {
      const { name, receipt: text, trust: trustText, outcome } = fixtures[n] as Fixture;
      await startAgain(page);
      await choose('trust', trustPath);
      await choose('receipt', own);
      const found = await shownAfter(page, () => choose('document', pdf), 3);
      const said = verdicts[n] as Verdict;
      t.equal(said.outcome, outcome, name);
      t.strictSame(found, shownFor(said, text, trustText), name);
    }
  });

  await t.test('judges several receipts at once, each with its document', async (t) => {
    const rows = `[...document.querySelectorAll('.several > tbody > tr:not(.details)')].map((row) => [...row.cells].slice(0, 3).map((cell) => cell.textContent))`;
    const names = ['good', 'copy', 'hostile', 'too few', 'proof', 'canary'];
    const chosen = names.flatMap((name) => fixtures.filter((one) => one.name === name));
    const put = (name: string, content: string | Buffer) => {
      writeFileSync(path(name), content);
      return name;
    };
    await again();
    const found = await drop(
      put('fixture.trust', chosen[0]?.trust ?? ''),
      put('contract.pdf', chosen[0]?.document ?? ''),
      put('copy.pdf', chosen[1]?.document ?? ''),
      'document.pdf',
      ...chosen.map((one) => put(`${one.name}.receipt`, one.receipt)),
    );
    t.match(found, { outcome: 'bad', lead: '4 of 8 verdicts are good.', checks: [] });
    const more = `document.querySelector('#outcome .said').textContent`;
    t.match(await page.evaluate(more), /2 are bad\.2 are “Could not tell”\./);
    const label = `document.querySelector('.several button').getAttribute('aria-label')`;
    t.equal(await page.evaluate(label), `Details of ${quoteName('good.receipt')}`);
    t.strictSame(await page.evaluate(rows), [
      ['Good', 'contract.pdf', 'good.receipt'],
      ['Good', 'contract.pdf', 'copy.receipt'],
      ['Good', 'copy.pdf', 'copy.receipt'],
      ['Good', 'contract.pdf', 'hostile.receipt'],
      ['Bad', 'contract.pdf', 'too few.receipt'],
      ['Could not tell', 'contract.pdf', 'proof.receipt'],
      ['Bad', 'contract.pdf', 'canary.receipt'],
      ['Could not tell', 'document.pdf', 'no matching receipt among the files'],
    ]);
    const sealed = `[...document.querySelectorAll('tr[data-outcome=bad]')].map((row) => row.cells[3].textContent + row.cells[4].textContent)`;
    t.strictSame(await page.evaluate(sealed), ['––', '––'], 'nothing is stated of what is bad');
    await page.evaluate(`document.querySelectorAll('.several button')[4].click()`);
    const hostile = `(({ cells }) => [cells[4].textContent.length, document.querySelectorAll('script').length])([...document.querySelectorAll('tr[data-outcome]')][3])`;
    const [chars, scripts] = (await page.evaluate(hostile)) as [number, number];
    t.ok(chars <= 120, 'a long reference is shortened in the table');
    t.equal(scripts, 1, 'markup in a reference is text');
    const whole = `[...document.querySelectorAll('tr.details')][3].textContent`;
    t.ok(String(await page.evaluate(whole)).includes(visible(HOSTILE)), 'and is shown whole in the details');
    t.notMatch(await page.evaluate('document.body.textContent'), /[\u202a-\u202e\u200b\0]/, 'nothing hides');
    const opened = `document.querySelector('tr.details:not([hidden])').textContent`;
    t.match(await page.evaluate(opened), /The log did not sign this receipt as the trust file requires\./);
    await again();
    const two = await drop('fixture.trust', 'contract.pdf', 'good.receipt', 'hostile.receipt');
    t.match(two, { outcome: 'good', lead: 'All 2 verdicts are good.' }, 'of one document');
    await again();
  });

  await t.test('shows each time-stamp of an evidence record, and until when it holds', async (t) => {
    const { fixture, initial, record, other, ofOther } = await makeRenewed();
    const files = { 'r.pdf': fixture.document, 'r.receipt': fixture.receipt, 'r.trust': fixture.trust };
    for (const [name, content] of Object.entries({
      ...files,
      ...{ 'r.ers': record, 'other.ers': ofOther, 'initial.ers': initial, 'other.receipt': other },
    }))
      writeFileSync(path(name), content);
    const at = Date.UTC(2045, 0);
    await page.evaluate(`window.now = Date.now; Date.now = () => ${at};`);
    const lines = `[...document.querySelectorAll('.renewals summary > span:not(.hidden)')].map(({ textContent }) => textContent)`;
    const holds = `document.querySelector('#holds')?.textContent`;
    const note = `document.querySelector('#report').textContent.includes(${JSON.stringify(english.record.note)})`;
    for (const [name, der, outcome] of [
      ['r.ers', record, 'good'],
      ['other.ers', ofOther, 'bad'],
    ] as const) {
      await again();
      const found = await drop(...Object.keys(files), name);
      const evidence = { record: der, at };
      const inNode = verifyReceiptText(fixture.receipt, fixture.trust, digestsOf(fixture.document), evidence);
      t.equal(inNode.outcome, outcome);
      t.strictSame(found, shownFor(inNode, fixture.receipt, fixture.trust), name);
      if (outcome === 'bad') {
        t.equal(found.lead, 'The evidence record does not prove this receipt.');
        t.equal(await page.evaluate(holds), undefined);
        continue;
      }
      t.strictSame(await page.evaluate(lines), [
        '21 November 2026, 23:38:51 UTC – the checkpoint in the receipt existed (built-in)',
        '22 November 2026, 23:38:51 UTC – the time-stamp before existed (second)',
        '1 January 2040, 00:00:00 UTC – the checkpoint and all time-stamps before existed; sealed again with SHA-384 (third)',
      ]);
      t.equal(await page.evaluate(note), true);
      t.match(await page.evaluate(holds), /^The record is valid until 1 January 2051, 00:00:00 UTC/);
    }
    t.match(await drop('r.ers'), {
      ...REFUSED,
      faults: ['“r.receipt” has two evidence records: “other.ers” and “r.ers”'],
    });
    await again();
    const both = await drop(...Object.keys(files), 'other.ers', 'other.receipt', 'r.ers');
    t.match(both, { outcome: 'good' }, 'each receipt has its own, whatever the order');
    t.equal(await page.evaluate(`document.querySelectorAll('.renewals').length`), 2);
    t.match(await drop('initial.ers'), {
      ...REFUSED,
      faults: ['“r.receipt” has two evidence records: “r.ers” and “initial.ers”'],
    });
    await again();
    t.match(await drop(...Object.keys(files), 'receipt.json', 'other.ers'), {
      ...REFUSED,
      faults: ['“other.ers” is not the evidence record of any of these receipts'],
    });
    await page.evaluate('Date.now = () => Date.UTC(2026, 10, 30)');
    for (const [name, outcome] of [
      ['initial.ers', 'good'],
      ['r.ers', 'unknown'],
    ] as const) {
      await again();
      t.match(await drop(...Object.keys(files), name), { outcome });
      t.equal(await page.evaluate(note), false, 'nothing is said of a renewal');
    }
    await page.evaluate('Date.now = window.now');
  });

  await t.test('compares the trust file with the digest that was given', async (t) => {
    await again();
    await drop(...GENUINE);
    const compared = (text: string) =>
      page.evaluate(`{
        const input = document.querySelector('#expected');
        input.value = ${JSON.stringify(text)};
        input.dispatchEvent(new Event('input'));
        document.querySelector('#compared').className;
      }`);
    const own = sha256Of(trust);
    t.equal(await compared(own), 'same');
    t.equal(await compared(` SHA-256: ${own.toUpperCase().replace(/(.{8})/g, '$1 ')}\n`), 'same');
    t.equal(await compared(sha256Of('')), 'different');
    t.equal(await compared(own.slice(1)), 'partial');
    t.equal(await compared(''), '');
  });

  await t.test(
    'turns the verdict under a trust file that is not the one with the given digest',
    async (t) => {
      await again();
      t.strictSame(await drop(...GENUINE), good);
      const type = (text: string) =>
        page.evaluate(`{
        const input = document.querySelector('#expected');
        input.focus();
        input.value = ${JSON.stringify(text)};
        input.dispatchEvent(new Event('input'));
      }`);
      const shown = () => page.evaluate(RESULT) as Promise<Shown>;
      const seen = `[...document.querySelectorAll('#report h2')].filter((one) => one.checkVisibility()).map(({ textContent }) => textContent)`;
      const wrong = sha256Of('another trust file');
      await type(wrong);
      const turned = { heading: 'Could not tell', outcome: 'unknown', lead: english.trust.isOther.lead };
      t.match(await shown(), turned);
      t.strictSame(await page.evaluate(seen), ['Trust file', 'This check'], 'nothing else is stated');
      t.match(await page.evaluate('document.title'), /^Could not tell/);
      t.equal(await page.evaluate('document.activeElement.id'), 'expected', 'the field keeps the focus');
      await type(wrong.slice(0, 10));
      t.match(await shown(), { heading: 'Could not tell', lead: english.trust.isIncomplete.lead });
      await type(sha256Of(trust));
      t.strictSame(await shown(), good);
      await type(wrong);
      await again();
      t.match(await drop(...GENUINE), turned, 'the digest is kept');
      await again();
      t.match(
        await drop('document.pdf', 'receipt.json', 'forged.json', 'trust.json'),
        turned,
        'of several, too',
      );
      await type('');
      t.match(await shown(), { heading: 'Could not tell', lead: '1 of 2 verdicts is good.' });
      await again();
      t.strictSame(await drop(...GENUINE), good);
    },
  );

  await t.test('sets the local time apart from UTC', async (t) => {
    await page.inTimeZone('Pacific/Auckland');
    await again();
    await drop(...GENUINE);
    const text = `document.querySelector('#report').textContent`;
    t.match(await page.evaluate(text), /UTC \d+ \w+ \d+, [\d:]+ \(Pacific\/Auckland\)/);
    const parts = `[...document.querySelectorAll('time')].map((one) => {
      const [end, next] = [one.getBoundingClientRect(), one.parentElement.querySelector('time ~ .quiet')?.getBoundingClientRect()];
      return next === undefined || next.top >= end.bottom || next.left - end.right > 2;
    })`;
    t.notOk(((await page.evaluate(parts)) as boolean[]).includes(false), 'on the screen, too');
    await page.inTimeZone('UTC');
  });

  await t.test('says that a damaged receipt is damaged, and names its checks in plain words', async (t) => {
    const text = encodeReceipt(receipt);
    for (const [name, damaged] of [
      ['cut.receipt.json', text.slice(0, -300)],
      ['cut.json', text.slice(0, -300)],
      ['lost.receipt.json', '\0'.repeat(500)],
    ] as const) {
      writeFileSync(path(name), damaged);
      await again();
      t.match(await drop('document.pdf', name, 'trust.json'), {
        heading: 'Bad',
        lead: 'This receipt is damaged or was altered.',
      });
    }
    await again();
    await drop(...GENUINE);
    const names = `[...document.querySelectorAll('.check .detail b')].map(({ textContent }) => textContent)`;
    t.strictSame(
      await page.evaluate(names),
      good.checks.map((check) => english.checks.names[(check as { name: CheckName }).name]),
    );
    const said = await page.evaluate(`document.querySelector('.checks').innerText`);
    t.notMatch(said, /quorum|checkpoint|leaf|manifest|epoch/i);
  });

  await t.test('detects a changed document and a wrong trust file', async (t) => {
    t.match(await shownOf('changed.pdf', encodeReceipt(receipt)), {
      outcome: 'bad',
      checks: [{}, { name: 'document', outcome: 'failed' }],
    });
    t.match(await shownOf('document.pdf', encodeReceipt(receipt), '{}'), {
      outcome: 'unknown',
      checks: [{ name: 'trust', outcome: 'unknown' }],
    });
  });

  await t.test('accepts dropped files in any order, together or one by one', async (t) => {
    for (const order of [GENUINE, GENUINE.toReversed()]) {
      const { title: heading } = english;
      t.match(await again(), { heading, outcome: 'waiting', lead: MISSING_ALL });
      const hints = `[...document.querySelectorAll('#outcome li')].map((item) => item.textContent)`;
      t.strictSame(await page.evaluate(hints), [], 'each slot says it');
      t.strictSame(await drop(...order), good, order.join(', '));
      await again();
      const [first = '', second = '', third = ''] = order;
      t.match(await drop(first), { heading, outcome: 'waiting', trust: '', checks: [] });
      const withoutThird = await drop(second);
      if (third === 'trust.json') {
        t.match(withoutThird, { heading, outcome: 'waiting', lead: 'The trust file is still missing.' });
        t.strictSame(await page.evaluate(hints), hintsOf('trust'));
      } else t.match(withoutThird, { outcome: 'unknown', lead: GENUINE_ALONE });
      t.strictSame(await drop(third), good, `${order.join(', then ')}`);
    }
  });

  await t.test('shows no verdict on a forger’s files, in whatever order they come', async (t) => {
    const names = [...GENUINE, 'forged.json', 'Anhang 3.pdf'];
    for (const order of [names, names.toReversed()]) {
      await again();
      const { faults, ...shown } = await drop(...order);
      t.strictSame(shown, REFUSED, order.join(', '));
      const of = (names: string[]) => order.filter((name) => names.includes(name)).map((name) => `“${name}”`);
      t.strictSame(faults, [
        '“Anhang 3.pdf” is named as a PDF, but is a trust file',
        `2 files for one trust file: ${of(['trust.json', 'Anhang 3.pdf']).join(', ')}`,
      ]);
    }
  });

  await t.test('withdraws a verdict when files are dropped after it, until they are removed', async (t) => {
    await again();
    t.strictSame(await drop(...GENUINE), good);
    t.strictSame(await drop('forged.json', 'folder/trust.json'), {
      ...REFUSED,
      faults: ['2 files for one trust file: “trust.json”, “trust.json”'],
    });
    const listed = await page.evaluate(
      `[...document.querySelectorAll('#files li')].map((item) => item.textContent)`,
    );
    t.match(listed, [/^Document/, /^Receipt/, sha256Of(trust), /forged/, sha256Of(forgers.trust)]);
    t.match(await shownAfter(page, () => remove(page, 5)), {
      outcome: 'unknown',
      lead: '1 of 2 verdicts is good.',
    });
    t.strictSame(await shownAfter(page, () => remove(page, 4)), good);
    t.match(await drop('trust.json'), {
      ...REFUSED,
      faults: [
        '“trust.json” and “trust.json” are the same file, given twice: remove one',
        '2 files for one trust file: “trust.json”, “trust.json”',
      ],
    });
    t.strictSame(await shownAfter(page, () => remove(page, 3)), good);
    const alone = await shownAfter(page, () => remove(page, 1));
    t.match(alone, { heading: 'Could not tell', outcome: 'unknown', lead: GENUINE_ALONE });
    const remedy = await page.evaluate(`document.querySelector('#outcome .remedy').textContent`);
    t.match(remedy, /Choose the document too/);
    t.match(alone.checks, [
      { name: 'receipt', outcome: 'passed' },
      { name: 'document', outcome: 'unknown' },
    ]);
  });

  await t.test('refuses a file that is not what its name says', async (t) => {
    for (const [names, fault] of [
      [['Anhang 3.pdf'], '“Anhang 3.pdf” is named as a PDF, but is a trust file'],
      [['document.json'], '“document.json” is named as JSON, but is a PDF'],
      [['both.json'], '“both.json” can be read as a receipt and as a trust file'],
      [['polyglot.json'], '“polyglot.json” can be read as a document and as a trust file'],
      [['folder'], /^“folder” cannot be read: is it a folder\? \(.*\)$/],
      [[...GENUINE, 'twice.json'], '2 files for one trust file: “trust.json”, “twice.json”'],
      [
        [...GENUINE, 'receipt.json'],
        /^“receipt.json” and “receipt.*” are the same file, given twice: remove one$/,
      ],
      [
        [...GENUINE, '\u202efdp.exe<b>&amp;\u0007.json'],
        '2 files for one trust file: “trust.json”, “\\u{202e}fdp.exe<b>&amp;\\u{7}.json”',
      ],
      [Array.from({ length: 102 }, () => 'trust.json'), 'At most 101 files are checked: 1 more is ignored'],
    ] as const) {
      await again();
      const { faults, ...shown } = await drop(...names);
      t.strictSame(shown, REFUSED, names.join(', '));
      t.ok(
        faults.some((one) => (typeof fault === 'string' ? one === fault : fault.test(one))),
        `${fault} is among ${faults.join('; ')}`,
      );
    }
    await again();
    t.match(await drop('document.pdf', 'receipt.json', 'twice.json'), { outcome: 'unknown' });
    await again();
    t.match(await drop(...GENUINE, 'hidden.json'), { outcome: 'unknown', lead: '1 of 2 verdicts is good.' });
  });

  await t.test('refuses a file that was chosen for the wrong role', async (t) => {
    for (const [role, name, fault] of [
      ['document', 'trust.json', '“trust.json” was chosen as the document, but is a trust file'],
      ['receipt', 'trust.json', '“trust.json” was chosen as the receipt, but is a trust file'],
      ['trust', 'receipt.json', '“receipt.json” was chosen as the trust file, but is a receipt'],
      ['trust', 'document.pdf', '“document.pdf” was chosen as the trust file, but is a document'],
    ] as const) {
      await again();
      t.match(await shownAfter(page, () => choose(role, path(name))), { ...REFUSED, faults: [fault] });
    }
    await again();
    await drop('trust.json');
    t.equal(await page.evaluate(`document.querySelector('input[name=trust]').disabled`), true);
    await shownAfter(page, () => choose('receipt', path('receipt.json')));
    t.match(await shownAfter(page, () => choose('document', path('document.pdf'))), good);
  });

  await t.test('ignores a file that is read too late', async (t) => {
    await again();
    // Reading a file ends when the test says so.
    await page.evaluate(`{
      const read = Blob.prototype.arrayBuffer;
      window.held = [];
      Blob.prototype.arrayBuffer = function () {
        return new Promise((resolve) => window.held.push(() => resolve(read.call(this))));
      };
    }`);
    await page.drop(...GENUINE.map(path));
    await page.until('held.length === 3');
    await page.drop(path('folder/trust.json'));
    await page.until('held.length === 4');
    t.match(await page.evaluate(RESULT), { outcome: 'reading', trust: '', checks: [] });
    // The last one first.
    t.match(await shownAfter(page, () => page.evaluate('held.toReversed().forEach((go) => go())')), {
      ...REFUSED,
      faults: ['2 files for one trust file: “trust.json”, “trust.json”'],
    });

    await again();
    await page.evaluate('held.length = 0');
    await page.drop(...['document.pdf', 'forged.json', 'folder/trust.json'].map(path));
    await page.until('held.length === 3');
    t.match(await again(), { outcome: 'waiting', lead: MISSING_ALL });
    await page.drop(...GENUINE.map(path));
    await page.until('held.length === 6');
    await page.evaluate('held.slice(3).forEach((go) => go())');
    await page.until('held.length === 7');
    t.match(await page.evaluate(RESULT), { outcome: 'reading', trust: '', checks: [] });
    t.strictSame(await shownAfter(page, () => page.evaluate('held.slice(3).forEach((go) => go())')), good);
    await page.evaluate(
      'held.slice(0, 3).forEach((go) => go()), new Promise((done) => setTimeout(done, 100))',
    );
    t.strictSame(await page.evaluate(RESULT), good, 'what was given before the start stays forgotten');

    await again();
    await page.evaluate('held.length = 0');
    await page.drop(...GENUINE.map(path));
    await page.until('held.length === 3');
    await page.evaluate('held.forEach((go) => go())');
    await page.until('held.length === 4');
    await page.drop(path('folder/trust.json'));
    await page.until('held.length === 5');
    t.match(await shownAfter(page, () => page.evaluate('held[4]()')), REFUSED);
    await page.evaluate('held[3](), new Promise((done) => setTimeout(done, 100))');
    t.match(await page.evaluate(RESULT), REFUSED, 'a document that is hashed late says nothing');
  });

  t.strictSame(page.requests, [PAGE.href], 'it asked for nothing but itself');
  t.ok(readFileSync(PAGE).length < 350_000, 'and is small enough for a letter');
  t.strictSame(page.complaints, []);

  await t.test('cannot send anything', async (t) => {
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
    t.ok(page.complaints.length >= 2, 'both were complained of');
    t.ok(page.complaints.every((text) => /Content Security Policy/.test(text)));
  });
});

t.test('the bundled package gives the same verdict on every changed receipt', async (t) => {
  const script = await bundle(`export { verifyReceiptText } from 'pdfseald/verify';`);
  const policy = `default-src 'none'; script-src ${hashOfSource(script)}`;
  const html = `<!doctype html><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="${policy}"><script>${script}</script>`;
  await page.navigate(pathToFileURL(join(t.testdir({ 'page.html': html }), 'page.html')).href);

  const texts = [encodeReceipt(receipt), ...changedReceipts()];
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

/** What `pdfseal verify --json` prints of each. */
async function verdictsOfCommand(names: readonly Triple[]): Promise<Verdict[]> {
  const verdicts: Verdict[] = [];
  for (const [document, receipt, trust] of names) {
    const { stdout } = await pdfseal(['verify', document, receipt, '--trust', trust, '--json']);
    verdicts.push(JSON.parse(stdout) as Verdict);
  }
  return verdicts;
}

/** Receipts with a few octets changed: of the text, of the token, of a signature line, of a certificate. */
function changedReceipts(): string[] {
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
  return fc.sample(mutation, mutations());
}
