/** Nobody continues an older copy of the store beside a witness that others wrote. */
import { cpSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { openStore } from '../../src/store/lmdb/open.ts';
import { askAdmin } from '../support/admin.ts';
import type { Envelope, JobBody } from '../support/client.ts';
import { until } from '../support/until.ts';
import { eventsOf, openWitnessed, sizeOf } from './witnessed.ts';

t.test('witnessing by litewitness', async (t) => {
  const opened = await openWitnessed(t);
  const { sandbox, witness, client, pdfseal, status, seal, untilWitnessed } = opened;
  let { daemon } = opened;
  const state = join(sandbox.dir, 'state');
  const aside = (name: string) => join(sandbox.dir, name);
  const sizeHeld = async () => (await status()).witnesses?.members[0]?.tree_size ?? 0;
  await seal('one');
  await untilWitnessed();

  await t.test(
    'an older copy that is sealed on raises the fork alarm, and nothing more is sealed',
    async (t) => {
      await daemon.stop();
      cpSync(join(state, 'store'), aside('older'), { recursive: true });
      daemon = await sandbox.start();
      for (const name of ['seven', 'eight', 'nine']) await seal(name);
      const receipt = (await seal('ten')).json<JobBody>();
      await untilWitnessed();
      const held = await sizeHeld();
      await daemon.stop();
      renameSync(join(state, 'store'), aside('true'));
      cpSync(aside('older'), join(state, 'store'), { recursive: true });
      renameSync(join(state, 'last-checkpoint'), aside('true-last'));
      const older = await openStore({ path: join(state, 'store'), readOnly: true });
      const size = (await older.log.head())?.treeSize ?? 0;
      await older.close();
      t.ok(size < held);
      t.match(await pdfseal('last-checkpoint', '--accept-rollback', `${size}`), { status: 0 });

      await witness.stop();
      daemon = await sandbox.start();
      while (sizeOf(await client.get('/v1/log/checkpoint')) <= held) await seal('another history');
      t.equal(
        (await client.get(`/v1/jobs/${receipt.id}`)).status,
        404,
        'it contradicts a receipt that is out',
      );
      await witness.start();
      await until('the alarm is raised', () => eventsOf(daemon).includes('fork_alarm'));
      const refused = await seal('too late');
      t.equal(`${refused.status} ${refused.json<Envelope>().error.code}`, '503 fork_alarm');
      const sizeThen = sizeOf(await client.get('/v1/log/checkpoint'));
      t.equal((await client.get('/v1/log/checkpoint')).status, 200, 'what is there can be read');
      t.equal((await askAdmin(sandbox, '/readyz')).status, 503);
      t.match((await askAdmin(sandbox, '/metrics')).text, /^pdfseal_fork_alarm 1$/m);
      t.match(
        (await pdfseal('status')).stdout,
        /witnesses .*north holds another history of the log: it refuses/,
      );
      t.match(await pdfseal('doctor'), {
        status: 1,
        stdout: /witnesses: north holds another history of the log/,
      });
      await daemon.stop();
      t.match((await pdfseal('check')).stderr, /holds another history of the log/);
      daemon = await sandbox.start();
      t.ok(eventsOf(daemon).includes('fork_alarm'), 'a restart does not end it');
      t.equal((await seal('too late')).json<Envelope>().error.code, 'fork_alarm');
      t.equal(sizeOf(await client.get('/v1/log/checkpoint')), sizeThen);
      await daemon.stop();
      t.match(await pdfseal('doctor'), {
        status: 1,
        stdout: /witnesses: north holds another history of the log/,
      });
    },
  );

  await t.test('an older copy that is not sealed on raises the fork alarm at once', async (t) => {
    for (const name of ['store', 'last-checkpoint']) rmSync(join(state, name), { recursive: true });
    cpSync(aside('older'), join(state, 'store'), { recursive: true });
    const older = await openStore({ path: join(state, 'store'), readOnly: true });
    const size = (await older.log.head())?.treeSize ?? 0;
    await older.close();
    await pdfseal('last-checkpoint', '--accept-rollback', `${size}`);
    daemon = await sandbox.start();
    await until('the alarm is raised', () => eventsOf(daemon).includes('fork_alarm'));
    t.match(
      daemon.log.find(({ event }) => event === 'fork_alarm'),
      { msg: /it holds a tree of \d+ leaves, and the log has \d+/ },
    );
    await daemon.stop();
  });

  await t.test('the true store, put back, is cosigned again', async (t) => {
    for (const name of ['store', 'last-checkpoint']) rmSync(join(state, name), { recursive: true });
    renameSync(aside('true'), join(state, 'store'));
    renameSync(aside('true-last'), join(state, 'last-checkpoint'));
    daemon = await sandbox.start();
    t.equal((await seal('eleven')).status, 202);
    await untilWitnessed();
    t.notOk(eventsOf(daemon).includes('fork_alarm'));
    t.match(await pdfseal('check'), { status: 0 });
  });
});
