/** Two daemons for one log: one serves it, the other waits to take over. */
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { readLastCheckpoint } from '../../src/prove/trail/lastCheckpoint.ts';
import { pdfOf } from '../support/app.ts';
import { Client, type JobBody } from '../support/client.ts';
import { startPostgres } from '../support/postgres.ts';
import type { Sandbox } from '../support/sandbox.ts';
import { until } from '../support/until.ts';
import { installOn, installSpare, isProven, startWaiting } from './onDatabase.ts';

const postgres = await startPostgres(t);
/** EX_SOFTWARE: the service manager starts it again. */
const ENDED_BY_ITSELF = 70;
const IS_ACTIVE = /waits to take over: process \d+ on \S+ is active/;

t.test('a second daemon takes over if the first is killed, stopped, suspended or ended', async (t) => {
  const first = await installOn(t, postgres, { stamped: true });
  let active = await first.start();
  const apiKey = await first.issueKey();
  const ids: string[] = [];
  const seal = async (sandbox: Sandbox) => {
    const client = await Client.connect(sandbox.url, apiKey);
    const fields = { mode: 'blocking', customer_reference: String(ids.length) };
    const job = (await client.seal(pdfOf(`document ${ids.length}`), fields)).json<JobBody>();
    t.equal(job.phase, 'completed');
    ids.push(job.id);
  };
  await seal(first);
  const spare = await installSpare(t, first);
  cpSync(join(first.dir, 'state', 'certificates'), join(spare.dir, 'state', 'certificates'), {
    recursive: true,
  });

  let waiting = startWaiting(spare);
  await waiting.says(IS_ACTIVE);
  t.match(
    await spare.pdfseal(['jobs', 'show', ids[0] ?? '', '--config', spare.configFile]),
    { status: 0, stdout: /completed/ },
    'commands work on either machine',
  );
  t.match(await spare.pdfseal(['doctor', '--config', spare.configFile]), {
    stdout: /process \d+ waits to take over: process \d+ on \S+ is active/,
  });
  await seal(first);
  await active.kill();
  active = await waiting.listening;
  await seal(spare);

  waiting = startWaiting(first);
  await waiting.says(IS_ACTIVE);
  t.equal(await active.stop(), 0);
  active = await waiting.listening;
  await seal(first);

  waiting = startWaiting(spare);
  await waiting.says(IS_ACTIVE);
  const held = await Client.connect(first.url, apiKey);
  active.child.kill('SIGSTOP');
  const late = held.seal(pdfOf('too late')).then(
    ({ status }) => status,
    () => 'not answered',
  );
  const next = await waiting.listening;
  await seal(spare);
  active.child.kill('SIGCONT');
  t.equal(await active.ended(), ENDED_BY_ITSELF);
  t.not(await late, 202, 'what it was asked to do while it was held, it does not promise');
  await seal(spare);

  const client = await Client.connect(spare.url, apiKey);
  for (const id of ids) t.ok(await isProven(client, spare, id), id);
  const listed = (await client.get('/v1/jobs')).json<{ jobs: JobBody[] }>().jobs;
  t.strictSame(listed.map(({ id }) => id).toSorted(), ids.toSorted(), 'nothing else was accepted');
  t.match(await spare.pdfseal(['check', '--config', spare.configFile]), { status: 0 });
  t.equal(await next.stop(), 0);
  await until('the first would be next', async () => (await first.start()).pid > 0);
  t.match(await first.pdfseal(['check', '--config', first.configFile]), { status: 0 });
});

t.test('a waiting machine notes released checkpoints, and takes over no log that lost one', async (t) => {
  const first = await installOn(t, postgres, { tables: { log: 'last_checkpoint_interval = "100ms"' } });
  const database = new URL(readFileSync(first.configFile, 'utf8').match(/url = "(.*)"/)?.[1] ?? '').pathname;
  let active = await first.start();
  const apiKey = await first.issueKey();
  const seal = async () => {
    const client = await Client.connect(first.url, apiKey);
    await client.seal(pdfOf('document'), { mode: 'blocking' });
    return Number((await client.get('/v1/log/checkpoint')).text.split('\n')[1]);
  };
  await seal();
  const spare = await installSpare(t, first);
  const file = join(spare.dir, 'state', 'last-checkpoint');
  await active.stop();
  const older = await postgres.createDatabase(database.slice(1));
  active = await first.start();

  rmSync(file);
  const waiting = startWaiting(spare);
  await waiting.says(/could not take over now: \S+last-checkpoint is missing, and the log has \d+ leaves/);
  cpSync(join(first.dir, 'state', 'last-checkpoint'), file);
  const newest = await seal();
  await until('it is noted', () => (readLastCheckpoint(file)?.checkpoint.treeSize ?? 0) >= newest);

  await active.stop();
  await (await waiting.listening).stop();
  const config = readFileSync(spare.configFile, 'utf8');
  writeFileSync(spare.configFile, config.replace(database, `/${older}`));
  await t.rejects(spare.start(), { message: /last-checkpoint noted a later checkpoint/ });
});
