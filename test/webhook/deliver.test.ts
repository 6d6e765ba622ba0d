import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import t, { type Test } from 'tap';
import { EgressAway } from '../../src/web/egressClient.ts';
import { NoAnswer } from '../../src/web/noAnswer.ts';
import { newSecret } from '../../src/webhook/signature.ts';
import { sampleJob } from '../store/samples.ts';
import { HOSTILITIES, openHostile, TLS_HOSTILITIES } from '../support/hostile.ts';
import { answerWith, OK, Receiver } from '../support/receiver.ts';
import { openSource } from '../support/sources.ts';
import { until } from '../support/until.ts';
import { clientOf, openDeliveryRig } from './deliverer.ts';

const ALL = { limit: 1000 };

t.test('an event is delivered once, signed, with the job as its data', async (t) => {
  const rig = await openDeliveryRig(t);
  const receiver = await Receiver.open(t);
  const endpoint = await rig.endpoint(receiver);
  const customerReference = 'Ω ref\u0001\n"x" 😀';
  const [webhookId] = await rig.seal(endpoint, 1, { customerReference });
  await until(
    'it is delivered',
    async () => (await rig.store.webhooks.outbox.tally(endpoint.id)).delivered === 1,
  );
  await until(
    'and gone',
    async () => (await rig.store.webhooks.outbox.pending(endpoint.id, ALL)).length === 0,
  );
  t.equal(receiver.received.length, 1);
  t.strictSame(receiver.refused, []);
  const [{ event, headers } = { event: undefined, headers: {} }] = receiver.received;
  const id = webhookId?.replace('msg_', 'job_');
  t.strictSame(Object.keys(event ?? {}), ['type', 'timestamp', 'data']);
  t.match(event, { type: 'job.completed', data: { id, kind: 'sealed', reference: customerReference } });
  t.match(event?.timestamp, /^\d{4}-.*Z$/);
  t.match(headers, { 'webhook-id': webhookId, 'content-type': 'application/json', 'user-agent': 'pdfseald' });

  const job = sampleJob({ clientId: endpoint.clientId });
  await rig.store.jobs.accept(job);
  await rig.store.jobs.fail(job.id, {
    code: 'kms_partition_unavailable',
    message: 'gave up',
    failedAt: Date.now(),
  });
  await until('the failure came', () => receiver.received.length === 2);
  t.match(receiver.received[1]?.event, { type: 'job.failed', data: { id: job.id, kind: 'failed' } });

  const test = await rig.store.webhooks.outbox.test(endpoint.id);
  await until('the test message came', () => receiver.received.some(({ webhookId }) => webhookId === test));
  t.match(receiver.received.at(-1)?.event, { type: 'webhook.test', data: { endpoint_id: endpoint.id } });
});

t.test('during a rotation both secrets verify, and after it only the new one signs', async (t) => {
  const rig = await openDeliveryRig(t);
  const receiver = await Receiver.open(t);
  const [current, old] = [newSecret(), newSecret()];
  const expiresAt = Date.now() + 60_000;
  const endpoint = await rig.endpoint(receiver, {
    secrets: [{ secret: current }, { secret: old, expiresAt }],
  });
  await rig.seal(endpoint, 1);
  await until('it came', () => receiver.received.length === 1);
  t.strictSame(receiver.refused, []);
  t.match(receiver.received[0]?.headers['webhook-signature'], /^v1,\S{44} v1,\S{44}$/);
  await rig.store.webhooks.endpoints.change(
    endpoint.id,
    (one) => ({
      ...one,
      secrets: [{ secret: current }, { secret: old, expiresAt: Date.now() }],
    }),
    null,
  );
  receiver.secrets = [current];
  await rig.seal(endpoint, 1);
  await until('the next one came', () => receiver.received.length === 2);
  t.match(receiver.received[1]?.headers['webhook-signature'], /^v1,\S{44}$/);
  t.strictSame(receiver.refused, []);
});

