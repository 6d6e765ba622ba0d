/**
 * Makes docs/images/console.png, the first screen of a service that is well but for one thing, and docs/images/proposal.png, what waits
 * for a second administrator.
 */
import { writeFileSync } from 'node:fs';
import t from 'tap';
import { fillHistory } from './fill.ts';
import { sampleProposal } from './sampleProposal.ts';
import { sampleEpochs, sampleStatus } from './sampleStatus.ts';
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
  epochs: async () => sampleEpochs(clock.now).slice(1, 2),
  epochActs: sampleProposal(),
  read: () => ({ ...well, upkeep: { ...well.upkeep, backup: upkeep } }),
});
fillHistory(test.console.history, clock);
const page = await test.browse(t, 'administrator', 'Bert Example');
await page.emulate(1280, 'light', 1160);
const keep = async (name: string) =>
  writeFileSync(new URL(`../../docs/images/${name}`, import.meta.url), await page.screenshot());
await keep('console.png');
const { cookie, token } = test.signedIn('administrator', 'Anna Example');
await test.post('/care/epochs/propose', { act: 'plan', from: '2027-01-01T06:00', token }, { cookie });
await page.emulate(1280, 'light', 560);
await page.navigate(`${test.url}/care/epochs`);
await keep('proposal.png');
t.end();
