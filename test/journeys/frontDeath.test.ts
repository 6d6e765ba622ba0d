/** Nodes that face the network while the daemon that seals has no keys, hangs, dies, and is replaced. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { pdfOf } from '../support/app.ts';
import type { JobBody } from '../support/client.ts';
import { takeToken } from '../support/tamper.ts';
import { until } from '../support/until.ts';
import { installSpare, isProven, startWaiting } from './onDatabase.ts';
import { openFronts } from './twoFronts.ts';

/** EX_SOFTWARE: the service manager starts it again. */
const ENDED_BY_ITSELF = 70;
const IS_ACTIVE = /waits to take over: process \d+ on \S+ is active/;

t.test('two fronts accept what one daemon seals, through its death and a take-over', async (t) => {
  const opened = await openFronts(t);
  const { postgres, first, fronts, a, b } = opened;
  let { active } = opened;
  const bringBack = first.partitions.map(takeToken);
  const hasty = async () => a.seal(pdfOf('no token'), { mode: 'blocking' }, { Prefer: 'wait=1' });
  await until('the front says that nothing can be sealed', async () => {
    const answer = await hasty();
    return answer.status === 503 && /kms_partition_unavailable/.test(answer.text);
  });
  for (const bring of bringBack) bring();
  await until('sealing goes on', async () => (await hasty()).json<JobBody>().phase === 'completed');

  const spare = await installSpare(t, first);
  const taking = startWaiting(spare);
  await taking.says(IS_ACTIVE);
  active.child.kill('SIGSTOP');
  const waiting = a.seal(pdfOf('four'), { mode: 'blocking' });
  await until('it is accepted', async () => {
    const { jobs } = (await b.get('/v1/jobs')).json<{ jobs: JobBody[] }>();
    return jobs.some(({ phase }) => phase === 'sealing');
  });
  active.child.kill('SIGKILL');
  active = await taking.listening;
  t.equal((await waiting).json<JobBody>().phase, 'completed', 'who waited is told by the next one');
  t.ok(await isProven(b, first, (await waiting).json<JobBody>().id));

  await active.kill();
  const status = async () => {
    const { stdout } = await fronts[0].pdfseal(['status', '--json', '--config', fronts[0].configFile]);
    return stdout;
  };
  await until('the front says so', async () => /no daemon that seals is active/.test(await status()));
  await until('it knows who else is there', async () => {
    const { nodes } = JSON.parse(await status()) as { nodes: { role: string }[] };
    return nodes.map(({ role }) => role).join() === 'front';
  });
  const kept: string[] = [];
  const code = async (fields: Record<string, string>) => {
    const answer = await a.seal(pdfOf(`document ${kept.length}`), fields);
    if (answer.status !== 202) return answer.json<{ error: { code: string } }>().error.code;
    kept.push(answer.json<JobBody>().id);
    return 'accepted';
  };
  await until('nobody is made to wait in vain', async () => {
    return (await code({ mode: 'blocking' })) === 'kms_partition_unavailable';
  });
  await until('the queue is full', async () => (await code({ mode: 'async' })) === 'queue_full');
  await first.start();
  for (const id of kept) t.ok(await isProven(a, first, id), 'nothing is lost');
  t.match(await first.pdfseal(['check', '--config', first.configFile]), { status: 0 });
  t.equal(await fronts[1].daemon?.stop(), 0);

  await first.daemon?.stop();
  const [, newest] = (await a.get('/v1/log/checkpoint')).text.split('\n');
  const noted = join(fronts[0].dir, 'state', 'last-checkpoint');
  await until('it is noted', () => readFileSync(noted, 'utf8').includes(`\n${newest}\n`));
  // As a failover does that loses a commit.
  const database = /postgresql:\/\/\/(\w+)/.exec(readFileSync(first.configFile, 'utf8'))?.[1];
  await postgres.query(`DELETE FROM pdfseal.batches WHERE tree_size = ${newest}`, database);
  t.equal(await fronts[0].daemon?.ended(), ENDED_BY_ITSELF, 'a front shows nothing of another history');
  await t.rejects(fronts[0].start(), { message: /last-checkpoint noted a later checkpoint/ });
});
