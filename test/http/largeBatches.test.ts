/** Batches with more lines or bytes than there may be, or than anybody reads. */
import t from 'tap';
import { openTestApp, pdfOf } from '../support/app.ts';
import { BatchStream, digestFields, digestLines, type JobBody, problemOf } from '../support/client.ts';
import { until } from '../support/until.ts';
import { Wire } from '../support/wire.ts';

t.test('a batch is bounded', async (t) => {
  const { server, issue } = await openTestApp(t);
  const url = `http://127.0.0.1:${server.port}`;
  const apiKey = await issue();
  const good = JSON.stringify(digestFields(pdfOf('one')));

  await t.test('lines past the limit are refused', async (t) => {
    const stream = new BatchStream(url, apiKey);
    stream.send(...Array(10_001).fill('{}'), good);
    await stream.until(10_001);
    stream.request.end();
    const answers = await stream.ended;
    t.equal(answers.length, 10_001);
    const last = answers.find(({ line }) => line === 10_001);
    t.match(last, { status: 413, error: { code: 'body_too_large', message: '10000 lines' } });
  });

  await t.test('a line that is too long is refused', async (t) => {
    const stream = new BatchStream(url, apiKey);
    stream.send(good);
    await stream.until(1);
    const chunk = 'x'.repeat(1 << 20);
    // 10,000 lines of 16 KiB are 156.25 MiB.
    for (let n = 0; n < 157; n++) {
      const { promise, resolve } = Promise.withResolvers<unknown>();
      if (!stream.request.write(chunk, resolve)) await promise;
    }
    await stream.until(2);
    stream.request.end();
    const answers = await stream.ended;
    t.match(
      answers.sort((a, b) => a.line - b.line),
      [
        { line: 1, status: 202 },
        { line: 2, status: 413, error: { code: 'body_too_large' } },
      ],
    );
  });
});

t.test('answers that are not read do not block the sender, nor other clients for ever', async (t) => {
  const { server, issue, client, sealer } = await openTestApp(t, {
    bodyIdleTimeoutMs: 2_000,
    sealer: { queueJobsMax: 10_000, batchJobsMax: 4_096 },
    app: { batchesMax: 1 },
  });
  const wire = new Wire(server.port);
  wire.socket.pause();
  // More than sockets hold.
  const body = Buffer.from(digestLines(4_000, { mode: 'blocking', receipt: true }).join('\n'));
  const head = [
    'POST /v1/batches/seal HTTP/1.1',
    'Host: localhost',
    `Authorization: Bearer ${await issue()}`,
    'Content-Type: application/x-ndjson',
    `Content-Length: ${body.length}`,
  ];
  wire.send(`${head.join('\r\n')}\r\n\r\n`);
  await new Promise((resolve) => wire.socket.write(body, resolve));
  const headers = { 'Content-Type': 'application/x-ndjson' };
  const other = client.as(await issue({ clientId: 'other' }));
  const send = () => other.request('POST', '/v1/batches/seal', { headers, body: '\n' });
  t.equal(problemOf(await send()), '503 queue_full');
  await until('its place given to others', async () => (await send()).status === 200);
  wire.destroy();
  await until('everything sealed', () => sealer.waitingCount === 0);
  const { jobs } = (await client.get('/v1/jobs?limit=1&phase=completed')).json<{ jobs: JobBody[] }>();
  t.equal(jobs.length, 1);
});
