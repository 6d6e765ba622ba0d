/** Makes docs/images/console.png: the first screen of a service that is well but for one thing. */
import { writeFileSync } from 'node:fs';
import t from 'tap';
import { fillHistory } from './fill.ts';
import { sampleStatus } from './sampleStatus.ts';
import { openTestConsole } from './testConsole.ts';

const clock = { now: Date.now() };
const upkeep = {
  finished_at: new Date(clock.now - 50 * 3_600_000).toISOString(),
  good: true,
  tree_size: 47_002,
};
const well = sampleStatus({}, clock.now);
const test = await openTestConsole(t, {
  clock: () => clock.now,
  read: () => ({ ...well, upkeep: { ...well.upkeep, backup: upkeep } }),
});
fillHistory(test.console.history, clock);
const page = await test.browse(t);
await page.emulate(1280, 'light', 1160);
writeFileSync(new URL('../../docs/images/console.png', import.meta.url), await page.screenshot());
t.end();
