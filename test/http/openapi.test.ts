import t from 'tap';
import manifest from '../../package.json' with { type: 'json' };
import { ERROR_CODES } from '../../src/base/errorKinds.ts';
import { describeApi } from '../../src/http/openapi.ts';
import { openTestApp, PUBLIC_URL } from '../support/app.ts';
import { ApiCheck, type ApiDescription } from '../support/openapi.ts';

const description = describeApi(PUBLIC_URL) as ApiDescription & { servers: { url: string }[] };

/** Every object in the document, with where it is. */
function* walk(node: unknown, path: string[] = []): Generator<[Record<string, unknown>, string[]]> {
  if (typeof node !== 'object' || node === null) return;
  yield [node as Record<string, unknown>, path];
  for (const [name, inner] of Object.entries(node)) yield* walk(inner, [...path, name]);
}

t.test('the description is served to anyone, unchanged', async (t) => {
  const { client } = await openTestApp(t);
  const answer = await client.as(undefined).get('/v1/openapi.json');
  t.strictSame(answer.json(), JSON.parse(JSON.stringify(description)));
  t.equal(answer.headers.get('Content-Type'), 'application/json; charset=utf-8');
  t.strictSame(description.servers, [{ url: `${PUBLIC_URL}/v1` }]);
});

t.test('every reference has a target', async (t) => {
  for (const [node, path] of walk(description)) {
    if (typeof node.$ref !== 'string') continue;
    const target = node.$ref
      .split('/')
      .slice(1)
      .reduce<unknown>((at, name) => (at as Record<string, unknown> | undefined)?.[name], description);
    t.ok(target, `${node.$ref} at ${path.join(' ')}`);
  }
});

t.test('the operations of the contract are described', async (t) => {
  const operations = Object.entries(description.paths).flatMap(([path, item]) =>
    Object.entries(item).flatMap(([verb, operation]) =>
      'operationId' in operation ? [`${verb} ${path} ${operation.operationId}`] : [],
    ),
  );
  for (const expected of [
    'post /jobs/seal createSealJob',
    'get /jobs/{job_id} getSealJob',
    'get /jobs/{job_id}/receipt.json getSealReceipt',
  ]) {
    t.ok(operations.includes(expected), expected);
  }
  const statuses = Object.keys(description.paths['/jobs/seal']?.post?.responses ?? {});
  for (const status of ['202', '400', '401', '409', '429', '503']) t.ok(statuses.includes(status), status);
});

t.test('every path parameter is declared', async (t) => {
  for (const [path, item] of Object.entries(description.paths)) {
    const names = [...path.matchAll(/\{([a-z_]+)\}/g)].map(([, name]) => name);
    const declared = (item.parameters ?? []) as unknown as { name: string }[];
    t.strictSame(
      declared.map(({ name }) => name),
      names,
      path,
    );
  }
});

t.test('generators can type every operation but the one that takes every form', async (t) => {
  const bodies = Object.values(description.paths).flatMap((item) =>
    Object.values(item).flatMap((operation) => {
      const { operationId, requestBody } = operation as {
        operationId?: string;
        requestBody?: { content: Record<string, { schema?: object }> };
      };
      return operationId === undefined || requestBody === undefined ? [] : [{ operationId, requestBody }];
    }),
  );
  const several = bodies.filter(({ requestBody }) => Object.keys(requestBody.content).length !== 1);
  t.strictSame(
    several.map(({ operationId }) => operationId),
    ['createSealJob'],
  );
  for (const { operationId, requestBody } of bodies)
    for (const { schema } of Object.values(requestBody.content)) t.ok(schema, operationId);
  // A union without a member that tells its parts apart has no type in Java, Go or Python.
  for (const [node, path] of walk(description)) {
    const parts = node.oneOf ?? node.anyOf;
    if (Array.isArray(parts)) t.ok(node.discriminator, path.join(' '));
  }
});

t.test(
  'a form has the document last, because clients send its fields in the order of the description',
  async (t) => {
    const { properties } = description.components.schemas.CreateByUpload as { properties: object };
    t.equal(Object.keys(properties).at(-1), 'file');
  },
);

t.test('every error code belongs to an operation, except three', async (t) => {
  const listed = new Set<unknown>();
  for (const [node, path] of walk(description.paths)) {
    if (path.at(-1) === 'code' && Array.isArray(node.enum)) for (const code of node.enum) listed.add(code);
  }
  const elsewhere = ERROR_CODES.filter((code) => !listed.has(code));
  // Those of the administration are told at its own address.
  t.strictSame(elsewhere, ['method_not_allowed', 'partition_not_ready', 'below_quorum']);
});

t.test('every operation has a tag that is explained, and says whether it takes a key', async (t) => {
  const { info, tags, paths, webhooks } = description as ApiDescription & {
    info: { version: string };
    tags: { name: string }[];
    webhooks: Record<string, Record<string, object>>;
  };
  t.equal(info.version, manifest.version);
  for (const [path, item] of Object.entries({ ...paths, ...webhooks })) {
    for (const [method, operation] of Object.entries(item)) {
      if (method === 'parameters') continue;
      const { tags: [tag] = [], security } = operation as { tags?: string[]; security?: object[] };
      t.ok(
        tags.some(({ name }) => name === tag),
        `${method} ${path}: ${tag}`,
      );
      t.ok(Array.isArray(security), `${method} ${path}`);
    }
  }
});

t.test('the check fails for answers that differ from the description', async (t) => {
  const check = new ApiCheck(description);
  const job = {
    id: 'job_1',
    phase: 'queued',
    environment: 'env_test',
    trace_id: '0'.repeat(32),
    capabilities: [],
    created_at: '2026-01-02T03:04:05.678Z',
    document_sha256: '0'.repeat(64),
  };
  const headers = {
    'Content-Type': 'application/json; charset=utf-8',
    'X-Request-Id': 'req_1',
    'Seal-Trace-Id': '0'.repeat(32),
  };
  const good = { method: 'GET', path: '/v1/jobs/job_1', status: 200, headers, body: job as object };
  const failure = (code: string) => ({
    request_id: 'req_1',
    error: { type: 'not_found_error', code, message: 'm', doc_url: '/v1/errors/x' },
  });
  const run = ({ body, headers, ...rest }: typeof good) =>
    check.check({ ...rest, headers: new Headers(headers), text: JSON.stringify(body) });

  t.doesNotThrow(() => run(good));
  t.doesNotThrow(() => run({ ...good, status: 404, body: failure('job_not_found') }));
  const bad: [string, Partial<typeof good>][] = [
    ['a member too many', { body: { ...job, secret: 1 } }],
    ['a member missing', { body: { ...job, phase: undefined } }],
    ['a value not allowed', { body: { ...job, phase: 'done' } }],
    ['a header missing', { headers: { ...headers, 'X-Request-Id': '' } }],
    ['another media type', { headers: { ...headers, 'Content-Type': 'text/html' } }],
    ['a status not described', { status: 201 }],
    ['no such operation', { path: '/v1/nothing' }],
    ['a code of another operation', { status: 404, body: failure('receipt_not_ready') }],
    ['an unknown code', { status: 404, body: failure('gone') }],
    ['no envelope', { status: 404 }],
  ];
  for (const [what, changes] of bad) t.throws(() => run({ ...good, ...changes }), what);
});
