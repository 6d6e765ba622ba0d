/** Nodes that face the network: they accept and show, and another daemon seals. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { pdfOf } from '../support/app.ts';
import { Client, type JobBody } from '../support/client.ts';
import { startPostgres } from '../support/postgres.ts';
import { takeToken } from '../support/tamper.ts';
import { until } from '../support/until.ts';
import { installFront, installOn, installSpare, isProven, startWaiting } from './onDatabase.ts';

const postgres = await startPostgres(t);
/** EX_SOFTWARE: the service manager starts it again. */
const ENDED_BY_ITSELF = 70;
const IS_ACTIVE = /waits to take over: process \d+ on \S+ is active/;

t.test('two fronts accept what one daemon seals, through its death and a take-over', async (t) => {
  const first = await installOn(t, postgres, {
    tables: { limits: 'queue_jobs_max = 4', log: 'last_checkpoint_interval = "100ms"' },
    tail: '[clients.slow.rate]\nrequests = 200\nwindow = "1h"\n',
  });
  let active = await first.start();
  const fronts = [
    await installFront(t, postgres, first, 'front-a'),
    await installFront(t, postgres, first, 'front-b'),
  ] as const;
  const apiKey = await first.issueKey();
  await Promise.all(fronts.map((front) => front.start()));
  const [a, b] = [await Client.connect(fronts[0].url, apiKey), await Client.connect(fronts[1].url, apiKey)];
  const c = await Client.connect(first.url, apiKey);

  const made = await a.seal(pdfOf('one'), { mode: 'blocking' });
  t.equal(made.json<JobBody>().phase, 'completed', made.text);
  t.ok(await isProven(b, first, made.json<JobBody>().id), 'another front shows it');
  const later = (await b.seal(pdfOf('two'), { mode: 'async' })).json<JobBody>();
  t.ok(await isProven(a, first, later.id));

  const key = { 'Idempotency-Key': 'the-same-everywhere' };
  const document = pdfOf('three');
  const answers = await Promise.all(
    [a, b, c].map(async (client) => {
      for (;;) {
        const answer = await client.seal(document, { mode: 'blocking' }, key);
        if (answer.status !== 409) return answer;
        t.equal(answer.json<{ error: { code: string } }>().error.code, 'idempotency_in_progress');
      }
    }),
  );
  t.equal(new Set(answers.map((answer) => answer.json<JobBody>().id)).size, 1, 'one key, one job');
  for (const answer of answers) t.equal(answer.json<JobBody>().phase, 'completed', answer.text);

  t.match((await a.request('POST', '/v1/keys/rotate')).json(), { error: { code: 'not_found' } });
  const manager = await first.issueKey('quickstart', 'acme', '--scopes', 'webhooks:manage');
  const d = await Client.connect(fronts[0].url, manager);
  t.match((await d.get('/v1/webhook-endpoints')).json(), { error: { code: 'not_found' } });

  const leaver = await first.issueKey('leaver');
  const everywhere = [first, ...fronts];
  const leaving = await Promise.all(everywhere.map(({ url }) => Client.connect(url, leaver)));
  const statuses = () => Promise.all(leaving.map(async (client) => (await client.get('/v1/jobs')).status));
  t.strictSame(await statuses(), [200, 200, 200]);
  const { stdout } = await first.pdfseal(['keys', 'list', '--json', '--config', first.configFile]);
  const keys = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { id: string; client: string });
  const id = keys.find(({ client }) => client === 'leaver')?.id ?? '';
  let isRevoked = false;
  // Requests under way all the time: none may lend its answer to one that began after the revocation.
  const asking = leaving.map(async (client) => {
    while (!isRevoked) await client.get('/v1/jobs');
  });
  t.match(await first.pdfseal(['keys', 'revoke', id, '--config', first.configFile]), { status: 0 });
  t.strictSame(await statuses(), [401, 401, 401], 'a revoked key is refused at once, everywhere');
  isRevoked = true;
  await Promise.all(asking);

  const slow = await first.issueKey('slow');
  const [there, here] = [a.as(slow), b.as(slow)];
  let asked = 0;
  /** How many requests of this client the second front has counted for others. */
  const countedElsewhere = async () => {
    const { headers } = await here.seal(pdfOf(`here ${asked++}`), { mode: 'blocking' });
    return 200 - asked - Number(/"client";r=(\d+)/.exec(headers.get('ratelimit') ?? '')?.[1]);
  };
  t.equal(await countedElsewhere(), 0);
  for (let request = 0; request < 10; request++)
    await there.seal(pdfOf(`there ${request}`), { mode: 'blocking' });
  await until(
    'what a client sends to one front counts on the other',
    async () => (await countedElsewhere()) > 5,
  );

  const about = ({ configFile }: (typeof fronts)[0]) => ['--config', configFile];
  t.match(await fronts[0].pdfseal(['doctor', ...about(fronts[0])]), {
    stdout: /sealing: process \d+ on \S+ is active/,
  });
  t.match(await fronts[0].pdfseal(['init', '--throwaway', ...about(fronts[0])]), { stderr: /makes no log/ });
  const { stderr } = await fronts[0].pdfseal(['keys', 'list', ...about(fronts[0])]);
  t.match(stderr, /the role "node" may not use the store/);
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