t.test(
  'a failed delivery is repeated on schedule with the same id and body, then a dead letter',
  async (t) => {
    const rig = await openDeliveryRig(t);
    const receiver = await Receiver.open(t, answerWith(500));
    const endpoint = await rig.endpoint(receiver);
    const [webhookId] = await rig.seal(endpoint, 1);
    const letters = () => rig.store.webhooks.outbox.deadLetters(endpoint.id, ALL);
    await until('it is given up', async () => (await letters()).length === 1);
    t.equal(receiver.received.length, 4);
    t.strictSame([...receiver.counts().keys()], [webhookId]);
    t.equal(new Set(receiver.received.map(({ body }) => body)).size, 1);
    t.strictSame(receiver.refused, []);
    t.match(await letters(), [
      { webhookId, death: 'exhausted', attempts: 4, failure: { reason: 'http_500' } },
    ]);
    t.match(await rig.deliverer().status(), {
      endpoints: 1,
      failing: 1,
      pending: 0,
      deadLetters: 1,
      failures: 4,
    });

    receiver.answering = OK;
    t.equal(await rig.store.webhooks.outbox.replay(endpoint.id, undefined, null), 1);
    await until(
      'the replay is delivered',
      async () => (await rig.store.webhooks.outbox.tally(endpoint.id)).delivered === 1,
    );
    t.strictSame(receiver.counts(), new Map([[webhookId, 5]]));
    t.match(await rig.deliverer().status(), { failing: 0, pending: 0, deadLetters: 0 });
  },
);

t.test('any status but 2xx, a redirect and an unreachable address are failures', async (t) => {
  const rig = await openDeliveryRig(t, { retryDelaysMs: [], timeoutMs: 4000 });
  const elsewhere = await Receiver.open(t);
  const reasons = async (t: Test, url: string): Promise<string | undefined> => {
    const endpoint = await rig.endpoint({ url, secrets: [] });
    await rig.seal(endpoint, 1);
    const letters = () => rig.store.webhooks.outbox.deadLetters(endpoint.id, ALL);
    await until(`it is given up: ${t.name}`, async () => (await letters()).length === 1);
    return (await letters())[0]?.failure?.reason;
  };
  for (const status of [199, 300, 304, 307, 400, 404, 429, 503]) {
    const redirecting = await Receiver.open(t, answerWith(status, { Location: elsewhere.url }));
    const reason = await reasons(t, redirecting.url);
    t.equal(reason, status === 199 ? 'timeout' : `http_${status}`, String(status));
  }
  t.strictSame(elsewhere.received, [], 'no redirect is followed');

  const nobody = await openSource(t, () => {});
  t.match(await reasons(t, nobody.origin.replace('127.0.0.1', '10.0.0.1')), 'not_allowed');
  t.match(await reasons(t, 'http://no-such-name.invalid/'), /name_not_found/);
});

t.test('an answer that is not HTTP is a failure, unless it has already given a status', async (t) => {
  // What a rule ends is to be told from what only the time-out ends.
  const rigs = {
    late: await openDeliveryRig(t, { retryDelaysMs: [], timeoutMs: 50 }),
    inTime: await openDeliveryRig(t, { retryDelaysMs: [], timeoutMs: 60_000 }),
  };
  for (const [scheme, hostilities] of [
    ['http', HOSTILITIES],
    ['https', TLS_HOSTILITIES],
  ] as const) {
    for (const hostility of hostilities) {
      const { name, stage, reason } = hostility;
      const server = await openHostile(t, hostility);
      const rig = reason === 'timeout' && stage !== 'body' ? rigs.late : rigs.inTime;
      const endpoint = await rig.endpoint({ url: `${scheme}://${server.host}/hook`, secrets: [] });
      await rig.seal(endpoint, 1);
      const tally = () => rig.store.webhooks.outbox.tally(endpoint.id);
      await until(`it is settled: ${name}`, async () => (await tally()).pending === 0);
      t.match(
        await tally(),
        stage === 'body' ? { delivered: 1 } : { delivered: 0, failure: { reason } },
        name,
      );
      await server.left();
    }
  }
});

