import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { ApiClient } from '../../src/cli/client/apiClient.ts';
import { type SealOptions, type Submitted, submitDocument } from '../../src/cli/client/sealRequests.ts';
import { digestFile } from '../../src/cli/files.ts';

/** What a server says to one request; `cut` breaks the connection. */
type Answer = { status: number; headers?: Record<string, string>; body?: unknown } | 'cut';

interface Seen {
  method: string | undefined;
  url: string | undefined;
  key: string | undefined;
  authorization: string | undefined;
  body: string;
}

const QUEUED: Answer = {
  status: 202,
  headers: { 'Retry-After': '0' },
  body: { id: 'job_1', phase: 'queued' },
};
const COMPLETED: Answer = { status: 200, body: { id: 'job_1', phase: 'completed' } };

function refusal(status: number, code: string, headers: Record<string, string> = {}): Answer {
  return { status, headers, body: { request_id: 'req_1', error: { type: 'x', code, message: 'because' } } };
}

t.test('temporary failures are retried with the same key and the whole document', async (t) => {
  const { submitted, seen, waits } = await submit(t, [
    'cut',
    { status: 502, body: 'a proxy’s page' },
    refusal(503, 'queue_full', { 'Retry-After': '0' }),
    refusal(429, 'too_many_uploads', { 'Retry-After': '0' }),
    refusal(409, 'idempotency_in_progress', { 'Retry-After': '0' }),
    QUEUED,
    { ...QUEUED, status: 200, body: { id: 'job_1', phase: 'sealing' } },
    refusal(503, 'shutting_down', { 'Retry-After': 'Thu, 01 Jan 2026 00:00:00 GMT' }),
    COMPLETED,
    refusal(404, 'receipt_not_ready', { 'Retry-After': '0' }),
    'receipt',
  ]);
  t.match(submitted, { jobId: 'job_1', replayed: false });
  t.equal(submitted.receipt, await receiptText());
  const creates = seen.filter(({ method }) => method === 'POST');
  t.equal(creates.length, 6);
  t.equal(new Set(creates.map(({ key }) => key)).size, 1);
  t.match(creates[0]?.key, /^pdfseal-[A-Za-z0-9+/=]{44}$/);
  for (const { body, authorization } of creates) {
    t.match(
      body,
      /name="visibility"\r\n\r\nprivate\r\n[\s\S]*name="checksum_sha256"\r\n\r\n[0-9a-f]{64}\r\n/,
    );
    t.match(body, /name="file"; filename="document.pdf"\r\n[\s\S]*\r\n\r\n%PDF-1.7 of a test\r\n--.*--\r\n$/);
    t.equal(authorization, 'Bearer seal_test');
  }
  t.equal(waits.length, 9, 'each pause is told');
});

t.test('the idempotency key follows from the document and its fields', async (t) => {
  const keyOf = async (fields: Record<string, string>): Promise<string | undefined> =>
    (await submit(t, [COMPLETED, 'receipt'], { fields })).seen[0]?.key;
  const [one, same, other] = [
    await keyOf({ visibility: 'private', purpose: 'a' }),
    await keyOf({ purpose: 'a', visibility: 'private' }),
    await keyOf({ visibility: 'private', purpose: 'b' }),
  ];
  t.equal(one, same);
  t.not(one, other);
  const { seen } = await submit(t, [COMPLETED, 'receipt'], { idempotencyKey: 'my-own-key' });
  t.equal(seen[0]?.key, 'my-own-key');
});

t.test('a replay is reported', async (t) => {
  const replay: Answer = { ...COMPLETED, headers: { 'Idempotent-Replayed': 'true' } };
  t.match((await submit(t, [replay, 'receipt'])).submitted, { replayed: true });
});

t.test('a refusal ends the submission, in the service’s words', async (t) => {
  const cases: [name: string, answers: (Answer | 'receipt')[], code: string, message: RegExp][] = [
    ['bad key', [refusal(401, 'invalid_api_key')], 'invalid_api_key', /^because$/],
    ['refused document', [refusal(400, 'not_a_pdf')], 'not_a_pdf', /because/],
    ['other conflict', [refusal(409, 'idempotency_key_reused')], 'idempotency_key_reused', /because/],
    [
      'failed job',
      [
        {
          status: 202,
          body: {
            id: 'job_1',
            phase: 'failed',
            error: { code: 'kms_partition_unavailable', message: 'gone' },
          },
        },
      ],
      'kms_partition_unavailable',
      /gone/,
    ],
    [
      'redirect',
      [{ status: 302, headers: { Location: 'http://127.0.0.1:1/' } }],
      'unexpected_answer',
      /answered 302/,
    ],
    ['not a pdfseald', [{ status: 200, body: '<html>' }], 'unexpected_answer', /not a job/],
    [
      'path in an id',
      [{ status: 202, body: { id: 'job_1/../x', phase: 'queued' } }],
      'unexpected_answer',
      /not a job/,
    ],
    [
      'receipt of another job',
      [{ status: 202, body: { id: 'job_2', phase: 'completed' } }, 'receipt'],
      'unexpected_answer',
      /not for job_2/,
    ],
  ];
  for (const [name, answers, code, message] of cases) {
    await t.rejects(submit(t, answers), { code, message }, name);
  }
});

