/** Batches beyond the rate of their client, and batches of several clients at once. */
import t, { type Test } from 'tap';
import { Limits } from '../../src/limits/limits.ts';
import type { LimitPolicies } from '../../src/limits/policies.ts';
import { openTestApp, type TestOptions } from '../support/app.ts';
import { BatchStream, digestLines, sealBatch } from '../support/client.ts';
import { NO_LIMITS } from '../support/limits.ts';
import { until } from '../support/until.ts';
import { Wire } from '../support/wire.ts';

const MINUTE_MS = 60_000;

/** An app whose rates go on only when the test says so. */
async function openLimited(t: Test, policies: Partial<LimitPolicies>, options: TestOptions = {}) {
  const time = { now: Date.UTC(2026, 0, 2) };
  const clock = () => time.now;
  const limits = new Limits({ ...NO_LIMITS, ...policies }, [], clock, undefined, clock);
  const take = limits.tryTakeRequest.bind(limits);
  const pauses = { count: 0 };
  t.intercept(limits, 'tryTakeRequest', {
    value: (clientId: string) => {
      const isTaken = take(clientId);
      if (!isTaken) pauses.count += 1;
      return isTaken;
    },
  });
  const app = await openTestApp(t, { ...options, app: { limits, ...options.app } });
  const url = `http://127.0.0.1:${app.server.port}`;
  const pass = (ms: number) => {
    time.now += ms;
  };
  /** Resolves when a batch has paused so many times more. */
  const paused = async (more: number) => {
    const enough = pauses.count + more;
    await until('it pauses', () => pauses.count >= enough);
  };
  return { ...app, url, limits, pass, paused, apiKey: await app.issue() };
}

const rate = (requests: number) => ({ rate: { requests, windowMs: MINUTE_MS } });

t.test('beyond the rate, a batch pauses, and goes on when the rate allows', async (t) => {
  const quotas = { default: { jobs: 1_000, windowMs: 24 * 60 * MINUTE_MS } };
  const options = { bodyIdleTimeoutMs: 300 };
  const { url, apiKey, store, pass, paused, log } = await openLimited(t, { ...rate(5), quotas }, options);
  const stream = new BatchStream(url, apiKey);
  stream.send(...digestLines(12, { mode: 'blocking' }));
  await stream.until(5);
  // Each pause is longer than a sender may be silent.
  await paused(3);
  t.equal(stream.answers.length, 5, 'no line is refused, and each is counted once');
  pass(MINUTE_MS);
  await stream.until(10);
  await paused(1);
  t.equal(stream.answers.length, 10);
  pass(MINUTE_MS);
  await stream.until(12);
  stream.request.end();
  const answers = await stream.ended;
  t.strictSame(
    answers.map(({ status, replayed }) => `${status} ${replayed}`),
    Array(12).fill('202 undefined'),
  );
  t.match(await store.jobs.quotaCounts(), [{ jobs: 12 }], 'of the quota, each line takes one job');
  const line = log().find(({ msg }) => msg === 'a batch was answered');
  t.match(line, { lines: 12, accepted: 12, refused: 0 });
  t.ok(Number(line?.paused_ms) >= 4_000, 'the log says for how long it paused');
});

t.test('a batch that pauses does not read its body', async (t) => {
  const { server, apiKey, limits, paused } = await openLimited(t, rate(5), {
    server: { silenceMsMax: 1_500 },
  });
  const wire = new Wire(server.port);
  // More than sockets hold.
  const body = digestLines(1_000)
    .map((line) => `${line}${' '.repeat(15_000)}\n`)
    .join('');
  const head = [
    'POST /v1/batches/seal HTTP/1.1',
    'Host: localhost',
    `Authorization: Bearer ${apiKey}`,
    'Content-Type: application/x-ndjson',
    `Content-Length: ${body.length}`,
    'Connection: close',
  ];
  wire.send(`${head.join('\r\n')}\r\n\r\n`);
  let isSent = false;
  wire.socket.write(body, () => {
    isSent = true;
  });
  await wire.until(/"line":5,/);
  // In between, the connection is silent for longer than it may be within a request.
  await paused(3);
  t.notOk(isSent, 'the rest of the body is still with the sender');
  t.notMatch(wire.received, /"line":6,/);
  limits.update(NO_LIMITS);
  await wire.closed;
  t.equal(wire.received.match(/"status":202/g)?.length, 1_000);
});

t.test('a client that goes away ends its batch, also during a pause', async (t) => {
  const { url, apiKey, client, store, log, paused, sealer, issue } = await openLimited(t, rate(5), {
    app: { batchesMax: 1 },
  });
  const ended = () => log().filter(({ msg }) => msg === 'a batch was answered').length;
  for (const isWhole of [false, true]) {
    const before = ended();
    const stream = new BatchStream(url, await issue({ clientId: `whole: ${isWhole}` }));
    stream.send(...digestLines(12));
    if (isWhole) stream.request.end();
    await stream.until(5);
    await paused(1);
    stream.destroy();
    await until('its end', () => ended() > before);
  }
  await until('all are sealed', () => sealer.waitingCount === 0);
  t.equal((await store.log.head())?.treeSize, 10, 'no other line was carried out');
  const headers = { 'Content-Type': 'application/x-ndjson' };
  const next = await client.as(apiKey).request('POST', '/v1/batches/seal', { headers, body: '\n' });
  t.equal(next.status, 200, 'the place of the batch is free');
});

t.test('blocking lines under way are bounded, and another client is served among them', async (t) => {
  const { url, apiKey, sealer, partitions, issue } = await openLimited(
    t,
    {},
    {
      app: { batchesMax: 16 },
      sealer: { batchJobsMax: 4_096 },
    },
  );
  const sign = partitions.sign.bind(partitions);
  const gate = Promise.withResolvers<void>();
  t.intercept(partitions, 'sign', {
    value: async (...sent: Parameters<typeof sign>) => {
      await gate.promise;
      return sign(...sent);
    },
  });
  const greedy = Array.from({ length: 4 }, () => new BatchStream(url, apiKey));
  for (const [n, stream] of greedy.entries())
    stream.send(...digestLines(1_000, { mode: 'blocking', idempotency_key: undefined, purpose: `${n}` }));
  for (const stream of greedy) stream.request.end();
  await until('as many as there may be', () => sealer.waitingCount === 256);
  const modest = sealBatch(url, await issue({ clientId: 'modest' }), digestLines(40, { mode: 'blocking' }));
  await until('the lines of another client are under way', () => sealer.waitingCount === 296);
  gate.resolve();
  t.ok((await modest).every(({ job }) => job?.phase === 'completed'));
  const answered = greedy.reduce((sum, { answers }) => sum + answers.length, 0);
  t.ok(answered < 4_000, `${answered} lines of the other were answered before`);
  for (const stream of greedy) t.ok((await stream.ended).every(({ job }) => job?.phase === 'completed'));
});
