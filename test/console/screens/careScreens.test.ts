/** Upkeep, drills, epochs and the configuration in a browser. */
import t from 'tap';
import type { ShownSetting } from '../../../src/console/sources.ts';
import type { AdminStatus } from '../../../src/health/statusSchema.ts';
import { HOSTILE } from '../../support/receipts.ts';
import { openDrills } from '../drilledConsole.ts';
import { sampleEpochs, sampleStatus } from '../sampleStatus.ts';
import { openTestConsole } from '../testConsole.ts';
import { look, tabTo } from './everyScreen.ts';

t.test('a drill can be started by keyboard, and the pages fit every screen', async (t) => {
  const { test } = await openDrills(t);
  const page = await test.browse(t, 'operator');
  await page.navigate(`${test.url}/care`);
  await look(t, page, 'upkeep and drills');
  await page.emulate(1280, 'light');
  await tabTo(t, page, 'sure');
  await page.press('Space');
  await tabTo(t, page, 'Take out of service');
  await page.press('Enter');
  await page.until(`/is out of service/.test(document.querySelector('[role=status]')?.textContent)`);
  await look(t, page, 'a partition that is out');
  t.strictSame(page.complaints, []);
});

t.test('hostile names are shown safely on every screen', async (t) => {
  const well = sampleStatus();
  const [member] = well.partitions.members;
  const members = [
    { ...member, name: HOSTILE, state: 'withdrawn' },
    { ...member, name: HOSTILE },
  ];
  const [epoch] = sampleEpochs();
  const keys = [
    { region: HOSTILE, key_label: HOSTILE, partition: HOSTILE, algorithm: 'mldsa44', software: true },
  ];
  const many = Array.from({ length: 600 }, (_, n) => ({
    key: `clients.c${n}.quotas`,
    value: '"test"',
    source: 'file',
    changed: true,
  }));
  const odd = { key: HOSTILE, value: HOSTILE, source: 'file', changed: true, next: { value: HOSTILE } };
  const nothing = async () => '';
  const test = await openTestConsole(t, {
    drills: { takeOut: nothing, putBack: nothing, spare: [HOSTILE] },
    backups: {
      state: () => ({
        is: 'failed',
        began_at: new Date(0).toISOString(),
        ended_at: new Date(0).toISOString(),
        reason: HOSTILE,
      }),
      ask: async () => true,
    },
    read: () =>
      ({
        ...well,
        upkeep: { chores: well.upkeep.chores },
        partitions: { ...well.partitions, members },
        config: { ...well.config, file: HOSTILE, pending: [HOSTILE] },
      }) as AdminStatus,
    epochs: async () => [{ ...epoch, state: 'in force', keys }] as ReturnType<typeof sampleEpochs>,
    settings: () => [odd, ...many] as ShownSetting[],
  });
  const page = await test.browse(t);
  for (const path of ['/care', '/care/epochs', '/care/configuration?keys=all']) {
    await page.navigate(`${test.url}${path}`);
    await look(t, page, path);
    t.equal(await page.evaluate(`document.querySelectorAll('main script').length`), 0);
  }
  t.match(await page.evaluate(`document.querySelector('#settings').textContent`), /Showing 500 of 601/);
  t.strictSame(page.complaints, []);
});
