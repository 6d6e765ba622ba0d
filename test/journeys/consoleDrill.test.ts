/** An operator rehearses the loss of a partition in the browser, on a daemon that seals. */
import t from 'tap';
import type { PresentedRun } from '../../src/health/sections/canarySection.ts';
import type { AdminStatus } from '../../src/health/statusSchema.ts';
import { askAdmin } from '../support/admin.ts';
import { freePort } from '../support/freePort.ts';
import { openSandbox } from '../support/sandbox.ts';
import { until } from '../support/until.ts';
import { browseConsole, saysOf } from './browseConsole.ts';

t.test('a partition is taken out and put back while documents are sealed', async (t) => {
  const listen = `127.0.0.1:${await freePort()}`;
  const sandbox = await openSandbox({
    regions: ['eu', 'us'],
    quorum: 1,
    tail: `[console]\nlisten = "${listen}"\n`,
  });
  t.teardown(() => sandbox.close());
  await sandbox.start();
  const status = async () => (await askAdmin(sandbox, '/status')).json<AdminStatus>();
  const [, second] = (await status()).partitions.members;
  const name = second?.name ?? '';
  const stateOf = async () => (await status()).partitions.members.find((one) => one.name === name)?.state;
  await until('it signs', async () => (await stateOf()) === 'ready');

  const config = ['--config', sandbox.configFile];
  const { page, show } = await browseConsole(t, sandbox, 'Olga', 'operator');
  await show('/care');
  await page.evaluate(`document.querySelector('#partition').value = ${JSON.stringify(name)};
    document.querySelector('#for').value = '3600';
    document.querySelector('#drill [name=sure]').click();
    document.querySelector('#drill button.danger').click();`);
  await saysOf(page, /is out of service/);
  t.equal(await stateOf(), 'withdrawn');
  const canary = (await askAdmin(sandbox, '/canary', 'POST')).json<PresentedRun>();
  t.match(canary, { verified: true });
  t.notOk(canary.signers.includes(name), 'the others sign');

  await page.evaluate(`document.querySelector('form[action="/care/drill/end"] button').click()`);
  await saysOf(page, /has ended/);
  await until('it signs again', async () => (await stateOf()) === 'ready');
  t.strictSame(page.complaints, []);

  const listed = await sandbox.pdfseal(['audit', 'list', '--json', '--act', 'drill', ...config]);
  const acts = listed.stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  const actor = { via: 'console', person: 'Olga', role: 'operator' };
  const object = { partition: name };
  t.match(acts, [
    { act: 'drill.begin', actor, object: { ...object, for_ms: 3_600_000 }, outcome: 'begun' },
    { act: 'drill.begin', actor, object, outcome: 'done' },
    { act: 'drill.end', actor, object, outcome: 'done' },
  ]);
});
