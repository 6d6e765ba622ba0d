import t from 'tap';
import { actOfProcess } from '../../src/store/acts.ts';
import { disabled } from '../../src/webhook/endpoints.ts';
import { newSecret, parseSecret } from '../../src/webhook/signature.ts';
import { openTestApp, pdfOf } from '../support/app.ts';
import type { Answer, Client, Envelope, JobBody } from '../support/client.ts';
import { until } from '../support/until.ts';

interface EndpointBody {
  id: string;
  url: string;
  events: string[];
  description?: string;
  status: string;
  secret?: string;
  previous_secret_expires_at?: string;
  deliveries: { pending: number; dead_letters: number };
}

const ALL = '/v1/webhook-endpoints';
const app = await openTestApp(t);
const { store } = app;

const send = (client: Client, method: string, path: string, body?: unknown): Promise<Answer> =>
  client.request(method, path, {
    ...(body !== undefined && {
      headers: { 'Content-Type': 'application/json' },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    }),
  });
const codeOf = (answer: Answer) => `${answer.status} ${answer.json<Envelope>().error.code}`;
/** A client of its own that may do everything. */
const managerOf = async (clientId: string): Promise<Client> =>
  app.client.as(
    await app.issue({
      clientId,
      organization: clientId,
      scopes: ['jobs:create', 'jobs:read', 'webhooks:manage'],
    }),
  );
const create = async (client: Client, fields: object = {}): Promise<EndpointBody> => {
  const answer = await send(client, 'POST', ALL, { url: 'https://hooks.example.com/x?y=1', ...fields });
  t.equal(answer.status, 201, answer.text);
  return answer.json<EndpointBody>();
};

t.test('an endpoint can be created, shown, changed and deleted', async (t) => {
  const client = await managerOf('crud');
  const answer = await send(client, 'POST', ALL, { url: 'https://hooks.example.com' });
  const made = answer.json<EndpointBody>();
  t.match(made, {
    url: 'https://hooks.example.com/',
    status: 'enabled',
    events: ['job.completed', 'job.failed'],
  });
  t.equal(parseSecret(made.secret ?? '')?.length, 32);
  t.equal(answer.headers.get('Location'), `https://seal.example.com${ALL}/${made.id}`);
  const path = `${ALL}/${made.id}`;
  const { secret: _, ...shown } = made;
  const got = (await client.get(path)).json<EndpointBody>();
  t.match(got, shown);
  t.match(got.deliveries, { pending: 0, dead_letters: 0 });
  t.strictSame((await client.get(ALL)).json(), { webhook_endpoints: [shown] });
  t.notMatch((await client.get(ALL)).text, /whsec_/, 'the secret is shown once');

  const change = { url: 'http://127.0.0.1:8080/new', events: ['job.failed'], description: 'ERP' };
  t.match((await send(client, 'PATCH', path, change)).json(), { ...shown, ...change });
  t.notOk('description' in (await send(client, 'PATCH', path, { description: '' })).json<EndpointBody>());
  t.match((await send(client, 'POST', `${path}/disable`)).json(), {
    status: 'disabled',
    disabled_reason: 'request',
  });
  t.match((await send(client, 'POST', `${path}/enable`)).json(), { status: 'enabled' });
  const gone = await send(client, 'DELETE', path);
  t.match({ status: gone.status, text: gone.text }, { status: 204, text: '' });
  t.equal(codeOf(await client.get(path)), '404 webhook_endpoint_not_found');
  t.equal(codeOf(await send(client, 'DELETE', path)), '404 webhook_endpoint_not_found');
});

t.test('rotation keeps the old secret for the overlap', async (t) => {
  const client = await managerOf('rotation');
  const given = newSecret();
  const { id, secret } = await create(client, { secret: given });
  t.equal(secret, given);
  const rotate = async (body?: object) =>
    (await send(client, 'POST', `${ALL}/${id}/rotate-secret`, body)).json<EndpointBody>();
  const stored = async () => (await store.webhooks.endpoints.get(id))?.secrets.map((one) => one.secret);
  const next = await rotate();
  t.not(next.secret, given);
  t.ok(Date.parse(next.previous_secret_expires_at ?? '') > Date.now() + 86_000_000);
  t.strictSame(await stored(), [next.secret, given]);
  const third = await rotate({ overlap_seconds: 60 });
  t.strictSame(await stored(), [third.secret, next.secret], 'two at most');
  const last = await rotate({ overlap_seconds: 0, secret: given });
  t.equal(last.secret, given);
  t.notOk(last.previous_secret_expires_at);
  t.strictSame(await stored(), [given]);
});

