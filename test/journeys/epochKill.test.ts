/** A kill around the moment at which new keys come into force loses nothing. */
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { type JobBody, TRAFFIC_DOCUMENT } from '../support/client.ts';
import { checkReceipts, checkStore, openHouse, planKeys } from './plannedEpochs.ts';

/** So many before the kill are read one by one; the check verifies all of them. */
const NEAR_JOBS = 50;
/** Between one create and the next: enough to have one in every batch, little enough to leave the machine alone. */
const PAUSE_MS = 25;

// The daemon is killed just before the switch, and back just after it: every accepted job gets its receipt, by whichever epoch.
t.test('new keys come into force under load and through kills', async (t) => {
  const house = await openHouse(t);
  const { sandbox, daemon, client } = house;
  const from = await planKeys(house);
  const accepted: string[] = [];
  const killed = sleep(from - Date.now() - 20).then(() => daemon.kill());
  for (let alive = true; alive; ) {
    const answer = await client.seal(TRAFFIC_DOCUMENT, { mode: 'async' }).catch(() => undefined);
    if (answer?.status === 202) accepted.push(answer.json<JobBody>().id);
    alive = answer !== undefined;
    await sleep(PAUSE_MS);
  }
  await killed;
  const next = await sandbox.start();
  const late = await client.seal(TRAFFIC_DOCUMENT, { mode: 'blocking' });
  t.equal(late.status, 202);
  const near = [...accepted.slice(-NEAR_JOBS), late.json<JobBody>().id];
  await checkReceipts(t, house, near, from);
  await checkStore(t, house);
  t.equal(await next.stop(), 0);
});
