/** The console for every reader: on every screen, in both colour schemes, by keyboard, and with assistive technology. */
import t from 'tap';
import type { Facts } from '../../../src/health/facts.ts';
import type { AdminStatus } from '../../../src/health/statusSchema.ts';
import { openPage } from '../../page/chromium.ts';
import { FOCUSED } from '../../page/looks.ts';
import { fillHistory } from '../fill.ts';
import { sampleStatus } from '../sampleStatus.ts';
import { openTestConsole } from '../testConsole.ts';
import { look } from './everyScreen.ts';

/** Everything that can be wrong, with names that want to be something else. */
function troubled(now: number): AdminStatus {
  const well = sampleStatus({}, now);
  const { scanner, witnesses, timestamps } = well;
  const hostile = '<script>alert(1)</script>\u202egnp.exe';
  const changed: Facts = {
    ...well,
    ...(scanner && {
      scanner: { ...scanner, trouble: 'no_answer', detail: `clamd does not answer (${hostile})` },
    }),
    partitions: {
      ...well.partitions,
      members: [
        ...well.partitions.members.map((one) => ({
          ...one,
          state: 'pin_refused' as const,
          last_error: hostile,
        })),
        {
          ...well.partitions.members[0],
          name: `west/${'x'.repeat(500)}`,
        } as AdminStatus['partitions']['members'][0],
      ],
    },
    ...(timestamps && {
      timestamps: {
        ...timestamps,
        authorities: [{ name: hostile, tokens: 0, failures: 9, trouble: 'authority_unreachable' }],
      },
    }),
    ...(witnesses && {
      witnesses: {
        ...witnesses,
        members: witnesses.members.map((one) => ({
          ...one,
          state: 'failing' as const,
          detail: 'ש'.repeat(512),
        })),
      },
    }),
    certificates: [
      { authority: 'acme', role: 'time-stamping', state: 'missing', urgency: 'urgent', detail: hostile },
    ],
    webhooks: { ...well.webhooks, failing: 2, dead_letters: 31 },
    upkeep: { chores: well.upkeep.chores },
    config: { ...well.config, pending: ['kms.sessions', 'http.listen'] },
  };
  return sampleStatus(changed, now);
}

t.test('the screen Now is readable without jobs, after a busy day and with every trouble', async (t) => {
  const clock = { now: Date.now() };
  let isTroubled = false;
  const test = await openTestConsole(t, {
    clock: () => clock.now,
    read: () => (isTroubled ? troubled(clock.now) : sampleStatus({}, clock.now)),
  });
  const page = await test.browse(t);
  const show = (path = '/') => page.navigate(`${test.url}${path}`);

  await show();
  await look(t, page, 'without any job');
  fillHistory(test.console.history, clock);
  await show('/?span=24h');
  await look(t, page, 'busy for a day');
  t.match(await page.evaluate(`document.querySelector('h1').textContent`), 'Sealing normally');
  isTroubled = true;
  await show();
  await look(t, page, 'with every trouble');
  t.equal(await page.evaluate(`document.querySelector('h1').textContent`), 'Documents cannot be sealed');
  t.match(await page.evaluate(`document.querySelector('.concerns').textContent`), /alert\(1\).*\\u202e/s);
  t.equal(await page.evaluate(`document.querySelectorAll('main script').length`), 0);
  await show('/nothing');
  await look(t, page, 'a page that is not there');
  t.strictSame(
    page.complaints.filter((text) => !/404/.test(text)),
    [],
  );
});

t.test('the console can be used by keyboard alone, from the login to the logout', async (t) => {
  const test = await openTestConsole(t);
  const page = await test.browse(t, 'auditor');
  await page.emulate(1280, 'light');
  const order: string[] = [];
  for (let n = 0; n < 20; n += 1) {
    await page.press('Tab');
    const { name, isVisible } = (await page.evaluate(FOCUSED)) as { name: string; isVisible: boolean };
    t.ok(isVisible, `the focus is seen on ${name}`);
    order.push(name);
    if (name === 'the last 24 hours') break;
  }
  const menu = `Array.from(document.querySelectorAll('header nav a'), ({ textContent }) => textContent)`;
  t.strictSame(order, [
    'Skip to the content',
    ...((await page.evaluate(menu)) as string[]),
    ...['Log out', 'the last hour', 'the last 24 hours'],
  ]);
  await page.press('Enter');
  await page.until(`location.search === '?span=24h' && document.readyState === 'complete'`);
  await page.evaluate(`document.querySelector('.person button').focus()`);
  await page.press('Enter');
  await page.until(`location.pathname === '/logout' && document.readyState === 'complete'`);
  t.equal(await page.evaluate(`document.querySelector('h1').textContent`), 'You are logged out');
});

t.test('the button that logs out stays on one line next to a long name', async (t) => {
  const test = await openTestConsole(t);
  const page = await test.browse(t, 'administrator', 'Anna-Maria Freifrau von Hohenstein zu Waldenburg');
  for (const width of [320, 360]) {
    await page.emulate(width, 'light');
    const lines = `{
      const range = document.createRange();
      range.selectNodeContents(document.querySelector('.person button'));
      range.getClientRects().length;
    }`;
    t.equal(await page.evaluate(lines), 1, `${width} px`);
  }
});

t.test('a form is sent once, however often its button is clicked', async (t) => {
  const test = await openTestConsole(t);
  const page = await openPage(t, test.link());
  // The browser stays on the page, so what it would send can be counted.
  await page.evaluate(`window.sent = 0; addEventListener('submit', (event) => {
    if (!event.defaultPrevented) window.sent += 1;
    event.preventDefault();
  })`);
  const click = () => page.evaluate(`document.querySelector('main button').click()`);
  const isDisabled = `document.querySelector('main button').disabled`;
  await page.evaluate(
    `{ const button = document.querySelector('main button'); button.click(); button.click() }`,
  );
  await page.until(isDisabled);
  await click();
  t.equal(await page.evaluate('window.sent'), 1);
  await page.evaluate(`void dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))`);
  t.equal(await page.evaluate(isDisabled), false, 'once the browser goes back to the page');
  await click();
  t.equal(await page.evaluate('window.sent'), 2);
  t.strictSame(page.complaints, []);
});

t.test('the page keeps itself current, and keeps what the reader had opened or focused', async (t) => {
  let jobs = 3;
  const test = await openTestConsole(t, {
    read: () => {
      const status = sampleStatus();
      return { ...status, queue: { ...status.queue, queued: jobs, sealing: 0 } };
    },
    beatMs: 50,
  });
  const page = await test.browse(t, 'auditor');
  await page.evaluate(`window.was = true; document.querySelector('.choice a').focus()`);
  jobs = 4711;
  await page.until(`document.querySelector('.figures').textContent.includes('4,711')`);
  t.equal(await page.evaluate('window.was'), true, 'without a new page');
  t.strictSame(page.complaints, []);
});