t.test('an endpoint is invisible to other clients', async (t) => {
  const owner = await managerOf('owner');
  const { id } = await create(owner);
  const colleague = app.client.as(
    await app.issue({ clientId: 'colleague', organization: 'owner', scopes: ['webhooks:manage'] }),
  );
  const path = `${ALL}/${id}`;
  const answers = new Set<string>();
  for (const one of [path, `${ALL}/we_1`, `${ALL}/we_${'0'.repeat(32)}`, `${ALL}/__proto__`, `${ALL}/%00`]) {
    for (const [method, below] of [
      ['GET', ''],
      ['PATCH', ''],
      ['DELETE', ''],
      ['POST', '/rotate-secret'],
      ['POST', '/enable'],
      ['POST', '/disable'],
      ['POST', '/test'],
      ['GET', '/deliveries'],
      ['GET', '/dead-letters'],
      ['POST', '/replay'],
    ] as const) {
      const answer = await send(colleague, method, one + below, method === 'PATCH' ? {} : undefined);
      const { request_id: _, ...rest } = answer.json<Envelope>();
      answers.add(JSON.stringify([answer.status, rest.error.code, rest.error.message]));
    }
  }
  t.equal(answers.size, 1, [...answers].join());
  t.strictSame((await colleague.get(ALL)).json(), { webhook_endpoints: [] });
  t.equal((await owner.get(path)).status, 200);

  t.equal(codeOf(await app.client.get(ALL)), '403 insufficient_scope');
  t.equal(codeOf(await app.client.as(undefined).get(ALL)), '401 authentication_required');
});

t.test('a refusal names the field', async (t) => {
  const client = await managerOf('refused');
  const url = 'https://hooks.example.com/';
  const cases: [body: unknown, code: string, message: RegExp][] = [
    [{}, '400 missing_parameter', /^url is required/],
    [{ url: 'hooks.example.com' }, '400 invalid_parameter', /^url must be an absolute/],
    [{ url: 'https://a.example/#b' }, '400 invalid_parameter', /^url /],
    [{ url: 5 }, '400 invalid_parameter', /^url /],
    [{ url: `https://a.example/${'x'.repeat(2048)}` }, '400 invalid_parameter', /2048/],
    [{ url: 'http://10.0.0.1/' }, '400 webhook_url_not_allowed', /^url: 10\.0\.0\.1 is not allowed/],
    [{ url: 'http://169.254.169.254/' }, '400 webhook_url_not_allowed', /webhooks\.allow/],
    [{ url: 'ftp://hooks.example.com/' }, '400 webhook_url_not_allowed', /only http and https/],
    [{ url: 'https://a:b@hooks.example.com/' }, '400 webhook_url_not_allowed', /credentials/],
    [{ url, events: [] }, '400 invalid_parameter', /^events must be/],
    [{ url, events: ['job.started'] }, '400 invalid_parameter', /^events .*job\.completed, job\.failed/],
    [{ url, events: ['job.failed', 'job.failed'] }, '400 duplicate_parameter', /^events/],
    [{ url, description: 'x'.repeat(257) }, '400 invalid_parameter', /^description/],
    [{ url, secret: 'whsec_short' }, '400 invalid_parameter', /^secret/],
    [{ url, Events: ['job.failed'] }, '400 unknown_parameter', /"Events"/],
    ['{"url": "https://a.example", "url": "https://b.example"}', '400 duplicate_parameter', /more than once/],
    ['[]', '400 malformed_json', /object/],
    ['1', '400 malformed_json', /object/],
    ['', '400 malformed_json', /object/],
    ['{', '400 malformed_json', /JSON/],
  ];
  for (const [body, code, message] of cases) {
    const answer = await send(client, 'POST', ALL, body);
    t.equal(codeOf(answer), code, JSON.stringify(body));
    t.match(answer.json<Envelope>().error.message, message);
  }
  const plain = await client.request('POST', ALL, { headers: { 'Content-Type': 'text/plain' }, body: '{}' });
  t.equal(codeOf(plain), '415 unsupported_media_type');
  const { id } = await create(client);
  const path = `${ALL}/${id}`;
  t.equal(codeOf(await send(client, 'PATCH', path, { secret: newSecret() })), '400 unknown_parameter');
  t.equal(
    codeOf(await send(client, 'PATCH', path, { url: 'http://10.0.0.1/' })),
    '400 webhook_url_not_allowed',
  );
  for (const overlap_seconds of [-1, 1.5, '60', 2_592_001]) {
    t.equal(
      codeOf(await send(client, 'POST', `${path}/rotate-secret`, { overlap_seconds })),
      '400 invalid_parameter',
    );
  }
  for (const webhook_ids of [[], 'msg_1', [1]]) {
    t.equal(codeOf(await send(client, 'POST', `${path}/replay`, { webhook_ids })), '400 invalid_parameter');
  }
  t.equal(codeOf(await send(client, 'POST', `${path}/replay`, { ids: [] })), '400 unknown_parameter');
  for (const query of ['limit=0', 'cursor=nonsense', 'phase=failed', 'limit=1&limit=1']) {
    t.match(codeOf(await client.get(`${path}/deliveries?${query}`)), /^400 /, query);
  }
  for (let n = 1; n < 16; n++) await create(client);
  t.equal(codeOf(await send(client, 'POST', ALL, { url })), '409 too_many_webhook_endpoints');
});

