/** Nodes that face the network: they accept and show, and another daemon seals. */
import t from 'tap';
import { pdfOf } from '../support/app.ts';
import { Client, type JobBody } from '../support/client.ts';
import { until } from '../support/until.ts';
import { isProven } from './onDatabase.ts';
import { openFronts } from './twoFronts.ts';

t.test('two fronts accept what one daemon seals, through its death and a take-over', async (t) => {
  const { first, fronts, apiKey, a, b } = await openFronts(t);
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
  t.match(await fronts[0].pdfseal(['init', '--throwaway', ...about(fronts[0])]), {
    stderr: /does not create a log/,
  });
  const { stderr } = await fronts[0].pdfseal(['keys', 'list', ...about(fronts[0])]);
  t.match(stderr, /the role "node" may not use the store/);
});
