/** Care: upkeep, drills, epochs and the configuration; what each says, who may begin a drill, and how it is recorded. */
import t from 'tap';
import type { ShownSetting } from '../../src/console/sources.ts';
import type { AdminStatus } from '../../src/health/statusSchema.ts';
import { HOSTILE } from '../support/receipts.ts';
import { openDrills } from './drilledConsole.ts';
import { sampleEpochs, sampleStatus } from './sampleStatus.ts';
import { openTestConsole } from './testConsole.ts';

const HOUR_MS = 3_600_000;

/** The text of a page, without markup. */
function plain(text: string): string {
  return text
    .replace(/^.*<main/s, '<main')
    .replaceAll(/<[^>]*>/g, ' ')
    .replaceAll(/\s+/g, ' ');
}

t.test('each chore is shown with its last time, and with a remedy if it is overdue', async (t) => {
  const now = Date.now();
  const ago = (hours: number) => new Date(now - hours * HOUR_MS).toISOString();
  const note = { good: true, tree_size: 48_211 };
  const well = sampleStatus({}, now);
  const noted = (upkeep: Partial<AdminStatus['upkeep']>) =>
    sampleStatus({ upkeep: { chores: well.upkeep.chores, ...upkeep } }, now);
  let status = noted({
    backup: { ...note, finished_at: ago(7) },
    check: { ...note, finished_at: ago(73) },
    renewal: { ...note, finished_at: ago(1), good: false, holds_until: '2032-05-15T00:00:00.000Z' },
  });
  const test = await openTestConsole(t, { clock: () => now, read: () => status });
  const { cookie } = test.signedIn('auditor');
  const shown = async () => plain((await test.get('/care', { cookie })).text);
  t.match(await shown(), /Backup done Last 7h ago Next due in 1d 5h Log size then 48,211 leaves/);
  t.match(await shown(), /Check overdue .*Was due 1h ago.* Run `pdfseal check` every night/);
  t.match(await shown(), /Restore drill no record .*pdfseal restore --drill/);
  t.match(
    await shown(),
    /Renewal the last one, .* was 1h ago, and did not renew what is due .*expires 2032-05-15/,
  );
  status = noted({ backup: { ...note, finished_at: '9999-12-31T23:59:59.999Z' } });
  t.match(await shown(), /Backup unknown Last in [\d,]+ days Log size then .* Look at the clock/);
  status = noted({ backup: { ...note, finished_at: ago(40) } });
  t.match((await test.get('/', { cookie })).text, /<dt>Backup<\/dt><dd><span class="state warning">/);
  status = { ...noted({ chores: ['check'] }), store: { ...well.store, engine: 'postgresql' } };
  t.match(await shown(), /use the tools of the database/);
  t.notMatch(await shown(), /Backup|Renewal/);
});

const DRILL = { partition: 'west/log-2026', for: '3600', sure: 'yes' };

t.test('a drill begins and ends, on record with the name of its operator', async (t) => {
  const { test, out } = await openDrills(t);
  const begun = await test.submit('/care/drill/begin', DRILL, 'operator');
  t.equal(begun.status, 303);
  t.match(plain(begun.shown), /west\/ ?log- ?2026 withdrawn 1,204 in (1h|59m)/);
  t.match(begun.shown, /The quorum needs every partition/);
  t.notMatch(begun.shown, /<select id="partition"/, 'what would be refused is not offered');
  t.strictSame([...out], ['west/log-2026']);
  const second = await test.submit('/care/drill/begin', { ...DRILL, partition: 'east/log-2026' }, 'operator');
  t.match(second, { status: 409, text: /Too few would be left.*Nothing was changed.*pdfseal hsm drill/s });
  const ended = await test.submit('/care/drill/end', { partition: 'west/log-2026' }, 'operator');
  t.match(ended, { status: 303 });
  t.notMatch(plain(ended.shown), /withdrawn/);
  t.equal(out.size, 0);
  const actor = { via: 'console', person: 'Berta', role: 'operator' };
  const object = { partition: 'west/log-2026' };
  t.match(await test.acts(), [
    {
      act: 'drill.begin',
      actor,
      object: { ...object, for_ms: HOUR_MS, below_quorum: false },
      outcome: 'begun',
    },
    { act: 'drill.begin', actor, outcome: 'done' },
    { act: 'drill.begin', actor, object: { partition: 'east/log-2026' }, outcome: 'begun' },
    { act: 'drill.begin', actor, outcome: 'failed' },
    { act: 'drill.end', actor, object },
  ]);
});

