import { join } from 'node:path';
import t from 'tap';
import { ask } from '../support/admin.ts';
import { Client, type JobBody, TRAFFIC_DOCUMENT } from '../support/client.ts';
import type { RunResult } from '../support/commands.ts';
import { answerWith, OK, Receiver } from '../support/receiver.ts';
import { openSandbox } from '../support/sandbox.ts';
import { until } from '../support/until.ts';

t.test('webhook endpoints, in the running daemon', async (t) => {
  const sandbox = await openSandbox({
    tables: { webhooks: 'allow = ["127.0.0.0/8"]\nretries = ["50ms"]\nprobe_interval = "50ms"' },
  });
  t.teardown(() => sandbox.close());
  const apiKey = await sandbox.issueKey(
    'invoices',
    'acme',
    '--scopes',
    'jobs:create,jobs:read,webhooks:manage',
  );
  await sandbox.start();
  const client = await Client.connect(sandbox.url, apiKey);
  const receiver = await Receiver.open(t);
  const webhooks = (...args: string[]): Promise<RunResult> =>
    sandbox.pdfseal(['webhooks', ...args, '--config', sandbox.configFile]);
  const run = async (...args: string[]): Promise<string> => {
    const { status, stdout, stderr } = await webhooks(...args);
    if (status !== 0) throw new Error(stderr);
    return stdout;
  };
  const show = async (id: string) => JSON.parse(await run('show', id, '--json'));
  const seal = async () => (await client.seal(TRAFFIC_DOCUMENT, { mode: 'blocking' })).json<JobBody>();
  const came = (id: string) =>
    until(`${id} came`, () => receiver.received.some(({ event }) => event.data.id === id));

  const added = await webhooks('add', '--client', 'invoices', '--url', receiver.url, '--description', 'ERP');
  t.match(added.stdout, /^whsec_\S{44}\n$/, 'the secret alone');
  t.match(added.stderr, /^we_[0-9a-f]{32}: client invoices, job\.completed, job\.failed\. Keep the secret/);
  receiver.secrets = [added.stdout.trim()];
  const [id = ''] = added.stderr.match(/we_[0-9a-f]{32}/) ?? [];

  await t.test('an added endpoint receives messages at once', async (t) => {
    const job = await seal();
    t.ok(job.capabilities.includes('webhook.job.completed'));
    await came(job.id);
    t.match(await run('list'), new RegExp(`^ENDPOINT .*\n${id} +invoices +enabled .*${receiver.url}\n$`));
    t.match(await run('list', '--client', 'others'), /^ENDPOINT .*\n$/);
    t.match(await show(id), {
      id,
      client: 'invoices',
      description: 'ERP',
      deliveries: { delivered: 1, pending: 0 },
    });
    t.notMatch(await run('list', '--json'), /whsec/);
    t.strictSame(
      (await client.get('/v1/webhook-endpoints')).json<{ webhook_endpoints: unknown[] }>().webhook_endpoints
        .length,
      1,
    );
  });

  await t.test('rotate: both secrets sign for the overlap', async (t) => {
    const next = JSON.parse(await run('rotate', id, '--overlap', '1h', '--json'));
    receiver.secrets.push(next.secret);
    await came((await seal()).id);
    t.strictSame(receiver.refused, []);
    receiver.secrets = [(await run('rotate', id, '--overlap', '0s')).trim()];
    await came((await seal()).id);
    t.strictSame(receiver.refused, []);
  });

  await t.test('test: reports the outcome of the delivery', async (t) => {
    const webhookId = (await run('test', id)).trim();
    t.equal(receiver.counts().get(webhookId), 1);
    receiver.answering = answerWith(500);
    t.match(await webhooks('test', id), { status: 1, stderr: /failed: http_500/ });
    receiver.answering = OK;
    const nothingWaits = async () => (await show(id)).deliveries.pending === 0;
    await until('what failed is sent again, or given up', nothingWaits);
  });

  await t.test('disable and enable: messages stop and start again', async (t) => {
    await run('disable', id);
    t.match(await webhooks('test', id), {
      status: 1,
      stderr: /is disabled since [\s\S]*webhooks enable we_/,
    });
    t.equal((await show(id)).deliveries.pending, 0, 'nothing waits for a daemon that will not send it');
    t.notOk((await seal()).capabilities.includes('webhook.job.completed'));
    t.match(await show(id), { status: 'disabled', disabled_reason: 'request' });
    await run('enable', id);
    await came((await seal()).id);
  });

  await t.test('dead letters are listed, and can be sent again', async (t) => {
    receiver.answering = answerWith(503);
    const job = await seal();
    const webhookId = job.id.replace('job_', 'msg_');
    const dead = () => run('deliveries', id, '--dead');
    await until('it is given up', async () => (await dead()).includes(webhookId));
    t.match(await dead(), new RegExp(`${webhookId} +job\\.completed .*http_503 +exhausted`));
    receiver.answering = OK;
    t.match(await webhooks('replay', id, webhookId), {
      status: 0,
      stderr: /^queued again of we_\w+: 1 dead letter\n/,
    });
    await until('it is delivered', () => receiver.counts().get(webhookId) === 3);
    t.match(await webhooks('replay', id, webhookId), { status: 1, stderr: /not all messages were queued/ });
    // The test message that failed above may be one.
    await run('replay', id);
    t.match(await webhooks('replay', id), { status: 0, stderr: /^no dead letter of we_\w+ was queued/ });
    await until('nothing waits', async () => (await run('deliveries', id, '--json')) === '');
  });

  await t.test('wrong arguments are refused, and a removed endpoint is gone', async (t) => {
    const cases: [args: string[], status: number, message: RegExp][] = [
      [['add', '--client', 'nobody', '--url', receiver.url], 1, /client nobody has no API key/],
      [['add', '--client', 'invoices', '--url', 'http://10.0.0.1/'], 1, /10\.0\.0\.1 is not allowed/],
      [
        ['add', '--client', 'invoices', '--url', receiver.url, '--events', 'x'],
        64,
        /job\.completed, job\.failed/,
      ],
      [['show', 'we_1'], 1, /there is no webhook endpoint we_1/],
    ];
    for (const [args, status, stderr] of cases)
      t.match(await webhooks(...args), { status, stderr }, args.join(' '));
    t.match(await webhooks('remove', id), { status: 0, stderr: /is removed/ });
    t.notOk((await seal()).capabilities.includes('webhook.job.completed'));
    t.match(await webhooks('show', id), { status: 1 });
  });
  t.strictSame(receiver.refused, []);
});

