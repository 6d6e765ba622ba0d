/** A log that a witness must cosign before anybody sees it. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { askAdmin } from '../support/admin.ts';
import { Client, type Envelope, type JobBody } from '../support/client.ts';
import { Litewitness } from '../support/litewitness.ts';
import { openSandbox } from '../support/sandbox.ts';
import { random } from '../support/seed.ts';
import { until } from '../support/until.ts';
import { eventsOf, ORIGIN, sizeOf } from './witnessed.ts';

t.test('with required witnesses, what they saw survives every crash', async (t) => {
  const tables = {
    witness: 'policy = "policy"\ninterval = "200ms"\nrequired = true',
    health: 'canary_interval = "off"',
    blocking: 'timeout = "2s"',
  };
  const sandbox = await openSandbox({ tables });
  t.teardown(() => sandbox.close());
  const apiKey = await sandbox.issueKey();
  const { logs } = JSON.parse(readFileSync(sandbox.trustFile, 'utf8'));
  const [{ vkey }] = logs[0].epochs[0].keys;
  const witness = await Litewitness.open(t, 'witness.example.net/near', ORIGIN, [vkey]);
  writeFileSync(join(sandbox.dir, 'policy'), `witness near ${witness.vkey} ${witness.url}\nquorum near\n`);
  let daemon = await sandbox.start();
  const client = await Client.connect(sandbox.url, apiKey);
  const seal = (name: string, mode: 'blocking' | 'async' = 'blocking') =>
    client.seal(Buffer.from(`%PDF-1.7\n${name}\n%%EOF\n`), { mode });

  await t.test('every released checkpoint is witnessed', async (t) => {
    for (const name of ['one', 'two', 'three']) {
      t.equal((await seal(name)).json<JobBody>().phase, 'completed');
      const size = sizeOf(await client.get('/v1/log/checkpoint'));
      await until(
        'it is served',
        async () => sizeOf(await client.get('/v1/log/checkpoint/witnessed')) >= size,
      );
    }
  });

  await t.test('without a witness nothing is sealed, and the announced batch is sealed first', async (t) => {
    await witness.stop();
    const first = (await seal('announced')).json<JobBody>();
    await until('it is noticed', async () => (await seal('refused')).status === 503);
    // Batches of the daemon's own, which the witness has seen, may still have come in between.
    const size = sizeOf(await client.get('/v1/log/checkpoint'));
    const refused = (await seal('refused')).json<Envelope>();
    t.equal(refused.error.code, 'witness_unavailable');
    t.match(
      (await askAdmin(sandbox, '/readyz')).text,
      /"name":"witnesses","ready":false,.*bring witnesses back/,
    );
    t.equal(sizeOf(await client.get('/v1/log/checkpoint')), size);
    t.not((await client.get(`/v1/jobs/${first.id}`)).json<JobBody>().phase, 'completed');
    await daemon.kill();
    daemon = await sandbox.start();
    t.equal(sizeOf(await client.get('/v1/log/checkpoint')), size);
    await witness.start();
    await until('it is sealed', async () => {
      return (await client.get(`/v1/jobs/${first.id}`)).json<JobBody>().phase === 'completed';
    });
  });

  await t.test('kills at any moment lose nothing', async (t) => {
    for (let round = 0; round < 8; round++) {
      const sealed = Array.from({ length: 6 }, (_, n) =>
        seal(`${round}, ${n}`, 'async').catch(() => undefined),
      );
      await sleep(random() * 300);
      await daemon.kill();
      await Promise.all(sealed);
      daemon = await sandbox.start();
      t.notOk(eventsOf(daemon).includes('fork_alarm'));
    }
    t.equal((await seal('after all')).json<JobBody>().phase, 'completed');
    t.notOk(eventsOf(daemon).some((event) => event === 'fork_alarm' || event === 'cannot_go_on'));
    await daemon.stop();
    t.match(await sandbox.pdfseal(['check', '--config', sandbox.configFile]), { status: 0 });
    t.notMatch(witness.log, 'bad consistency proof');
  });
});
