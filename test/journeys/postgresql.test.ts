/** A real daemon on a real PostgreSQL: what is promised holds, whichever of them is killed. */
import { readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { pdfOf } from '../support/app.ts';
import { Client, type JobBody } from '../support/client.ts';
import { startPostgres } from '../support/postgres.ts';
import { Receiver } from '../support/receiver.ts';
import { random } from '../support/seed.ts';
import { makeTls, openSource, serving, sha256Of } from '../support/sources.ts';
import { until } from '../support/until.ts';
import { installOn, isProven, startWaiting } from './onDatabase.ts';

const postgres = await startPostgres(t);
const CLIENTS = 4;
const SCOPES = ['--scopes', 'jobs:create,jobs:read,webhooks:manage'];
/** EX_SOFTWARE: the service manager starts it again. */
const ENDED_BY_ITSELF = 70;

t.test('an environment works in a database as in a folder', async (t) => {
  const document = pdfOf('a hosted document', 10_000);
  const tls = makeTls(t);
  const source = await openSource(t, serving(document), { tls });
  const receiver = await Receiver.open(t);
  const sandbox = await installOn(t, postgres, {
    stamped: true,
    tables: {
      webhooks: 'allow = ["127.0.0.0/8"]',
      sources: 'allow = ["127.0.0.1"]\nca_file = "sources.pem"',
    },
    files: { 'sources.pem': tls.cert },
  });
  const run = (...args: string[]) => sandbox.pdfseal([...args, '--config', sandbox.configFile]);
  t.match(
    await sandbox.pdfseal(['init', '--throwaway', '--use-existing-keys', '--config', sandbox.configFile]),
    {
      status: 1,
      stderr: /exists already: a store is never overwritten/,
    },
  );
  const daemon = await sandbox.start();
  const client = await Client.connect(sandbox.url, await sandbox.issueKey('erp', 'acme', ...SCOPES));
  const posted = { 'Content-Type': 'application/json' };
  const endpoint = await client.request('POST', '/v1/webhook-endpoints', {
    headers: posted,
    body: JSON.stringify({ url: receiver.url }),
  });
  receiver.secrets = [endpoint.json<{ secret: string }>().secret];

  const key = { 'Idempotency-Key': 'the-first-one' };
  const blocking = await client.seal(document, { mode: 'blocking', customer_reference: 'b' }, key);
  t.match(blocking.json<JobBody>(), { phase: 'completed' });
  const asynchronous = await client.seal(pdfOf('another'), { mode: 'async' });
  const fetched = await client.request('POST', '/v1/jobs/seal', {
    headers: posted,
    body: JSON.stringify({
      source_url: `${source.origin}/a.pdf`,
      checksum_sha256: sha256Of(document),
      visibility: 'private',
    }),
  });
  const ids = [blocking, asynchronous, fetched].map((answer) => answer.json<JobBody>().id);
  for (const id of ids) t.ok(await isProven(client, sandbox, id), id);
  await until('all were told', () => ids.every((id) => receiver.counts().has(id.replace('job_', 'msg_'))));
  t.strictSame(receiver.refused, []);
  t.equal(await daemon.stop(), 0);

  await sandbox.start();
  const replayed = await client.seal(document, { mode: 'blocking', customer_reference: 'b' }, key);
  t.equal(replayed.headers.get('Idempotent-Replayed'), 'true');
  t.equal(replayed.text, blocking.text);
  const listed = (await client.get('/v1/jobs')).json<{ jobs: JobBody[] }>().jobs.map(({ id }) => id);
  t.strictSame(listed.toSorted(), ids.toSorted());
  t.match(await run('check'), { status: 0, stdout: /good/ });
  t.match(await run('jobs', 'show', ids[0] ?? ''), { status: 0, stdout: /completed/ });
  t.match(await run('status'), { status: 0, stdout: /store +[\d.]+ MiB in the database/ });
  t.match(await run('doctor', '--json'), { stdout: /"check":"database durability","verdict":"good"/ });
  t.match(await run('backup', '--output', '/nonexistent'), {
    status: 1,
    stderr: /the log is in PostgreSQL: back up the database with its own tools/,
  });
  t.match(await run('repair-index', '--no-backup'), { status: 2, stderr: /is using this state folder/ });
});

t.test(
  'killed in the middle of everything, neither the daemon nor the database breaks a promise',
  async (t) => {
    const sandbox = await installOn(t, postgres);
    let daemon = await sandbox.start();
    const client = await Client.connect(sandbox.url, await sandbox.issueKey());
    const promised = new Set<string>();
    let isDone = false;
    const post = async () => {
      for (let n = 0; !isDone; n++) {
        const fields = { mode: n % 2 === 0 ? 'async' : 'blocking' };
        const answer = await client.seal(pdfOf(String(random())), fields).catch(() => undefined);
        if (answer?.status === 202) promised.add(answer.json<JobBody>().id);
        else await sleep(20);
      }
    };
    const posting = Array.from({ length: CLIENTS }, post);
    const more = async (what: string) => {
      const before = promised.size;
      await until(`jobs are promised ${what}`, () => promised.size >= before + 20);
    };

    await more('at first');
    await daemon.kill();
    daemon = await sandbox.start();
    await more('after the daemon was killed');
    await postgres.kill();
    t.equal(await daemon.ended(), ENDED_BY_ITSELF, 'a daemon without its database ends');
    const waiting = startWaiting(sandbox);
    await waiting.says(/the database does not answer/);
    await postgres.start();
    daemon = await waiting.listening;
    await more('after the database was killed');
    isDone = true;
    await Promise.all(posting);

    for (const id of promised) if (!(await isProven(client, sandbox, id))) t.fail(id);
    t.match(await sandbox.pdfseal(['check', '--config', sandbox.configFile]), { status: 0 });
    t.equal(await daemon.stop(), 0);
  },
);

t.test('a daemon that waits for its database stops on SIGTERM', async (t) => {
  const sandbox = await installOn(t, postgres);
  await postgres.stop();
  const waiting = startWaiting(sandbox);
  await waiting.says(/the database does not answer/);
  t.equal(await sandbox.daemon?.stop(), 0);
  await postgres.start();
  t.match(await sandbox.pdfseal(['check', '--config', sandbox.configFile]), { status: 0 });
});

t.test('a daemon that its database refuses ends with a remedy', async (t) => {
  const sandbox = await installOn(t, postgres);
  const text = readFileSync(sandbox.configFile, 'utf8');
  writeFileSync(sandbox.configFile, text.replace('user=pdfseal', 'user=stranger'));
  const refused = {
    status: 1,
    stderr: /cannot be used: Peer authentication failed for user "stranger"\n +→ check store\.url, /,
  };
  t.match(await sandbox.pdfseald(), refused);
  t.match(await sandbox.pdfseal(['check', '--config', sandbox.configFile]), { status: 2 });
});
