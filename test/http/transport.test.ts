import { setTimeout } from 'node:timers/promises';
import t from 'tap';
import { openTestApp } from '../support/app.ts';
import type { Envelope } from '../support/client.ts';
import { exchange, parseAnswer, Wire, type WireAnswer } from '../support/wire.ts';

const { client, server, store, log, fatal } = await openTestApp(t, { server: { headerTimeoutMs: 3000 } });
const codeOf = (answer: WireAnswer) => `${answer.status} ${(JSON.parse(answer.text) as Envelope).error.code}`;
const send = (request: string) => exchange(server.port, request, client.check);
const get = (target: string, headers = '') =>
  `GET ${target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${headers}\r\n`;
const KEY = `Authorization: Bearer ${client.apiKey}\r\n`;

t.test('a request that is not HTTP gets the error envelope', async (t) => {
  const cases: [string, string, string][] = [
    ['noise', 'hello\r\n\r\n', '400 invalid_request'],
    ['TLS', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', '400 invalid_request'],
    ['HTTP/2 preface', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', '400 invalid_request'],
    ['no Host', 'GET /v1/jobs HTTP/1.1\r\nConnection: close\r\n\r\n', '400 invalid_request'],
    ['two Hosts', get('/v1/jobs', 'Host: b\r\n'), '400 invalid_request'],
    ['space before the colon', get('/v1/jobs', 'A : b\r\n'), '400 invalid_request'],
    ['folded header', get('/v1/jobs', 'A: b\r\n c\r\n'), '400 invalid_request'],
    ['bare CR', get('/v1/jobs', 'A: b\rc\r\n'), '400 invalid_request'],
    ['two lengths', get('/v1/jobs', 'Content-Length: 1\r\nContent-Length: 2\r\n'), '400 invalid_request'],
    [
      'length and chunks',
      get('/v1/jobs', 'Content-Length: 1\r\nTransfer-Encoding: chunked\r\n'),
      '400 invalid_request',
    ],
    ['huge header', get('/v1/jobs', `A: ${'a'.repeat(200_000)}\r\n`), '431 headers_too_large'],
    ['huge target', get(`/${'a'.repeat(20_000)}`), '431 headers_too_large'],
    ['very many headers', get('/v1/jobs', 'A: b\r\n'.repeat(10_000)), '431 headers_too_large'],
    ['CONNECT', 'CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n', '405 method_not_allowed'],
  ];
  for (const [what, request, expected] of cases) {
    const answer = await send(request);
    t.equal(codeOf(answer), expected, what);
    t.equal(answer.headers.get('Connection'), 'close', what);
  }
});

t.test('HEAD has no body, even if the request cannot be read', async (t) => {
  for (const request of [
    'HEAD /v1/jobs HTTP/1.1\r\nHost: a\r\nA : b\r\n\r\n',
    `HEAD /${'a'.repeat(20_000)} HTTP/1.1\r\nHost: a\r\n\r\n`,
  ]) {
    const wire = new Wire(server.port);
    wire.send(request);
    await wire.closed;
    t.match(wire.received, /^HTTP\/1\.1 4\d\d [\s\S]*Content-Length: [1-9]\d*\r\n[\s\S]*\r\n\r\n$/);
  }
});

t.test('a tunnel is refused, with the methods of the description', async (t) => {
  const answer = await send('CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n');
  const { paths } = (await client.get('/v1/openapi.json')).json<{ paths: Record<string, object> }>();
  const described = new Set(Object.values(paths).flatMap((operations) => Object.keys(operations)));
  described.delete('parameters');
  const methods = ['HEAD', ...Array.from(described, (method) => method.toUpperCase())];
  t.equal(answer.headers.get('Allow'), methods.sort().join(', '));
});

t.test('a head that stops arriving times out', async (t) => {
  const wire = new Wire(server.port);
  wire.send('GET /v1/jobs HTTP/1.1\r\nHost: a\r\n');
  await wire.closed;
  t.equal(codeOf(parseAnswer(wire.received)), '408 request_timeout');
});

t.test('unusual targets are routed or refused like any other', async (t) => {
  const cases: [string, string, string][] = [
    ['long', get(`/${'a'.repeat(10_000)}`), '404 not_found'],
    ['bad percent-encoding', get('/v1/%zz'), '404 not_found'],
    ['cut percent-encoding', get('/v1/jobs/%', KEY), '404 job_not_found'],
    ['two slashes', get('//v1/jobs'), '404 not_found'],
    ['dots', get('/v1/../v1/jobs'), '404 not_found'],
    ['last slash', get('/v1/jobs/'), '404 not_found'],
    ['upper case', get('/V1/jobs'), '404 not_found'],
    ['backslash', get('/v1\\jobs'), '404 not_found'],
    ['asterisk', 'OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n', '404 not_found'],
    ['absolute form', get('http://b.example/v1/jobs'), '401 authentication_required'],
    ['absolute form of nothing', get('http://b.example'), '404 not_found'],
    ['authority of nonsense', get('http://[::1/v1/jobs'), '400 invalid_request'],
    ['fragment', get('/v1/jobs#x'), '401 authentication_required'],
  ];
  for (const [what, request, expected] of cases) t.equal(codeOf(await send(request)), expected, what);
});

t.test('a wrong method is refused with the allowed ones', async (t) => {
  const allowed: [string, string][] = [
    ['/v1/jobs', 'GET, HEAD'],
    ['/v1/jobs/job_1', 'GET, HEAD'],
    ['/v1/jobs/job_1/receipt.json', 'GET, HEAD'],
    ['/v1/log/tile/0/000', 'GET, HEAD'],
    ['/v1/openapi.json', 'GET, HEAD'],
    ['/v1/jobs/seal', 'POST'],
    ['/v1/webhook-endpoints', 'GET, HEAD, POST'],
    ['/v1/webhook-endpoints/we_1', 'DELETE, GET, HEAD, PATCH'],
    ['/v1/webhook-endpoints/we_1/test', 'POST'],
  ];
  for (const [path, allow] of allowed) {
    for (const method of ['PUT', 'DELETE', 'PATCH', 'OPTIONS', 'TRACE', 'PROPFIND']) {
      if (allow.split(', ').includes(method)) continue;
      const answer = await send(`${method} ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`);
      t.equal(codeOf(answer), '405 method_not_allowed', `${method} ${path}`);
      t.equal(answer.headers.get('Allow'), allow, `${method} ${path}`);
    }
  }
});

t.test('an upgrade is ignored', async (t) => {
  const answer = await send(get('/v1/nothing', 'Connection: Upgrade\r\nUpgrade: websocket\r\n'));
  t.equal(codeOf(answer), '404 not_found');
});

t.test('HEAD is GET without a body', async (t) => {
  for (const path of ['/v1/openapi.json', '/v1/errors/not_a_pdf', '/v1/jobs', '/v1/nothing']) {
    const get = await client.request('GET', path);
    const head = await client.request('HEAD', path);
    t.equal(head.status, get.status, path);
    t.equal(head.text, '');
    for (const name of ['Content-Type', 'Content-Length', 'Cache-Control']) {
      t.equal(head.headers.get(name), get.headers.get(name), `${name} of ${path}`);
    }
  }
});

t.test('a body that breaks off is refused, and the server goes on', async (t) => {
  const head = `POST /v1/jobs/seal HTTP/1.1\r\nHost: a\r\n${KEY}Content-Type: multipart/form-data; boundary=b\r\n`;
  const part = '--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n%PDF-1.7';
  const cut = new Wire(server.port);
  cut.send(`${head}Content-Length: 1000\r\n\r\n${part}`);
  cut.socket.end();
  await cut.closed;
  t.equal(codeOf(parseAnswer(cut.received)), '400 incomplete_body', 'closed for writing');

  const chunked = await send(`${head}Transfer-Encoding: chunked\r\n\r\nzz\r\n`);
  t.equal(codeOf(chunked), '400 invalid_request', 'not a chunk');

  const gone = new Wire(server.port);
  gone.send(`${head}Content-Length: 1000\r\n\r\n${part}`);
  gone.destroy();
  t.equal((await client.get('/v1/jobs')).text, '{"jobs":[]}');
});

t.test('a body whose type or coding is ambiguous is refused', async (t) => {
  const head = `POST /v1/jobs/seal HTTP/1.1\r\nHost: a\r\n${KEY}Connection: close\r\n`;
  const type = 'Content-Type: multipart/form-data; boundary=b\r\n';
  for (const [what, lines] of [
    ['two types', `${type}Content-Type: application/json\r\nContent-Length: 0\r\n`],
    ['the same type twice', `${type}${type}Content-Length: 0\r\n`],
    ['compressed below the chunks', `${type}Transfer-Encoding: gzip, chunked\r\n`],
  ] as const) {
    t.equal(codeOf(await send(`${head}${lines}\r\n0\r\n\r\n`)), '415 unsupported_media_type', what);
  }
});

t.test('requests before a fault are answered before it', async (t) => {
  const open = `GET /v1/openapi.json HTTP/1.1\r\nHost: a\r\n\r\n`;
  for (const before of [
    open,
    open.repeat(3),
    `${open}${open.replace('\r\n\r\n', '\r\nExpect: x\r\n\r\n')}`,
  ]) {
    const wire = new Wire(server.port);
    wire.send(`${before}no HTTP\r\n\r\n`);
    await wire.closed;
    const statuses = wire.received.match(/HTTP\/1\.1 \d{3}/g);
    t.strictSame(statuses, [...before.matchAll(/GET/g)].map(() => 'HTTP/1.1 200').concat('HTTP/1.1 400'));
  }
});

t.test('after a fault nothing more is read', async (t) => {
  const answered = Promise.withResolvers<{ records: [] }>();
  const warnings: Error[] = [];
  const onWarning = (warning: Error) => void warnings.push(warning);
  process.on('warning', onWarning);
  t.teardown(() => process.off('warning', onWarning));
  t.intercept(store.jobs, 'list', { value: () => answered.promise });
  const wire = new Wire(server.port);
  wire.send(`GET /v1/jobs HTTP/1.1\r\nHost: a\r\n${KEY}\r\n`);
  for (let n = 0; n < 20; n++) {
    wire.send('no HTTP\r\n\r\n');
    await setTimeout(5);
  }
  answered.resolve({ records: [] });
  await wire.closed;
  t.strictSame(wire.received.match(/HTTP\/1\.1 \d{3}/g), ['HTTP/1.1 200', 'HTTP/1.1 400']);
  t.strictSame(warnings, [], 'nothing piles up');
});

t.test('whoever sends thousands of requests without a key and goes has a few carried out', async (t) => {
  let answered = 0;
  const onRequest = () => {
    answered += 1;
  };
  const app = await openTestApp(t, { app: { onRequest } });
  for (let attackers = 0; attackers < 4; attackers += 1) {
    const wire = new Wire(app.server.port);
    wire.send('GET / HTTP/1.1\r\n\r\n'.repeat(3_000));
    await wire.until(/HTTP/);
    wire.socket.resetAndDestroy();
  }
  t.equal((await app.client.get('/v1/jobs')).status, 200);
  t.ok(answered < 1_000, `${answered} answered`);
});

t.test('a body that stands still times out', async (t) => {
  const app = await openTestApp(t, { bodyIdleTimeoutMs: 200 });
  const head = `POST /v1/jobs/seal HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${app.client.apiKey}\r\nContent-Length: 1000\r\n`;
  for (const type of ['multipart/form-data; boundary=b', 'application/json']) {
    const wire = new Wire(app.server.port);
    wire.send(`${head}Content-Type: ${type}\r\n\r\n`);
    await wire.until(/\r\n\r\n.*\}\}$/s);
    t.equal(codeOf(parseAnswer(wire.received)), '400 body_timeout', type);
    wire.destroy();
  }
});

t.test('refusals of the transport are logged, and not as errors', async (t) => {
  const lines = log();
  t.ok(lines.some((line) => line.error_code === 'headers_too_large' && line.request_id));
  t.ok(lines.some((line) => line.error_code === 'request_timeout'));
  t.notOk(lines.some((line) => line.level === 'error' || line.level === 'fatal'));
  t.notMatch(JSON.stringify(lines), client.apiKey);
  t.strictSame(fatal, []);
});
