import { execFile } from 'node:child_process';
import { closeSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { openTestApp, pdfOf } from '../support/app.ts';
import type { Envelope, JobBody } from '../support/client.ts';
import { pidOf } from '../support/partitions.ts';
import { until } from '../support/until.ts';
import { parseAnswer, slowUpload, Wire, type WireAnswer } from '../support/wire.ts';

const run = promisify(execFile);
const codeOf = (answer: WireAnswer) => `${answer.status} ${(JSON.parse(answer.text) as Envelope).error.code}`;

t.test('the body is requested only if the head of the request is accepted', async (t) => {
  const { server, client, issue } = await openTestApp(t, { documentBytesMax: 1000 });
  const type = 'multipart/form-data; boundary=b';
  const cases: [string, Record<string, string>, string][] = [
    ['no key', { Authorization: '' }, '401 authentication_required'],
    ['a wrong key', { Authorization: 'Bearer x' }, '401 invalid_api_key'],
    ['no scope', { Authorization: `Bearer ${await issue({ scopes: [] })}` }, '403 insufficient_scope'],
    ['a wrong type', { 'Content-Type': 'text/plain' }, '415 unsupported_media_type'],
    ['no boundary', { 'Content-Type': 'multipart/form-data' }, '400 malformed_multipart'],
    ['a short key', { 'Idempotency-Key': 'short' }, '400 invalid_idempotency_key'],
    ['too large', { 'Content-Length': '1000000' }, '413 document_too_large'],
  ];
  for (const [what, headers, expected] of cases) {
    const fields = {
      Authorization: `Bearer ${client.apiKey}`,
      'Content-Type': type,
      'Content-Length': '500',
      ...headers,
    };
    const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`);
    const wire = new Wire(server.port);
    wire.send(`POST /v1/jobs/seal HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n${lines.join('')}\r\n`);
    await wire.until(/\r\n\r\n.*\}\}$/s);
    const answer = parseAnswer(wire.received);
    t.equal(codeOf(answer), expected, what);
    t.equal(answer.headers.get('Connection'), 'close', what);
    wire.destroy();
  }
  const good = await slowUpload(client, pdfOf('good'));
  t.equal((await good.finish()).status, 202);
});

t.test('other expectations are ignored', async (t) => {
  const { client } = await openTestApp(t);
  const wire = new Wire(Number(new URL(client.baseUrl).port));
  wire.send('GET /v1/nothing HTTP/1.1\r\nHost: a\r\nExpect: miracles\r\nConnection: close\r\n\r\n');
  await wire.closed;
  t.equal(codeOf(parseAnswer(wire.received)), '404 not_found');
});

t.test('curl shows a refusal that comes before its upload is complete', async (t) => {
  const { client } = await openTestApp(t, { documentBytesMax: 1_000_000 });
  const path = join(t.testdir(), 'large.pdf');
  const file = openSync(path, 'w');
  writeSync(file, '%PDF-1.7');
  writeSync(file, '%%EOF', 50_000_000);
  closeSync(file);
  const upload = async (apiKey: string, ...more: string[]) => {
    const { stdout } = await run('curl', [
      ...['--silent', '--show-error', '--max-time', '15', '--write-out', ' %{http_code}', ...more],
      ...[
        '--header',
        `Authorization: Bearer ${apiKey}`,
        '--form',
        'visibility=private',
        '--form',
        `file=@${path}`,
      ],
      `${client.baseUrl}/v1/jobs/seal`,
    ]);
    return stdout;
  };
  const chunked = ['--header', 'Transfer-Encoding: chunked'];
  const eager = ['--header', 'Expect:'];
  t.match(await upload('nonsense'), /invalid_api_key.* 401$/);
  t.match(await upload('nonsense', ...eager), /invalid_api_key.* 401$/);
  t.match(await upload(client.apiKey ?? ''), /document_too_large.* 413$/);
  t.match(await upload(client.apiKey ?? '', ...eager), /document_too_large.* 413$/);
  t.match(await upload(client.apiKey ?? '', ...eager, ...chunked), /document_too_large.* 413$/);
});

t.test('a drain finishes requests under way and refuses the rest', async (t) => {
  const app = await openTestApp(t, { partitions: { signTimeoutMs: 30_000 } });
  const { client, server, partitions } = app;
  const request = `GET /v1/jobs HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${client.apiKey}\r\n\r\n`;
  const pid = pidOf(partitions);
  process.kill(pid, 'SIGSTOP');
  const held = client.seal(pdfOf('held'), { mode: 'blocking' });
  await until('the job accepted', () => app.sealer.waitingCount === 1);
  const receiving = await slowUpload(client, pdfOf('receiving'));
  const idle = new Wire(server.port);
  idle.send(request);
  await idle.until(/\}$/);
  const late = new Wire(server.port);
  late.send(request.slice(0, 30));
  await new Promise((resolve) => late.socket.once('ready', resolve));
  await until('the late head begun', () => late.socket.bytesWritten === 30);
  await client.get('/v1/jobs');

  const drained = server.drain(20_000);
  t.strictSame(await idle.closed, { reset: false }, 'idle connections are closed');
  await t.rejects(fetch(client.baseUrl), 'no new connections');
  late.send(request.slice(30));
  await late.closed;
  const refused = parseAnswer(late.received);
  t.equal(codeOf(refused), '503 shutting_down');
  t.equal(refused.headers.get('Connection'), 'close');
  t.ok(Number(refused.headers.get('Retry-After')) > 0);
  t.equal((await receiving.finish()).status, 202, 'an upload under way is accepted');
  process.kill(pid, 'SIGCONT');
  const answer = await held;
  t.equal(answer.json<JobBody>().phase, 'completed');
  t.equal(answer.headers.get('Connection'), 'close');
  await drained;
});

t.test('a drain ends in time whatever clients do', async (t) => {
  const { client, server } = await openTestApp(t);
  const receiving = await slowUpload(client, pdfOf('never'));
  await server.drain(100);
  await t.rejects(receiving.finish());
});

t.test('an address in use is reported with its configuration key', async (t) => {
  const { server } = await openTestApp(t);
  await t.rejects(openTestApp(t, { server: { listen: [{ host: '127.0.0.1', port: server.port }] } }), {
    name: 'OperatorError',
    message: /http\.listen/,
  });
});
