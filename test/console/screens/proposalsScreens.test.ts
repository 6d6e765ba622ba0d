/** Acts that take two people, in their browsers. */
import t from 'tap';
import { HOSTILE } from '../../support/receipts.ts';
import { openConsole, PLAN, people } from '../proposingPeople.ts';
import { sampleProposal } from '../sampleProposal.ts';
import { openTestConsole } from '../testConsole.ts';
import { look, tabTo } from './everyScreen.ts';

t.test('a proposal is made and approved by pointer and keyboard, on every screen', async (t) => {
  const { test, quorums } = await openConsole(t);
  const done = `/recorded with both names/.test(document.querySelector('[role=status]')?.textContent)`;
  const anna = await test.browse(t, 'administrator', 'Anna');
  await anna.navigate(`${test.url}/care/epochs`);
  await look(t, anna, 'the form that proposes');
  await anna.emulate(1280, 'light');
  await anna.evaluate(`document.querySelector('#proposal button').click()`);
  await anna.until(`/The proposal awaits/.test(document.querySelector('[role=status]')?.textContent)`);
  await look(t, anna, 'what she proposed');
  await anna.emulate(1280, 'light');
  await anna.evaluate(`document.querySelector('#proposal [formaction]').click()`);
  await anna.until(`/The proposal was refused/.test(document.querySelector('[role=status]')?.textContent)`);
  await tabTo(t, anna, 'Propose the next epoch');
  await anna.press('Enter');
  await anna.until(`/The proposal awaits/.test(document.querySelector('[role=status]')?.textContent)`);
  const bert = await test.browse(t, 'administrator', 'Bert');
  await look(t, bert, 'Now');
  await bert.emulate(1280, 'light');
  await tabTo(t, bert, 'To the epochs');
  await bert.press('Enter');
  await bert.until(`location.pathname === '/care/epochs' && document.readyState === 'complete'`);
  await look(t, bert, 'what waits for him');
  await bert.emulate(1280, 'light');
  await tabTo(t, bert, 'sure');
  await bert.press('Space');
  await tabTo(t, bert, 'Approve');
  await bert.press('Enter');
  await bert.until(done);
  t.strictSame(await quorums(), [2, 1]);
  t.strictSame([...anna.complaints, ...bert.complaints], []);
});

t.test('hostile names are shown safely on every screen', async (t) => {
  const keys = [
    { region: HOSTILE, key_label: HOSTILE, partition: HOSTILE, algorithm: 'ed25519' as const },
    ...Array.from({ length: 3 }, (_, n) => ({
      ...{ region: 'a'.repeat(63), key_label: `${'b'.repeat(62)}-${n}`, partition: 'c' },
      algorithm: 'ed25519' as const,
    })),
  ];
  const test = await openTestConsole(t, { epochActs: sampleProposal({ keys, quorum: HOSTILE }) });
  const { send } = people(test);
  await send('Anna-von-und-zu-einem-langen-Namen-der-auf-kein-Telefon-passt-123', 'propose', PLAN);
  const page = await test.browse(t, 'administrator', 'Bert');
  for (const path of ['/', '/care', '/care/epochs']) {
    await page.navigate(`${test.url}${path}`);
    await look(t, page, path);
    t.equal(await page.evaluate(`document.querySelectorAll('main script').length`), 0);
  }
  t.strictSame(page.complaints, []);
});