t.test('a drill without the role, the token or a valid form is refused', async (t) => {
  const { test, out } = await openDrills(t);
  for (const path of ['/care/drill/begin', '/care/drill/end']) {
    t.match(
      await test.submit(path, DRILL, 'auditor'),
      { status: 403, text: /requires the role operator/ },
      path,
    );
    const { cookie } = test.signedIn('operator');
    t.match(await test.post(path, DRILL, { cookie }), { status: 403, text: /out of date/ }, 'no token');
    const unknown = await test.submit(path, { ...DRILL, partition: HOSTILE.replace('\0', '') }, 'operator');
    t.match(unknown, { status: 409, text: /not exactly one partition.*Look at the partitions again/s });
    t.notMatch(unknown.text, /quorum/);
  }
  for (const change of [{ for: '7200' }, { for: 'toString' }, { partition: '' }, { sure: '' }])
    t.match(await test.submit('/care/drill/begin', { ...DRILL, ...change }, 'operator'), { status: 400 });
  t.equal(out.size, 0);
  t.strictSame(await test.acts(), []);
  const { text } = await test.get('/care', test.signedIn('auditor'));
  t.match(text, /Only an operator/);
  t.notMatch(text, /method="post" action="\/care/);
});

t.test('the epochs in force and to come are shown', async (t) => {
  let epochs = sampleEpochs();
  const test = await openTestConsole(t, { epochs: async () => epochs });
  const { cookie } = test.signedIn('auditor');
  const shown = async () => plain((await test.get('/care/epochs', { cookie })).text);
  t.match(await shown(), /Epoch 2 .*in force.*Until.*Epoch 3 .*planned.*One earlier epoch has ended/);
  t.match(await shown(), /eu- ?central\/ ?log- ?2026.* ed25519/);
  epochs = epochs.slice(0, 1).map((one) => ({ ...one, state: 'in force' }));
  t.match(await shown(), /Epoch 1 .*No further epoch is planned/);
  t.notMatch(await shown(), /earlier epoch/);
});

const SETTINGS: ShownSetting[] = [
  { key: 'environment', value: '"test"', source: 'file', changed: true },
  { key: 'kms.sessions', value: '2', source: 'default', changed: false, next: { value: '4' } },
  { key: 'http.tls', value: undefined, source: 'unset', changed: false },
];

t.test('the configuration in effect is shown, with changes that await a restart', async (t) => {
  let settings = SETTINGS;
  const asked: boolean[] = [];
  const test = await openTestConsole(t, {
    settings: ({ isWhole }) => {
      asked.push(isWhole);
      return settings;
    },
  });
  const { cookie } = test.signedIn('auditor');
  const shown = async (query = '') => plain((await test.get(`/care/configuration${query}`, { cookie })).text);
  t.match(
    await shown(),
    /wait for a restart Key In effect In the file kms\. sessions 2 4 Restart the daemon/,
  );
  t.match(await shown(), /Key Value From environment &quot;test&quot; the file *$/);
  t.match(await shown('?keys=all'), /kms\. sessions 2 default http\. tls not set not set *$/);
  t.notOk(asked.includes(true), 'an auditor is not told what can be a secret');
  await test.get('/care/configuration', test.signedIn('administrator'));
  t.equal(asked.at(-1), true);
  settings = [];
  t.match(await shown(), /Nothing waits for a restart.*Every key has its default/);
  t.notMatch(await shown(), /These keys wait/);
  for (const path of ['/care', '/care/epochs', '/care/configuration'])
    t.match(await test.get(path), { status: 401 }, path);
});
