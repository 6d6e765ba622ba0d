/** A daemon that seals, and two nodes that face the network, on one PostgreSQL. */
import type { Test } from 'tap';
import { Client } from '../support/client.ts';
import { startPostgres } from '../support/postgres.ts';
import { installFront, installOn } from './onDatabase.ts';

/** All run, and end with the test. */
export async function openFronts(t: Test) {
  const postgres = await startPostgres(t);
  const first = await installOn(t, postgres, {
    tables: { limits: 'queue_jobs_max = 4', log: 'last_checkpoint_interval = "100ms"' },
    tail: '[clients.slow.rate]\nrequests = 200\nwindow = "1h"\n',
  });
  const active = await first.start();
  const fronts = [
    await installFront(t, postgres, first, 'front-a'),
    await installFront(t, postgres, first, 'front-b'),
  ] as const;
  const apiKey = await first.issueKey();
  await Promise.all(fronts.map((front) => front.start()));
  const [a, b] = [await Client.connect(fronts[0].url, apiKey), await Client.connect(fronts[1].url, apiKey)];
  return { postgres, first, active, fronts, apiKey, a, b };
}
