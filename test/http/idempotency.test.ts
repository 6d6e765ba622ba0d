import assert from 'node:assert/strict';
import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import t from 'tap';
import { IdempotencyKeys, readIdempotencyKey } from '../../src/http/idempotency.ts';
import type { IdempotencyKey } from '../../src/store/store.ts';
import { openTestApp, pdfOf } from '../support/app.ts';
import type { Answer, Envelope, JobBody } from '../support/client.ts';
import { until } from '../support/until.ts';
import { slowUpload } from '../support/wire.ts';

const { client, issue, partitions, store } = await openTestApp(t);
const codeOf = (answer: Answer) => `${answer.status} ${answer.json<Envelope>().error.code}`;
const idOf = ({ text }: { text: string }) => (JSON.parse(text) as JobBody).id;
const keyed = (key: string) => ({ 'Idempotency-Key': key });

function requestWith(...values: string[]): IncomingMessage {
  const req = new IncomingMessage(new Socket());
  if (values.length > 0) req.headersDistinct['idempotency-key'] = values;
  return req;
}

t.test('the header accepts keys of 8 to 128 visible characters, quoted or not', async (t) => {
  const accepted: [string, string][] = [
    ['12345678', '12345678'],
    ['a'.repeat(128), 'a'.repeat(128)],
    ['"8e03978e-40d5"', '8e03978e-40d5'],
    ['"with \\"quotes\\""'.replace(' ', '-'), 'with-"quotes"'],
    ['"parameters";a=1', 'parameters'],
    ["!#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", "!#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"],
  ];
  for (const [value, key] of accepted) t.equal(readIdempotencyKey(requestWith(value)), key, value);
  t.equal(readIdempotencyKey(requestWith()), undefined);

  const refused = [
    [''],
    ['1234567'],
    ['a'.repeat(129)],
    ['with space'],
    ['umlaut-\u00e4'],
    ['"short"'],
    ['"unterminated'],
    ['"with space"'],
    ['"good-one" and more'],
    ['"\\x-escape-"'],
    ['good-key-1', 'good-key-1'],
  ];
  for (const values of refused) {
    t.throws(
      () => readIdempotencyKey(requestWith(...values)),
      { code: 'invalid_idempotency_key' },
      values.join(),
    );
  }
});

t.test('one request at a time holds a key', async (t) => {
  const keys = new IdempotencyKeys(store);
  const key = { clientId: 'a', operation: 'createSealJob', key: 'k' } as const;
  const hold = async (held: IdempotencyKey) => {
    const claim = await keys.claim(held);
    assert(!('entry' in claim));
    return claim;
  };
  const first = await hold(key);
  await t.rejects(hold(key), { code: 'idempotency_in_progress' });
  (await hold({ ...key, clientId: 'b' }))[Symbol.dispose]();
  first[Symbol.dispose]();
  (await hold(key))[Symbol.dispose]();
});

t.test('a repeat gets the job as it is now: a blocking one the first answer, byte for byte', async (t) => {
  for (const mode of ['async', 'blocking']) {
    const headers = keyed(`repeat-${mode}`);
    const fields = { mode, customer_reference: 'r' };
    const first = await client.seal(pdfOf(mode), fields, headers);
    t.equal(first.headers.get('Idempotent-Replayed'), null);
    const { id } = first.json<JobBody>();
    const read = () => client.get(`/v1/jobs/${id}`);
    await until('it is sealed', async () => (await read()).json<JobBody>().phase === 'completed');
    const now = mode === 'async' ? await read() : first;
    // As a structured string it is the same key.
    for (const key of [`repeat-${mode}`, `"repeat-${mode}"`]) {
      const again = await client.seal(pdfOf(mode), fields, keyed(key));
      t.equal(again.status, first.status);
      t.equal(again.text, now.text);
      t.equal(again.headers.get('Idempotent-Replayed'), 'true');
      t.equal(again.headers.get('Location'), first.headers.get('Location'));
      t.equal(again.headers.get('Seal-Trace-Id'), first.headers.get('Seal-Trace-Id'));
      t.not(again.headers.get('X-Request-Id'), first.headers.get('X-Request-Id'));
    }
  }
});

t.test('a repeat of an asynchronous create says that its job failed', async (t) => {
  const key = { clientId: 'acme-web', operation: 'createSealJob', key: 'repeat-failed' } as const;
  const first = await client.seal(pdfOf('failed'), {}, keyed(key.key));
  const { id } = first.json<JobBody>();
  const record = await store.jobs.get(id);
  const failure = { code: 'internal_error', message: 'It broke.' } as const;
  t.intercept(store.jobs, 'get', {
    value: async () => record && { ...record, outcome: { kind: 'failed', failure } },
  });
  const again = await client.seal(pdfOf('failed'), {}, keyed(key.key));
  t.equal(again.status, 202);
  t.match(again.json(), { id, phase: 'failed', error: { code: 'internal_error', message: 'It broke.' } });
  t.equal(again.headers.get('Idempotent-Replayed'), 'true');
});

