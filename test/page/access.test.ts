/** The page for every reader: by keyboard, on every screen, in both colour schemes, and with assistive technology. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { type Fixture, makeFixtures, makeRenewed } from '../support/receipts.ts';
import { makeSealedPdfs, SEALED_TRUST } from '../support/sealedPdfs.ts';
import { openPage } from './chromium.ts';
import { AXE, FOCUSED, LAYOUT, VIOLATIONS } from './looks.ts';

const PAGE = new URL('../../dist/verify.html', import.meta.url).href;
const SCREENS = [
  { width: 360, scheme: 'light' },
  { width: 1280, scheme: 'dark' },
  { width: 1920, scheme: 'light' },
] as const;
/** The narrowest phone and a desk; and what lies between and beyond, for the richest states. */
const WIDTHS = [320, 1200];
const MORE_WIDTHS = [360, 768, 1100, 1280, 1920, 2560];

const fixtures = await makeFixtures();

function fixtureOf(name: string): Fixture {
  const found = fixtures.find((one) => one.name === name);
  if (found === undefined) throw new Error(`no ${name}`);
  return found;
}

t.test('the page', async (t) => {
  const dir = t.testdir({});
  const page = await openPage(t, PAGE);
  const put = (name: string, content: string | Buffer) => {
    writeFileSync(join(dir, name), content);
    return join(dir, name);
  };
  /** Drops the files, and waits for what is said of them; everything that can be opened is open. */
  const show = async (...files: string[]) => {
    await page.evaluate(`document.querySelector('button[type=reset]').click()`);
    if (files.length > 0) await page.drop(...files);
    await page.until(
      `document.querySelectorAll('#files li').length === ${files.length} && !['', 'reading'].includes(document.querySelector('#outcome').className)`,
    );
    await page.evaluate(`for (const one of document.querySelectorAll('#report details')) one.open = true;
      for (const one of document.querySelectorAll('td button[aria-expanded=false]')) one.click();`);
  };
  const filesOf = ({ document, receipt, trust }: Fixture) => [
    put('contract.pdf', document),
    put('contract.pdf.receipt.json', receipt),
    put('trust.json', trust),
  ];
  const several = () => [
    ...filesOf(fixtureOf('good')),
    put('offer.pdf', '%PDF-1.7 without a receipt'),
    ...['altered', 'hostile', 'proof'].map((name) => put(`${name}.receipt`, fixtureOf(name).receipt)),
  ];
  const renewed = await makeRenewed();
  const [sealed] = await makeSealedPdfs();
  if (sealed === undefined) throw new Error('nothing was sealed');
  const states: [name: string, files: () => string[]][] = [
    ['empty', () => []],
    ['refused', () => [...filesOf(fixtureOf('good')), put('other.json', fixtureOf('sandbox').trust)]],
    ['alone', () => filesOf(fixtureOf('good')).slice(1)],
    ['good', () => filesOf(fixtureOf('hostile'))],
    ['bad', () => filesOf(fixtureOf('other document'))],
    ['post-quantum', () => filesOf(fixtureOf('post-quantum'))],
    ['renewed', () => [...filesOf(renewed.fixture), put('contract.pdf.ers', Buffer.from(renewed.record))]],
    ['sealed PDF', () => [put('contract.sealed.pdf', sealed.pdf), put('trust.json', SEALED_TRUST)]],
    ['several', several],
  ];

  await t.test('has no fault that axe knows, and tears no word, on any screen', async (t) => {
    await page.evaluate(AXE);
    // When the evidence record was renewed twice, and still holds.
    await page.evaluate('Date.now = () => Date.UTC(2045, 0)');
    for (const [name, files] of states) {
      await show(...files());
      // What can be wrong with colours and names is the same on every screen, so only the richest states are looked at on all.
      const isRich = ['renewed', 'several'].includes(name);
      // Those that show nothing that another state does not show are looked at for their layout alone.
      const screens = ['good', 'bad', 'post-quantum'].includes(name)
        ? []
        : SCREENS.slice(0, name === 'renewed' ? 3 : 2);
      for (const { width, scheme } of screens) {
        await page.emulate(width, scheme);
        t.strictSame(await page.evaluate(VIOLATIONS), [], `${name}, ${width} px, ${scheme}`);
      }
      const displays = `[...new Set([...document.querySelectorAll('table')].map((one) => getComputedStyle(one).display))].join()`;
      await page.emulate(1280, 'light');
      t.match(await page.evaluate(displays), /^(table)?$/, `${name}: its tables are tables`);
      for (const width of isRich ? [...WIDTHS, ...MORE_WIDTHS] : WIDTHS) {
        await page.emulate(width, 'light');
        t.strictSame(await page.evaluate(LAYOUT), { torn: [], wide: [] }, `${name}, ${width} px`);
      }
    }
  });

  await t.test('the check detects a torn word and an element that is too wide', async (t) => {
    await show(...filesOf(fixtureOf('good')));
    await page.emulate(320, 'light');
    await page.evaluate(
      `document.body.style.wordBreak = 'break-all'; find = document.querySelector('#title'); find.style.width = '400px'`,
    );
    const { torn, wide } = (await page.evaluate(LAYOUT)) as { torn: string[]; wide: string[] };
    await page.evaluate(`document.body.style.wordBreak = find.style.width = ''`);
    t.ok(torn.length > 5);
    t.match(wide, [/^<p id="title"/]);
  });

  await t.test('breaks a long name in a fault', async (t) => {
    const { trust } = fixtureOf('good');
    const long = ['a', 'b'].map((char, n) => put(`${char.repeat(90)}.json`, `${trust}${' '.repeat(n)}`));
    await show(...long);
    await page.emulate(320, 'light');
    t.match(await page.evaluate(LAYOUT), { wide: [] });
    t.match(await page.evaluate(`document.querySelector('#faults').textContent`), /a{50}/);
  });

  await t.test('can be used by keyboard alone', async (t) => {
    await page.emulate(1280, 'light');
    await show();
    await page.navigate(PAGE);
    await page.drop(...filesOf(fixtureOf('good')));
    await page.until(`document.querySelector('#outcome').className === 'good'`);
    const order: string[] = [];
    for (let n = 0; n < 40; n += 1) {
      await page.press('Tab');
      const { name, isVisible } = (await page.evaluate(FOCUSED)) as { name: string; isVisible: boolean };
      t.ok(isVisible, `the focus is seen on ${name}`);
      order.push(name);
      if (name === 'Print the report') break;
    }
    const checks = order.filter((name) => name.endsWith('(Passed)+') || name.endsWith('(Passed)'));
    t.equal(checks.length, 9, 'each check can be reached');
    t.strictSame(
      order.filter((name) => !checks.includes(name)),
      [
        ...['document', 'receipt', 'record', 'Remove', 'Remove', 'Remove', 'Start again'],
        'Whether the certificate of the time-stamp was revoked is not shown. (Not shown)',
        ...['expected', 'Logs, epochs and time-stamp authorities', 'Print the report'],
      ],
    );
    await page.evaluate(`document.querySelector('.check summary').focus()`);
    await page.press('Enter');
    t.equal(await page.evaluate(`document.querySelector('.check details').open`), true);
    await page.evaluate(`document.querySelectorAll('#files button')[1].focus()`);
    await page.press('Space');
    await page.until(`document.querySelector('#outcome').className === 'unknown'`);
    const { name } = (await page.evaluate(FOCUSED)) as { name: string };
    t.equal(name, 'Start again', 'the focus is not lost with the file');
    await page.press('Enter');
    await page.until(`document.querySelectorAll('#files li').length === 0`);
    const focused = async () => ((await page.evaluate(FOCUSED)) as { name: string }).name;
    t.equal(await focused(), 'document', 'nor with the button');
    await page.drop(...filesOf(fixtureOf('good')).slice(0, 1));
    await page.until(`document.querySelectorAll('#files li').length === 1`);
    await page.evaluate(`document.querySelector('#files button').focus()`);
    await page.press('Space');
    await page.until(`document.querySelectorAll('#files li').length === 0`);
    t.equal(await focused(), 'document', 'nor with the last file');
  });

  await t.test('unfolds everything for print, and folds it again', async (t) => {
    await page.drop(...several());
    await page.until(`document.querySelector('#outcome').className === 'bad'`);
    const folded = `document.querySelectorAll('#report details:not([open]), #report tr[hidden]').length`;
    const before = await page.evaluate(folded);
    t.ok(Number(before) > 4);
    await page.evaluate(`addEventListener('beforeprint', () => { window.onPaper = ${folded}; })`);
    t.match((await page.print()).subarray(0, 5).toString(), '%PDF-');
    t.equal(await page.evaluate('window.onPaper'), 0);
    t.equal(await page.evaluate(folded), before);
  });
  t.strictSame(page.complaints, []);
});
