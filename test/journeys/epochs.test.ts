/** New keys while documents are sealed: nobody notices, and old and new receipts verify with one trust file. */
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { isServed, Traffic } from '../support/client.ts';
import { until } from '../support/until.ts';
import { checkReceipts, checkStore, openHouse, planKeys } from './plannedEpochs.ts';

/** What is read one by one lies so near to the switch; the check verifies all of it. */
const NEAR_MS = 1500;

t.test('new keys come into force under load', async (t) => {
  const house = await openHouse(t);
  const { sandbox, daemon, client } = house;
  const traffic = new Traffic(client, ['blocking', 'blocking', 'async']);
  const hasLogged = (message: string) => daemon.log.some(({ msg }) => msg === message);
  const from = await planKeys(house);
  await sleep(from - Date.now());
  await until('it is used', () => traffic.since(from, 'blocking').length >= 10);
  const retired = ['eu/sandbox-2026', '--config', sandbox.configFile, '--confirm', 'sandbox-2026'];
  const destroyed = await sandbox.pdfseal(['hsm', 'destroy-key', ...retired]);
  t.match(destroyed, { status: 0 }, 'a retired key can be destroyed while the next one signs');
  await traffic.stop();
  t.strictSame(
    traffic.answers.filter((answer) => !isServed(answer)),
    [],
    'no request failed',
  );
  const jobIds = traffic.since(from - NEAR_MS).flatMap(({ jobId }) => jobId ?? []);
  await checkReceipts(t, house, jobIds, from);
  t.ok(hasLogged('an epoch begins; the keys of the previous epoch are retired'));
  await checkStore(t, house);
  t.equal(await daemon.stop(), 0);
  t.equal(daemon.stderr, '');
});
