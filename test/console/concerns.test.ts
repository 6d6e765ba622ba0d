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

t.test('each trouble is a concern with a remedy', async (t) => {
  const [first, second] = well.partitions.members;
  if (first === undefined || second === undefined) throw new Error('no partitions');
  const lost = { ...first, state: 'key_lost' as const, last_error: 'CKR_KEY_HANDLE_INVALID' };
  t.strictSame(named({ partitions: { ...well.partitions, members: [lost, second] } }), [
    'warning: Partition west/log-2026',
  ]);
  const refusing = { ...first, refusals: 2 };
  t.match(
    concernsOf(sampleStatus({ partitions: { ...well.partitions, members: [refusing, second] } }, NOW), NOW),
    [{ what: 'Partition west/log-2026', detail: 'its signer has refused to sign 2 times' }],
  );
  const late = (hours: number) => ({
    finished_at: toRfc3339(NOW - hours * HOUR_MS),
    good: true,
    tree_size: 1,
  });
  t.strictSame(named({ upkeep: { ...well.upkeep, backup: late(35) } }), []);
  t.strictSame(named({ upkeep: { ...well.upkeep, backup: late(37) } }), ['warning: Backup']);
  t.strictSame(named({ upkeep: { ...well.upkeep, backup: late(-0.05) } }), [], 'clocks differ a little');
  for (const finished_at of [toRfc3339(NOW + HOUR_MS), '9999-12-31T23:59:59.999Z']) {
    const upkeep = { ...well.upkeep, backup: { ...late(0), finished_at } };
    const [concern] = concernsOf(sampleStatus({ upkeep }, NOW), NOW);
    t.match(concern, { what: 'Backup', detail: /dated in the future/, remedy: /Check the clock/ });
  }
  t.strictSame(named({ upkeep: { ...well.upkeep, check: { ...late(1), good: false } } }), [
    'warning: Check of the store',
  ]);
  const undecided = { ...late(1), good: false, undecided: 'page 7 is torn' };
  const [untold] = concernsOf(sampleStatus({ upkeep: { ...well.upkeep, check: undecided } }, NOW), NOW);
  t.match(untold, { what: 'Check of the store', detail: /could not tell .*: page 7 is torn$/ });
  t.strictSame(named({ upkeep: {}, store: { ...well.store, engine: 'postgresql' } }), [
    'warning: Check of the store',
    'warning: Renewal of time-stamps',
  ]);
  const free = (bytes: number) => ({ store: { ...well.store, disk_free_bytes: bytes } });
  const least = well.store.disk_free_bytes_min;
  t.strictSame(named(free(4 * least)), []);
  t.strictSame(named(free(4 * least - 1)), ['warning: The disk is nearly full']);
  t.strictSame(named({ webhooks: { ...well.webhooks, failing: 1, dead_letters: 2 } }), [
    'warning: Webhooks',
    'warning: Webhooks',
  ]);
  t.strictSame(named({ acceptance: { keys: [], refused: 1 } }), ['warning: Jobs that no node accepted']);
  t.strictSame(named({ acceptance: { keys: [], refused: 0 } }), []);
  t.strictSame(named({ config: { ...well.config, pending: ['kms.sessions'] } }), ['warning: Configuration']);
  const [dead] = concernsOf(sampleStatus({ webhooks: { ...well.webhooks, dead_letters: 1 } }, NOW), NOW);
  t.equal(dead?.page, '/access/webhooks', 'the page that helps');
  for (const concern of concernsOf(sampleStatus({ upkeep: {} }, NOW), NOW))
    t.ok(concern.remedy, concern.what);
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