t.test('another request with the key is refused', async (t) => {
  const headers = keyed('another-1');
  await client.seal(pdfOf('first'), {}, headers);
  const others: Record<string, string>[] = [
    { mode: 'blocking' },
    { visibility: 'partner' },
    { purpose: 'p' },
    { customer_reference: 'c' },
    { preserve_metadata: 'true' },
  ];
  for (const fields of others) {
    t.equal(codeOf(await client.seal(pdfOf('first'), fields, headers)), '409 idempotency_key_reused');
  }
  t.equal(codeOf(await client.seal(pdfOf('second'), {}, headers)), '409 idempotency_key_reused');
});

t.test('a key belongs to its client', async (t) => {
  const other = client.as(await issue({ clientId: 'other' }));
  const mine = await client.seal(pdfOf('a'), {}, keyed('shared-key'));
  const theirs = await other.seal(pdfOf('a'), {}, keyed('shared-key'));
  t.equal(theirs.status, 202);
  t.not(mine.json<JobBody>().id, theirs.json<JobBody>().id);
});

t.test('a refusal does not pin the key', async (t) => {
  const headers = keyed('refused-1');
  t.equal(codeOf(await client.seal(Buffer.from('no PDF'), {}, headers)), '400 not_a_pdf');
  t.equal(
    codeOf(await client.seal(pdfOf('a'), { checksum_sha256: '0'.repeat(64) }, headers)),
    '409 checksum_mismatch',
  );
  t.equal(codeOf(await client.as('x').seal(pdfOf('a'), {}, headers)), '401 invalid_api_key');
  const answer = await client.seal(pdfOf('a'), {}, headers);
  t.equal(answer.status, 202);
  t.equal(answer.headers.get('Idempotent-Replayed'), null);
});

t.test('a repeat is refused while the first request is still being received', async (t) => {
  const headers = keyed('slow-upload');
  const document = pdfOf('slow');
  const first = await slowUpload(client, document, headers);
  const racing = await client.seal(document, {}, headers);
  t.equal(codeOf(racing), '409 idempotency_in_progress');
  t.ok(Number(racing.headers.get('Retry-After')) > 0);
  const accepted = await first.finish();
  const again = await client.seal(document, {}, headers);
  t.equal(idOf(again), idOf(accepted));
});

t.test('repeats of an accepted request do not wait for each other', async (t) => {
  const headers = keyed('many-repeats');
  const document = pdfOf('many');
  const accepted = await client.seal(document, {}, headers);
  const first = await slowUpload(client, document, headers);
  const second = await client.seal(document, {}, headers);
  t.equal(idOf(second), idOf(accepted));
  t.equal(idOf(await first.finish()), idOf(accepted));
});

t.test('a client that disconnects during a request frees its key and leaves nothing', async (t) => {
  const headers = keyed('gone-away');
  const before = (await client.get('/v1/jobs')).text;
  const first = await slowUpload(client, pdfOf('gone'), headers);
  first.abandon();
  let answer = await client.seal(pdfOf('gone'), {}, headers);
  while (answer.status === 409) answer = await client.seal(pdfOf('gone'), {}, headers);
  t.equal(answer.status, 202);
  t.equal(answer.headers.get('Idempotent-Replayed'), null);
  t.not((await client.get('/v1/jobs')).text, before);
});

t.test('a repeat is answered even if new work is refused', async (t) => {
  const headers = keyed('unavailable');
  const first = await client.seal(pdfOf('u'), { mode: 'blocking' }, headers);
  t.intercept(partitions, 'canSign', { value: () => false });
  const fresh = await client.seal(pdfOf('new'), { mode: 'blocking' }, keyed('fresh-key-1'));
  t.equal(codeOf(fresh), '503 kms_partition_unavailable');
  t.ok(Number(fresh.headers.get('Retry-After')) > 0);
  const key = { clientId: 'acme-web', operation: 'createSealJob', key: 'fresh-key-1' } as const;
  t.equal(await store.jobs.idempotency(key), undefined);
  const again = await client.seal(pdfOf('u'), { mode: 'blocking' }, headers);
  t.equal(again.text, first.text);
});

t.test(
  'the forms of a create share their keys, at the paths of their own and at the common one',
  async (t) => {
    const document = pdfOf('every form');
    const form = () => {
      const form = new FormData();
      form.append('visibility', 'private');
      form.append('file', new Blob([document], { type: 'application/pdf' }), 'document.pdf');
      return form;
    };
    const raw = { ...keyed('every-form'), 'Content-Type': 'application/pdf' };
    const first = await client.request('POST', '/v1/documents/seal?visibility=private', {
      headers: raw,
      body: document,
    });
    t.equal(first.status, 202);
    for (const path of ['/v1/forms/seal', '/v1/jobs/seal']) {
      const again = await client.request('POST', path, { headers: keyed('every-form'), body: form() });
      t.equal(again.headers.get('Idempotent-Replayed'), 'true', path);
      t.equal(again.json<JobBody>().id, first.json<JobBody>().id, path);
    }
    const other = { source_url: 'https://a.example/b.pdf', checksum_sha256: '0'.repeat(64) };
    const source = await client.request('POST', '/v1/sources/seal', {
      headers: { ...keyed('every-form'), 'Content-Type': 'application/json' },
      body: JSON.stringify({ visibility: 'private', ...other }),
    });
    t.equal(codeOf(source), '409 idempotency_key_reused');
  },
);