t.test('a job says whether an endpoint will be notified, and lists its notifications', async (t) => {
  const client = await managerOf('told');
  let told = 0;
  const seal = async () => (await client.seal(pdfOf(`told ${told++}`), { mode: 'blocking' })).json<JobBody>();
  const tag = 'webhook.job.completed';
  t.notOk((await seal()).capabilities.includes(tag));
  const failedOnly = await create(client, { events: ['job.failed'] });
  t.notOk((await seal()).capabilities.includes(tag), 'not by an endpoint for other events');
  const { id } = await create(client);
  const jobs: JobBody[] = [];
  for (let n = 0; n < 3; n++) jobs.push(await seal());
  t.ok(jobs.every(({ capabilities }) => capabilities.includes(tag)));
  t.ok((await client.get(`/v1/jobs/${jobs[0]?.id}`)).json<JobBody>().capabilities.includes(tag));

  const path = `${ALL}/${id}/deliveries`;
  const first = (await client.get(`${path}?limit=2`)).json<{
    deliveries: { job_id: string }[];
    next_cursor: string;
  }>();
  const second = (await client.get(`${path}?limit=2&cursor=${first.next_cursor}`)).json<typeof first>();
  t.strictSame(
    [...first.deliveries, ...second.deliveries].map(({ job_id }) => job_id),
    jobs.map(({ id }) => id),
  );
  t.notOk(second.next_cursor);
  t.strictSame((await client.get(`${ALL}/${failedOnly.id}/deliveries`)).json(), { deliveries: [] });

  for (const delivery of await store.webhooks.outbox.pending(id, { limit: 2 })) {
    await store.webhooks.outbox.settle(delivery, {
      kind: 'dead',
      failure: { at: Date.now(), reason: 'http_500' },
    });
  }
  const letters = (await client.get(`${ALL}/${id}/dead-letters`)).json<{
    dead_letters: { webhook_id: string }[];
  }>();
  t.match(letters.dead_letters, [
    { cause: 'exhausted', attempts: 1, last_failure: { reason: 'http_500' } },
    {},
  ]);
  t.match((await client.get(`${ALL}/${id}`)).json<EndpointBody>().deliveries, {
    pending: 1,
    dead_letters: 2,
  });
  const replay = async (body?: object) => (await send(client, 'POST', `${ALL}/${id}/replay`, body)).json();
  t.strictSame(await replay({ webhook_ids: [letters.dead_letters[0]?.webhook_id, 'msg_unknown'] }), {
    replayed: 1,
  });
  t.strictSame(await replay(), { replayed: 1 });
  t.strictSame(await replay({}), { replayed: 0 });
  const test = (await send(client, 'POST', `${ALL}/${id}/test`)).json<{ webhook_id: string }>();
  const { deliveries } = (await client.get(path)).json<{ deliveries: { webhook_id: string }[] }>();
  t.equal(deliveries.length, 4);
  t.equal(deliveries.at(-1)?.webhook_id, test.webhook_id);
});

t.test(
  'clients change no endpoint while too many audit records wait, and administrators still act',
  async (t) => {
    let isForked = true;
    const app = await openTestApp(t, { sealer: { recordsMax: 2, isForked: () => isForked } });
    const { store, sealer } = app;
    const client = app.client.as(await app.issue({ clientId: 'busy', scopes: ['webhooks:manage'] }));
    const adopt = async () => {
      for (const { jobId } of await store.trail.entries(0, 100)) await sealer.adopt(jobId);
    };
    const url = 'https://hooks.example.com/';
    const made = await send(client, 'POST', ALL, { url });
    t.equal(made.status, 201, made.text);
    const { id } = made.json<EndpointBody>();
    await store.trail.append(actOfProcess('command', 'backup.make', {}));
    await adopt();
    await adopt(); // No record counts twice.
    for (const [method, path, body] of [
      ['POST', ALL, { url }],
      ['PATCH', `${ALL}/${id}`, { url }],
      ['DELETE', `${ALL}/${id}`, undefined],
      ['POST', `${ALL}/${id}/disable`, undefined],
    ] as const) {
      const answer = await send(client, method, path, body);
      t.equal(codeOf(answer), '503 queue_full', `${method} ${path}`);
      t.match(answer.headers.get('Retry-After'), /^[1-9]/);
    }
    t.equal((await client.get(`${ALL}/${id}`)).status, 200, 'endpoints are still shown');
    const before = await store.trail.newest();
    await store.webhooks.endpoints.change(
      id,
      disabled(Date.now()),
      actOfProcess('command', 'webhook.disable', {}),
    );
    t.equal(await store.trail.newest(), before + 1, 'an administrator disabled it');
    await adopt();
    isForked = false;
    await store.trail.append(actOfProcess('command', 'backup.make', {}));
    await adopt();
    await until('the records are sealed', () => sealer.waiting.auditRecords === 0);
    t.equal((await send(client, 'DELETE', `${ALL}/${id}`)).status, 204);
  },
);
