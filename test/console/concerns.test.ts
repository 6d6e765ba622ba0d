/** What needs somebody: how the console shows the findings; test/health/healthFindings.test.ts has each of them. */
import t from 'tap';
import { concernsOf } from '../../src/console/concerns.ts';
import { machinery } from '../../src/console/machinery.ts';
import { sampleStatus } from './sampleStatus.ts';
import { openTestConsole } from './testConsole.ts';

const NOW = Date.UTC(2026, 10, 23, 9);
const well = sampleStatus({}, NOW);

const named = (change: Parameters<typeof sampleStatus>[0]) =>
  concernsOf(sampleStatus(change, NOW)).map(({ level, what }) => `${level}: ${what}`);

t.test('without time-stamps there is nothing to renew', async (t) => {
  const { renewal: _, ...noted } = well.upkeep;
  const unstamped = sampleStatus({ upkeep: { ...noted, chores: ['backup', 'check', 'restore_drill'] } }, NOW);
  t.match(String(machinery(well, NOW)), /Renewal/);
  t.notMatch(String(machinery(unstamped, NOW)), /Renewal/);
  t.strictSame(concernsOf(unstamped), []);
});

t.test('a concern leads to the page that helps', async (t) => {
  const [dead] = concernsOf(sampleStatus({ webhooks: { ...well.webhooks, dead_letters: 1 } }, NOW));
  t.match(dead, { what: 'Webhooks', page: '/access/webhooks' });
  const [undone] = concernsOf(sampleStatus({ upkeep: { chores: ['check'] } }, NOW));
  t.match(undone, { what: 'Check', page: '/care' });
});

const broken = (detail: string) =>
  sampleStatus({ ...(well.scanner && { scanner: { ...well.scanner, trouble: 'no_answer', detail } }) }, NOW);

t.test('a concern that stops sealing comes first', async (t) => {
  const scanner = broken('no answer').scanner;
  t.strictSame(named({ ...(scanner && { scanner }), webhooks: { ...well.webhooks, failing: 1 } }), [
    'bad: Virus scanner',
    'warning: Webhooks',
  ]);
});

t.test('a long text is shortened, and can be unfolded', async (t) => {
  const detail = `${'CKR_DEVICE_ERROR '.repeat(30)}THE-END`;
  const test = await openTestConsole(t, { read: () => broken(detail) });
  const { text } = await test.get('/', test.signedIn('auditor'));
  const [, summary = '', rest] =
    /<details id="concern-0"><summary>(.*?)<\/summary>(.*?)<\/details>/s.exec(text) ?? [];
  t.match(summary, /CKR.*…/s);
  t.notMatch(summary, /THE/);
  t.match(rest, /THE-.*END/s, 'in full');
});
