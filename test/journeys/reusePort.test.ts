/** Several fronts of one machine behind one address: the kernel spreads the connections. */
import { readFileSync, writeFileSync } from 'node:fs';
import t from 'tap';
import { askAdmin } from '../support/admin.ts';
import { pdfOf } from '../support/app.ts';
import { Client, type JobBody } from '../support/client.ts';
import { startPostgres } from '../support/postgres.ts';
import { until } from '../support/until.ts';
import { installFront, installOn, isProven } from './onDatabase.ts';

const postgres = await startPostgres(t);

t.test('two fronts share a port, and one goes on when the other ends', async (t) => {
  const first = await installOn(t, postgres);
  await first.start();
  const apiKey = await first.issueKey();
  const one = await installFront(t, postgres, first, 'front-a');
  const other = await installFront(t, postgres, first, 'front-b', { port: one.port });
  await one.start();
  await t.rejects(other.start(), { message: /another program has that port/ }, 'not without being told');
  await one.daemon?.stop();

  for (const { configFile } of [one, other])
    writeFileSync(configFile, readFileSync(configFile, 'utf8').replace('[http]\n', '$&reuse_port = true\n'));
  await Promise.all([one.start(), other.start()]);
  const served = async (front: typeof one) =>
    /^pdfseal_http_request_duration_seconds_count\{.*\} [1-9]/m.test(
      (await askAdmin(front, '/metrics')).text,
    );
  await until('each has accepted some', async () => {
    const client = await Client.connect(one.url, apiKey);
    t.equal((await client.seal(pdfOf('shared'), { mode: 'blocking' })).json<JobBody>().phase, 'completed');
    return (await served(one)) && (await served(other));
  });

  t.equal(await one.daemon?.stop(), 0);
  const client = await Client.connect(other.url, apiKey);
  const job = (await client.seal(pdfOf('alone'), { mode: 'blocking' })).json<JobBody>();
  t.ok(await isProven(client, first, job.id));
});