t.test('endpoints are changed without a daemon, but only a daemon can test them', async (t) => {
  const sandbox = await openSandbox({ tables: { webhooks: 'allow = ["127.0.0.0/8"]' } });
  t.teardown(() => sandbox.close());
  await sandbox.issueKey('invoices');
  const webhooks = (...args: string[]) =>
    sandbox.pdfseal(['webhooks', ...args, '--config', sandbox.configFile, '--json']);
  const added = await webhooks('add', '--client', 'invoices', '--url', 'http://127.0.0.1:1/');
  const { id } = JSON.parse(added.stdout);
  t.match(await webhooks('change', id, '--events', 'job.failed', '--description', 'ERP'), { status: 0 });
  t.match(await webhooks('disable', id), { status: 0 });
  const { status, stderr } = await webhooks('test', id);
  t.equal(status, 1);
  t.match(JSON.parse(stderr), { error: { code: 'no_daemon' } });
  const daemon = await sandbox.start();
  t.match(await webhooks('enable', id), { status: 0 });
  const shown = { id, status: 'enabled', events: ['job.failed'], description: 'ERP', revision: 4 };
  t.match(JSON.parse((await webhooks('show', id)).stdout), shown);
  const socketPath = join(sandbox.dir, 'state', 'admin.sock');
  const cursor = await ask({ socketPath }, `/webhooks/${id}/deliveries?cursor=x`);
  t.match(cursor.json(), { error: { code: 'invalid_parameter', message: /^cursor must be the cursor/ } });
  await daemon.stop();
  const audit = ['audit', 'list', '--json', '--config', sandbox.configFile];
  const records = (await sandbox.pdfseal(audit)).stdout.trimEnd().split('\n');
  const acts = records.map((line) => JSON.parse(line)).filter(({ act }) => act.startsWith('webhook.'));
  const actor = { via: 'command', uid: process.geteuid?.() };
  t.match(
    acts.map((one) => [one.act, one.actor]),
    ['add', 'change', 'disable', 'enable'].map((name) => [`webhook.${name}`, actor]),
  );
});