t.test('a submission times out when its patience ends', async (t) => {
  const away = new ApiClient(new URL('http://127.0.0.1:1'), 'seal_test');
  await t.rejects(submit(t, [], { client: away, patienceMs: 100 }), {
    code: 'timed_out',
    message: /no receipt within 0.1 s \(.*\); run the command again/,
  });
  await t.rejects(submit(t, [refusal(503, 'queue_full', { 'Retry-After': '3600' })]), {
    code: 'timed_out',
    message: /queue_full/,
  });
});

t.test('a refusal is read while the document is still being sent', async (t) => {
  const bytes = 64 << 20;
  const document = { ...(await digestFile(documentPath(t))), bytes };
  const dir = t.testdir({ 'large.pdf': Buffer.alloc(bytes) });
  const server = createServer((_request, response) => {
    response.writeHead(401, { Connection: 'close' });
    response.end(JSON.stringify({ error: { code: 'invalid_api_key', message: 'no' } }));
  });
  const client = new ApiClient(new URL(await listen(t, server)), 'seal_test');
  const options = { ...DEFAULTS, client, onSent: () => {}, onWait: () => {} };
  await t.rejects(submitDocument(join(dir, 'large.pdf'), document, options), { code: 'invalid_api_key' });
});

t.test('a document that changes meanwhile is not sent', async (t) => {
  const path = documentPath(t);
  const document = await digestFile(path);
  const server = createServer((request) => request.resume());
  const client = new ApiClient(new URL(await listen(t, server)), 'seal_test');
  const options = { ...DEFAULTS, client, onSent: () => {}, onWait: () => {} };
  await t.rejects(submitDocument(path, { ...document, bytes: document.bytes + 1 }, options), {
    message: /changed during the upload/,
  });
  await t.rejects(submitDocument(path, { ...document, bytes: 3 }, options), {
    message: /changed during the upload/,
  });
});

const DEFAULTS = { fields: { visibility: 'private' }, idempotencyKey: undefined, patienceMs: 60_000 };

function documentPath(t: Test): string {
  return join(t.testdir({ 'a.pdf': '%PDF-1.7 of a test' }), 'a.pdf');
}

async function receiptText(): Promise<string> {
  const { sha256 } = await digestFile(documentPath(t));
  return `{ "job_id": "job_1", "document_sha256": "${sha256}" }\n`;
}

/** Submits a document to a server that gives these answers, one after the other. */
async function submit(
  t: Test,
  answers: (Answer | 'receipt')[],
  options: Partial<SealOptions> = {},
): Promise<{ submitted: Submitted; seen: Seen[]; waits: string[] }> {
  const [seen, waits]: [Seen[], string[]] = [[], []];
  const receipt = await receiptText();
  const server = createServer(async (request, response) => {
    seen.push(await read(request));
    const answer = answers[seen.length - 1] ?? { status: 500 };
    give(response, answer === 'receipt' ? { status: 200, body: receipt } : answer);
  });
  const client = new ApiClient(new URL(await listen(t, server)), 'seal_test');
  const path = documentPath(t);
  const submitted = await submitDocument(path, await digestFile(path), {
    ...DEFAULTS,
    client,
    onSent: () => {},
    onWait: (why) => waits.push(why),
    ...options,
  });
  return { submitted, seen, waits };
}

async function read(request: IncomingMessage): Promise<Seen> {
  const { method, url, headers } = request;
  let body = '';
  for await (const chunk of request) body += chunk;
  return {
    method,
    url,
    key: headers['idempotency-key'] as string | undefined,
    authorization: headers.authorization,
    body,
  };
}

function give(response: ServerResponse, answer: Answer): void {
  if (answer === 'cut') return void response.destroy();
  response.writeHead(answer.status, answer.headers);
  response.end(typeof answer.body === 'string' ? answer.body : JSON.stringify(answer.body ?? {}));
}

async function listen(t: Test, server: ReturnType<typeof createServer>): Promise<string> {
  t.teardown(() => server.close());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
}