t.test('over TLS, nothing is sent without a trusted certificate for the name', async (t) => {
  const [own, other] = [makeCertificate(t, 'IP:127.0.0.1'), makeCertificate(t, 'DNS:other.example')];
  const cases: [tls: typeof own, ca: string | undefined, isDelivered: boolean][] = [
    [own, own.cert, true],
    [own, undefined, false],
    [own, other.cert, false],
    [other, other.cert, false],
  ];
  const rig = await openDeliveryRig(t, { retryDelaysMs: [] });
  for (const [tls, ca, isDelivered] of cases) {
    await rig.restart({ client: clientOf(ca) });
    const receiver = await Receiver.open(t, OK, tls);
    const endpoint = await rig.endpoint(receiver);
    await rig.seal(endpoint, 1);
    const tally = () => rig.store.webhooks.outbox.tally(endpoint.id);
    await until('it is settled', async () => (await tally()).pending === 0);
    t.match(
      await tally(),
      isDelivered ? { delivered: 1 } : { delivered: 0, failure: { reason: 'tls_failed' } },
    );
    t.equal(receiver.received.length, isDelivered ? 1 : 0);
  }
});

/** Self-signed, for that alternative name. */
function makeCertificate(t: Test, altName: string): { key: string; cert: string } {
  const dir = t.testdir();
  const [key, cert] = [`${dir}/${altName}.key`, `${dir}/${altName}.pem`];
  const name = ['-subj', '/CN=receiver', '-addext', `subjectAltName=${altName}`];
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
  execFileSync('openssl', ['req', '-x509', ...curve, ...name, '-keyout', key, '-out', cert], {
    stdio: 'ignore',
  });
  return { key: readFileSync(key, 'utf8'), cert: readFileSync(cert, 'utf8') };
}

t.test('an answer is complete with its head, whatever its body does', async (t) => {
  const rig = await openDeliveryRig(t);
  const flooding = await Receiver.open(t, (res) => {
    const more = () => {
      while (!res.destroyed && res.write('x'.repeat(65_536)));
    };
    res.on('drain', more);
    more();
  });
  const dripping = await Receiver.open(t, (res) => void res.write('x'));
  for (const receiver of [flooding, dripping]) {
    const endpoint = await rig.endpoint(receiver);
    await rig.seal(endpoint, 1);
    await until(
      'it is delivered',
      async () => (await rig.store.webhooks.outbox.tally(endpoint.id)).delivered === 1,
    );
    await until('and its connection is cut', () => receiver.sockets.size === 0);
    t.equal(receiver.received.length, 1);
  }
});

t.test('410 disables the endpoint, and enabling it resumes the rest', async (t) => {
  const rig = await openDeliveryRig(t);
  const receiver = await Receiver.open(t, answerWith(410));
  const endpoint = await rig.endpoint(receiver);
  const [first] = await rig.seal(endpoint, 1);
  const stored = () => rig.store.webhooks.endpoints.get(endpoint.id);
  await until('it is disabled', async () => (await stored())?.disabled?.reason === 'gone');
  await rig.seal(endpoint, 1);
  t.match(
    await rig.store.webhooks.outbox.pending(endpoint.id, ALL),
    [{ webhookId: first }],
    'nothing more is queued',
  );
  t.match(await rig.deliverer().status(), { disabled: 1 });
  receiver.answering = OK;
  await rig.store.webhooks.endpoints.change(endpoint.id, ({ disabled: _, ...one }) => one, null);
  await until(
    'the rest is delivered',
    async () => (await rig.store.webhooks.outbox.tally(endpoint.id)).delivered === 1,
  );
  t.strictSame(receiver.counts(), new Map([[first, 2]]));
});

