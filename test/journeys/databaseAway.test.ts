/** A front whose database is away: it says so in time, and goes on once the database is back. */
import { spawnSync } from 'node:child_process';
import t from 'tap';
import { askAdmin } from '../support/admin.ts';
import { pdfOf } from '../support/app.ts';
import { type Answer, Client, type JobBody } from '../support/client.ts';
import { type Postgres, startPostgres } from '../support/postgres.ts';
import { until } from '../support/until.ts';
import { installFront, installOn, isProven } from './onDatabase.ts';

const postgres = await startPostgres(t);
const ATTEMPTS = 12;

t.test('a front answers 503 while its database is away, and then goes on', async (t) => {
  const first = await installOn(t, postgres);
  await first.start();
  const front = await installFront(t, postgres, first, 'front');
  const { child } = await front.start();
  const client = await Client.connect(front.url, await first.issueKey());
  const seal = (name: string, mode: string) =>
    client.seal(pdfOf(name), { mode }, { 'Idempotency-Key': `the-key-of-${name}` });
  const { id } = (await seal('one', 'blocking')).json<JobBody>();
  t.ok(await isProven(client, first, id));
  await askAdmin(front, '/status');
  const everything = () => [
    seal('two', 'blocking'),
    seal('three', 'async'),
    ...['jobs', `jobs/${id}`, `jobs/${id}/receipt.json`, 'log/checkpoint', 'log/tile/0/000.p/1'].map((path) =>
      client.get(`/v1/${path}`),
    ),
  ];
  const areRefused = (answers: Answer[]) => {
    for (const { status, headers, text } of answers) {
      t.equal(status, 503, text);
      t.match(JSON.parse(text), { error: { code: 'storage_unavailable', type: 'unavailable_error' } });
      t.ok(headers.has('Retry-After'));
    }
  };
  const isAway = async () => {
    t.equal((await askAdmin(front, '/healthz')).status, 200);
    const ready = await askAdmin(front, '/readyz');
    t.equal(ready.status, 503);
    t.match(ready.text, /"store","ready":false,"detail":"the database does not answer"/);
    t.match(await askAdmin(front, '/metrics'), {
      status: 200,
      text: /^pdfseal_part_ready\{part="store"\} 0$/m,
    });
  };

  signal(postgres, 'SIGSTOP');
  areRefused(await Promise.all(everything()));
  await isAway();
  signal(postgres, 'SIGCONT');
  await until('it goes on', async () => (await client.get('/v1/jobs')).status === 200);

  const sent = Array.from({ length: ATTEMPTS }, (_, number) => seal(`under-way-${number}`, 'async'));
  await Promise.race(sent);
  await postgres.stop('SIGQUIT');
  const answers = await Promise.all(sent);
  for (const { status, text } of answers)
    if (status !== 202) t.match(JSON.parse(text), { error: { code: 'storage_unavailable' } });
  areRefused(await Promise.all(everything()));
  await isAway();
  await first.daemon?.ended();

  await postgres.start();
  await first.start();
  await until('it is ready', async () => (await askAdmin(front, '/readyz')).status === 200);
  for (const [number, answer] of answers.entries()) {
    const again = await accepted(() => seal(`under-way-${number}`, 'async'));
    if (answer.status === 202)
      t.equal(again.json<JobBody>().id, answer.json<JobBody>().id, 'what was acknowledged is there');
    t.ok(await isProven(client, first, again.json<JobBody>().id));
  }
  const { jobs } = (await client.get('/v1/jobs?limit=100')).json<{ jobs: JobBody[] }>();
  t.ok(jobs.length <= ATTEMPTS + 3, 'one key, one job');
  t.equal(child.exitCode, null, 'it is the same process');
  t.equal(await front.daemon?.stop(), 0);
});

/** As a client repeats what was refused; of a busy machine the database may be slow. */
async function accepted(send: () => Promise<Answer>): Promise<Answer> {
  let answer = await send();
  await until('it is accepted', async () => {
    if (answer.status !== 202) answer = await send();
    return answer.status === 202;
  });
  return answer;
}

/** To the server and all that it made. */
function signal({ pid }: Postgres, name: 'SIGSTOP' | 'SIGCONT'): void {
  const { stdout } = spawnSync('pgrep', ['-P', String(pid)], { encoding: 'utf8' });
  for (const each of [pid, ...stdout.split('\n').filter(Boolean).map(Number)]) process.kill(each, name);
}
