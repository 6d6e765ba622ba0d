import t from 'tap';
import { hashApiKey, newApiKey } from '../../src/job/apikey.ts';
import { putCredentials } from '../store/samples.ts';
import { ENVIRONMENT, openTestApp, pdfOf } from '../support/app.ts';
import type { Client, Envelope, JobBody } from '../support/client.ts';
import { parseAnswer, slowUpload, Wire } from '../support/wire.ts';

const UNKNOWN_JOB = '/v1/jobs/job_0123';

async function codeOf(client: Client, authorization?: string, path = UNKNOWN_JOB) {
  const headers: Record<string, string> = authorization === undefined ? {} : { Authorization: authorization };
  const answer = await client.as(undefined).get(path, headers);
  return {
    status: answer.status,
    code: answer.json<Envelope>().error.code,
    challenge: answer.headers.get('WWW-Authenticate'),
  };
}

const { client, issue, server, store } = await openTestApp(t);

t.test('only a valid key in a Bearer header passes', async (t) => {
  const key = await issue();
  const missing = { status: 401, code: 'authentication_required', challenge: 'Bearer realm="pdfseald"' };
  const refused = {
    status: 401,
    code: 'invalid_api_key',
    challenge: 'Bearer realm="pdfseald", error="invalid_token"',
  };
  const passed = { status: 404, code: 'job_not_found', challenge: null };
  const cases: [string, string | undefined, object][] = [
    ['no header', undefined, missing],
    ['empty', '', missing],
    ['no token', 'Bearer', missing],
    ['another scheme', `Basic ${key}`, missing],
    ['the key alone', key, missing],
    ['lower-case scheme', `bearer ${key}`, passed],
    ['upper-case scheme', `BEARER ${key}`, passed],
    ['more space', `Bearer   ${key}`, passed],
    ['two tokens', `Bearer ${key} ${key}`, refused],
    ['an unknown key', `Bearer ${newApiKey(ENVIRONMENT)}`, refused],
    ['of another environment', `Bearer ${newApiKey('production')}`, refused],
    ['noise', 'Bearer seal_test_nonsense', refused],
    ['expired', `Bearer ${await issue({ expiresAt: Date.now() - 1 })}`, refused],
    ['not expired yet', `Bearer ${await issue({ expiresAt: Date.now() + 60_000 })}`, passed],
    ['revoked', `Bearer ${await issue({ revokedAt: Date.now() - 1 })}`, refused],
    ['revoked by a clock ahead', `Bearer ${await issue({ revokedAt: Date.now() + 60_000 })}`, refused],
    [
      'without the scope',
      `Bearer ${await issue({ scopes: ['jobs:create', 'admin'] })}`,
      {
        status: 403,
        code: 'insufficient_scope',
        challenge: 'Bearer realm="pdfseald", error="insufficient_scope", scope="jobs:read"',
      },
    ],
  ];
  for (const [what, authorization, expected] of cases) {
    t.strictSame(await codeOf(client, authorization), expected, what);
  }

  const credential = await store.credentials.get(hashApiKey(key));
  if (!credential) throw new Error('no credential');
  await putCredentials(store, [{ ...credential, revokedAt: Date.now() }]);
  t.strictSame(await codeOf(client, `Bearer ${key}`), refused, 'revoked a moment ago');
});

t.test('a key that is revoked while it uploads creates nothing', async (t) => {
  const key = await issue({ clientId: 'revoked-in-the-middle' });
  const upload = await slowUpload(client.as(key), pdfOf('late'));
  const credential = await store.credentials.get(hashApiKey(key));
  if (!credential) throw new Error('no credential');
  await putCredentials(store, [{ ...credential, revokedAt: Date.now() }]);
  const answer = await upload.finish();
  t.equal(answer.status, 401);
  t.match(answer.headers.get('WWW-Authenticate'), 'error="invalid_token"');
  const viewer = { clientId: 'revoked-in-the-middle', organization: 'acme', partnerOf: [] };
  t.strictSame(await store.jobs.list({ viewer, limit: 1 }), { records: [] });
});

t.test('a key of the wrong form is not looked up', async (t) => {
  const lookUps: string[] = [];
  t.intercept(store.credentials, 'get', { value: async (hash: string) => void lookUps.push(hash) });
  await codeOf(client, 'Bearer seal_test_nonsense');
  await codeOf(client, `Bearer ${newApiKey('production')}`);
  t.strictSame(lookUps, []);
  await codeOf(client, `Bearer ${newApiKey(ENVIRONMENT)}`);
  t.equal(lookUps.length, 1);
});

t.test('a repeated header is refused', async (t) => {
  const wire = new Wire(server.port);
  const line = `Authorization: Bearer ${await issue()}\r\n`;
  wire.send(`GET /v1/jobs HTTP/1.1\r\nHost: a\r\n${line}${line}Connection: close\r\n\r\n`);
  await wire.closed;
  t.equal(parseAnswer(wire.received).status, 401);
});

t.test('the scope is checked before the body is read', async (t) => {
  const reader = client.as(await issue({ scopes: ['jobs:read'] }));
  const answer = await reader.seal(pdfOf('a'));
  t.equal(answer.status, 403);
  t.match(answer.headers.get('WWW-Authenticate'), 'scope="jobs:create"');
});

t.test('a job is visible to its client, its organization or its partners, as it was created', async (t) => {
  const clients: Record<string, Client> = {
    own: client,
    sibling: client.as(await issue({ clientId: 'acme-desktop' })),
    partner: client.as(await issue({ clientId: 'beta-web', organization: 'beta' })),
    stranger: client.as(await issue({ clientId: 'gamma-web', organization: 'gamma' })),
  };
  const sees: Record<string, string[]> = {
    private: ['own'],
    organization: ['own', 'sibling'],
    partner: ['own', 'sibling', 'partner'],
  };
  for (const [visibility, viewers] of Object.entries(sees)) {
    const { id } = (await client.seal(pdfOf(visibility), { visibility, mode: 'blocking' })).json<JobBody>();
    for (const [name, viewer] of Object.entries(clients)) {
      const expected = viewers.includes(name) ? 200 : 404;
      t.equal((await viewer.get(`/v1/jobs/${id}`)).status, expected, `${visibility} for ${name}`);
      t.equal(
        (await viewer.get(`/v1/jobs/${id}/receipt.json`)).status,
        expected,
        `${visibility} for ${name}`,
      );
      const { jobs } = (await viewer.get('/v1/jobs')).json<{ jobs: JobBody[] }>();
      t.equal(
        jobs.some((job) => job.id === id),
        viewers.includes(name),
        `${visibility} listed for ${name}`,
      );
    }
  }
});