t.test('Retry-After delays all deliveries of an endpoint', async (t) => {
  const rig = await openDeliveryRig(t, { perEndpointMax: 1 });
  const receiver = await Receiver.open(t, (res, received, nth) => {
    if (nth === 1) answerWith(429, { 'Retry-After': '1' })(res, received, nth);
    else OK(res, received, nth);
  });
  const endpoint = await rig.endpoint(receiver);
  await rig.seal(endpoint, 3);
  await until(
    'all are delivered',
    async () => (await rig.store.webhooks.outbox.tally(endpoint.id)).delivered === 3,
  );
  const [first, second] = receiver.received;
  t.ok((second?.at ?? 0) - (first?.at ?? 0) >= 990, 'nothing is sent before');
  t.equal(receiver.received.length, 4);
});

t.test('a test message is tried at once, and does not mark a failing endpoint as good', async (t) => {
  const rig = await openDeliveryRig(t, {
    retryDelaysMs: Array(20).fill(600_000),
    probeIntervalMs: 3_600_000,
  });
  let underWay = 0;
  let most = 0;
  const receiver = await Receiver.open(t, (res) => {
    underWay += 1;
    most = Math.max(most, underWay);
    setTimeout(() => {
      underWay -= 1;
      res.writeHead(500).end();
    }, 50);
  });
  const endpoint = await rig.endpoint(receiver);
  const failures = async () => (await rig.store.webhooks.outbox.tally(endpoint.id)).failures;
  await rig.seal(endpoint, 4);
  await until('it is a failing one', async () => (await rig.deliverer().status()).failing === 1);
  await rig.seal(endpoint, 8);
  most = 0;
  const before = await failures();
  for (let n = 1; n <= 3; n++) {
    await rig.store.webhooks.outbox.test(endpoint.id);
    await until('one more was tried', async () => (await failures()) >= before + n);
  }
  t.equal(most, 1, 'one at a time');
  t.match(await rig.deliverer().status(), { failing: 1 });
});

t.test('a date that jumps makes no message overdue, and does not hasten repeats', async (t) => {
  let jumpMs = 0;
  const clock = () => Date.now() + jumpMs;
  const rig = await openDeliveryRig(t, { retryDelaysMs: [600_000], deadLetterMs: 600_000, clock });
  const receiver = await Receiver.open(t, answerWith(500));
  const endpoint = await rig.endpoint(receiver);
  await rig.seal(endpoint, 1);
  await until(
    'it failed once',
    async () => (await rig.store.webhooks.outbox.tally(endpoint.id)).failures === 1,
  );
  for (const days of [4, -4, 400]) {
    jumpMs = days * 86_400_000;
    await rig.restart();
    const { serviceTime } = rig.store;
    const bounds = { dueBefore: serviceTime.before(600_000), diedBefore: serviceTime.before(600_000) };
    t.equal(await rig.store.webhooks.outbox.sweep(bounds), 0);
    await rig.store.webhooks.outbox.test(endpoint.id);
    await until('the test was tried', () =>
      receiver.received.some(({ event }) => event.type === 'webhook.test'),
    );
    receiver.received.length = 0;
  }
  const pending = await rig.store.webhooks.outbox.pending(endpoint.id, ALL);
  t.match(
    pending.find(({ type }) => type === 'job.completed'),
    { attempts: 1 },
    'still once',
  );
  t.same(await rig.store.webhooks.outbox.deadLetters(endpoint.id, ALL), []);
});

t.test('after a crash sets service time back, untried messages are sent at once', async (t) => {
  let servedMs = 50_000;
  const rig = await openDeliveryRig(t, { monotonicMs: () => performance.now() + servedMs });
  const receiver = await Receiver.open(t);
  const endpoint = await rig.endpoint(receiver);
  await rig.deliverer().close();
  await rig.seal(endpoint, 3);
  servedMs = 0;
  await rig.restart();
  const pending = async () => (await rig.store.webhooks.outbox.pending(endpoint.id, ALL)).length;
  await until('nothing waits for the minute that was lost', async () => (await pending()) === 0, 30);
  t.equal(receiver.counts().size, 3);
});

