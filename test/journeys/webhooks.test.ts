import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { askAdmin, parseMetrics, sampleOf } from '../support/admin.ts';
import { pdfOf } from '../support/app.ts';
import { Client, type JobBody } from '../support/client.ts';
import { OK, Receiver } from '../support/receiver.ts';
import { openSandbox } from '../support/sandbox.ts';
import { random } from '../support/seed.ts';
import { until } from '../support/until.ts';

const KILLS = 5;
const CLIENTS = 4;

t.test(`killed ${KILLS} times during deliveries, the daemon loses none and keeps every id`, async (t) => {
  const sandbox = await openSandbox({
    tables: {
      webhooks:
        'allow = ["127.0.0.0/8"]\ntimeout = "2s"\nretries = ["20ms", "50ms", "100ms", "1s", "1s", "1s", "1s", "5s", "5s", "1m"]\nprobe_interval = "100ms"',
    },
  });
  t.teardown(() => sandbox.close());
  const apiKey = await sandbox.issueKey('loud', 'acme', '--scopes', 'jobs:create,jobs:read,webhooks:manage');
  // A good one, one that fails now and then and is slow, and one that nobody answers at.
  const good = await Receiver.open(t);
  const fickle = await Receiver.open(t, (res, received, nth) => {
    if (nth % 5 === 0) res.socket?.destroy();
    else if (nth % 7 === 0) res.writeHead(503).end();
    else setTimeout(() => OK(res, received, nth), 20);
  });
  const dead = await Receiver.open(t, () => {});
  let daemon = await sandbox.start();
  const client = await Client.connect(sandbox.url, apiKey);
  for (const receiver of [good, fickle, dead]) {
    const made = await client.request('POST', '/v1/webhook-endpoints', {
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ url: receiver.url }),
    });
    receiver.secrets = [made.json<{ secret: string }>().secret];
  }

  const promised = new Set<string>();
  let isDone = false;
  const post = async () => {
    for (let n = 0; !isDone; n++) {
      const fields = { mode: n % 2 === 0 ? 'async' : 'blocking', customer_reference: `reference ${n}` };
      const answer = await client.seal(pdfOf(String(random())), fields).catch(() => undefined);
      if (answer?.status === 202) promised.add(answer.json<JobBody>().id);
      else await sleep(20);
    }
  };
  const posting = Array.from({ length: CLIENTS }, post);
  for (let kill = 0; kill < KILLS; kill++) {
    const before = promised.size;
    await until('jobs are promised', () => promised.size >= before + 2);
    await sleep(random() * 300);
    await daemon.kill();
    daemon = await sandbox.start();
  }
  isDone = true;
  await Promise.all(posting);

  t.ok(promised.size > KILLS, `${promised.size} jobs were promised`);
  for (const receiver of [good, fickle]) {
    await until('every promised job was told', () => {
      const told = receiver.counts();
      return [...promised].every((id) => told.has(id.replace('job_', 'msg_')));
    });
    t.strictSame(receiver.refused, [], 'the stock verifier takes every one');
    const bodies = Map.groupBy(receiver.received, ({ webhookId }) => webhookId);
    for (const [webhookId, repeats] of bodies) {
      const [{ event } = { event: undefined }] = repeats;
      client.check.checkSchema('WebhookEvent', repeats[0]?.body ?? '');
      if (new Set(repeats.map(({ body }) => body)).size > 1) t.fail(`${webhookId} changed`);
      if (event?.data.id !== webhookId.replace('msg_', 'job_'))
        t.fail(`${webhookId} is about ${event?.data.id}`);
      if (event?.type !== 'job.completed' || event.data.phase !== 'completed')
        t.fail(`${webhookId}: ${event?.type}`);
      if (!/^reference \d+$/.test(String(event?.data.customer_reference)))
        t.fail(`${webhookId} lost its reference`);
    }
  }
  t.strictSame(dead.refused, []);
  t.comment(
    `${promised.size} jobs; ${good.received.length}, ${fickle.received.length}, ${dead.received.length} deliveries`,
  );
  const metrics = parseMetrics((await askAdmin(sandbox, '/metrics')).text);
  t.ok((sampleOf(metrics, 'pdfseal_webhooks_pending') ?? 0) >= promised.size, 'what the dead one is owed');
  t.equal(sampleOf(metrics, 'pdfseal_webhook_endpoints', { state: 'enabled' }), 3);
  t.ok((sampleOf(metrics, 'pdfseal_webhooks_delivered_total') ?? 0) >= promised.size);
  t.equal(await daemon.stop(), 0);
});