t.test('dead endpoints do not delay others', async (t) => {
  const rig = await openDeliveryRig(t, { timeoutMs: 5000, probeIntervalMs: 60_000, inFlightMax: 16 });
  const dead = await Promise.all(Array.from({ length: 8 }, () => Receiver.open(t, () => {})));
  const healthy = await Receiver.open(t);
  const deadEndpoints = await Promise.all(dead.map((receiver) => rig.endpoint(receiver)));
  for (const endpoint of deadEndpoints) await rig.seal(endpoint, 200);
  const endpoint = await rig.endpoint(healthy);
  await until('as many places are taken as the dead may take', async () => {
    return (await rig.deliverer().status()).inFlight >= 12;
  });
  await rig.seal(endpoint, 100);
  await until('the healthy one has everything', () => healthy.counts().size === 100);
  t.strictSame(healthy.refused, []);
  t.equal((await rig.store.webhooks.outbox.tally(deadEndpoints[0]?.id ?? '')).delivered, 0);
  await until('the dead are known as such', async () => (await rig.deliverer().status()).failing === 8);
  const before = dead.map(({ received }) => received.length);
  t.ok(
    before.every((count) => count <= 12),
    `they were tried ${before} times, of 200 deliveries each`,
  );
});

t.test('a delivery under way at a stop is repeated with its id', async (t) => {
  const rig = await openDeliveryRig(t);
  const receiver = await Receiver.open(t, () => {});
  const endpoint = await rig.endpoint(receiver);
  const sent = await rig.seal(endpoint, 3);
  await until('it is under way', () => receiver.received.length === 3);
  receiver.answering = OK;
  await rig.restart();
  await until(
    'all are delivered',
    async () => (await rig.store.webhooks.outbox.tally(endpoint.id)).delivered === 3,
  );
  t.strictSame(receiver.counts(), new Map(sent.map((id) => [id, 2])));
  t.match(
    await rig.store.webhooks.outbox.tally(endpoint.id),
    { failures: 0 },
    'which is no failure of the endpoint',
  );
});

t.test('connections are kept, and one that was closed meanwhile is not a failure', async (t) => {
  const rig = await openDeliveryRig(t, { perEndpointMax: 1 });
  let cut = false;
  const connections = new Set<number>();
  const receiver = await Receiver.open(t, (res, _, nth) => {
    connections.add(res.socket?.remotePort ?? 0);
    res.writeHead(200).end();
    if (nth === 20 && !cut) {
      cut = true;
      setImmediate(() => res.socket?.destroy());
    }
  });
  const endpoint = await rig.endpoint(receiver);
  await rig.seal(endpoint, 40);
  await until(
    'all are delivered',
    async () => (await rig.store.webhooks.outbox.tally(endpoint.id)).delivered === 40,
  );
  t.ok(connections.size <= 3, `${connections.size} connections`);
  t.match(await rig.store.webhooks.outbox.tally(endpoint.id), { failures: 0 });
});

t.test('while the egress process is away, no attempt is charged to an endpoint', async (t) => {
  const client = clientOf();
  let isAway = true;
  let asked = 0;
  const rig = await openDeliveryRig(t, {
    retryDelaysMs: [],
    client: {
      exchange: async (...request) => {
        asked += 1;
        if (isAway) throw new EgressAway(new NoAnswer('timeout', 'it hangs'));
        return client.exchange(...request);
      },
      close: () => client.close(),
    },
  });
  const receiver = await Receiver.open(t);
  const endpoint = await rig.endpoint(receiver);
  await rig.seal(endpoint, 1);
  await until('it was tried twice', () => asked >= 2);
  isAway = false;
  await until('it is delivered', () => receiver.received.length === 1);
  const tally = () => rig.store.webhooks.outbox.tally(endpoint.id);
  await until('it is settled', async () => (await tally()).delivered === 1);
  t.match(await tally(), { failures: 0, deadLetters: 0 });
});
