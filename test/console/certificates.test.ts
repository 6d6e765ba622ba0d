/** The console over TLS: whom a certificate lets in, and who must not get in with one, or with the cookie of another. */

import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { Agent, request } from 'node:https';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { connect as connectTls } from 'node:tls';
import t from 'tap';
import { sha256Of } from '../../src/asn1/x509Names.ts';
import { issueClient, type KeyPair, makeAuthority, revoke } from '../support/certificates.ts';
import { openTlsConsole } from './overTls.ts';

const DAY_MS = 86_400_000;

function digestOf({ certificateFile }: KeyPair): string {
  return sha256Of(new X509Certificate(readFileSync(certificateFile)));
}

t.test('a certificate opens a session for its person, on record with its digest', async (t) => {
  const console = await openTlsConsole(t);
  const anna = console.client('anna');
  t.match(await console.get('/', { as: anna }), {
    status: 401,
    text: /Your certificate opens.*Anna.*administrator/s,
  });
  t.strictSame(await console.test.acts(), [], 'looking begins nothing');
  const { cookie, answer } = await console.signIn(anna);
  t.match(answer, { status: 303, headers: { location: '/' } });
  t.match(
    String(answer.headers['set-cookie']),
    /^__Host-pdfseal-console-test=[\w-]{43}; Path=\/; Secure; HttpOnly; SameSite=Strict$/,
  );
  t.match(await console.test.acts(), [
    {
      act: 'console.login',
      actor: { via: 'console', person: 'Anna', role: 'administrator' },
      object: { certificate_sha256: digestOf(anna) },
      outcome: 'done',
    },
  ]);
  t.match(await console.get('/', { as: anna, cookie }), { status: 200, text: /<nav/ });
  const [name = '', ...rest] = cookie.split('=');
  t.equal(name, '__Host-pdfseal-console-test');
  const plain = `pdfseal-console-test=${rest.join('=')}`;
  t.match(
    await console.test.get('/', { cookie: plain }),
    { status: 401 },
    'not where nobody shows a certificate',
  );
});

t.test('a person without an accepted certificate is refused with the reason', async (t) => {
  const console = await openTlsConsole(t);
  const link = console.test.link();
  t.match(await console.get('/'), { status: 401, text: /requires your certificate/ });
  t.match(
    await console.get(new URL(link).pathname),
    { status: 401, text: /requires your certificate/ },
    'no link helps',
  );
  t.match(await console.post('/login', { link: link.split('/').at(-1) ?? '' }), { status: 401 });
  const stranger = issueClient(console.dir, 'stranger', makeAuthority(console.dir, 'foreign'), {
    subject: '/CN=anna',
  });
  const old = issueClient(console.dir, 'old', console.authority, { subject: '/CN=anna', days: 1 });
  const other = console.client('eve');
  const cases: [string, KeyPair, RegExp, number?][] = [
    ['of another authority', stranger, /is not accepted/],
    ['expired', old, /has expired/, 2 * DAY_MS],
    ['of nobody', other, /the configuration does not list it.*CN=eve.*console\.tls\.people/s],
  ];
  for (const [what, as, why, aheadMs = 0] of cases) {
    console.aheadMs = aheadMs;
    t.match(await console.get('/', { as }), { status: 403, text: why }, what);
    const answer = await console.post('/login', {}, { as });
    t.match(answer, { status: 403, text: why }, `${what}, with the form`);
    t.notOk(answer.headers['set-cookie']);
  }
  t.strictSame(await console.test.acts(), []);
  t.equal(console.test.console.sessions.list().length, 0);
});

t.test('a session belongs to the certificate that began it', async (t) => {
  const console = await openTlsConsole(t);
  const [anna, bert] = [console.client('anna'), console.client('bert')];
  const { cookie, token } = await console.signIn(anna);
  const refused = { status: 401, text: /Bert/ };
  t.match(await console.get('/', { as: bert, cookie }), refused, 'Anna’s cookie with Bert’s certificate');
  t.match(await console.post('/access/keys', { token }, { as: bert, cookie }), refused);
  t.match(await console.get('/', { cookie }), { status: 401 }, 'with none');
  const renewed = issueClient(console.dir, 'renewed', console.authority, { subject: '/CN=anna' });
  t.match(
    await console.get('/', { as: renewed, cookie }),
    { status: 401, text: /Anna/ },
    'with her next one',
  );
  const link = console.test.signedIn('administrator', 'Anna').cookie.split('=')[1];
  const own = `__Host-pdfseal-console-test=${link}`;
  t.match(await console.get('/', { as: anna, cookie: own }), { status: 401 }, 'a session of a link');
  t.match(await console.get('/', { as: anna, cookie }), { status: 200 }, 'hers goes on');
  const auditor = await console.signIn(bert);
  const asked = await console.post(
    '/access/keys',
    { token: auditor.token },
    { as: bert, cookie: auditor.cookie },
  );
  t.match(asked, { status: 403, text: /requires the role administrator/ }, 'the role of another');
});

t.test('a revoked, expired or removed person is signed out at once', async (t) => {
  const console = await openTlsConsole(t, { beatMs: 20 });
  const anna = console.client('anna');
  const events = async (cookie: string) => {
    const pair = { cert: readFileSync(anna.certificateFile), key: readFileSync(anna.keyFile) };
    const agent = new Agent({ rejectUnauthorized: false, ...pair });
    t.teardown(() => agent.destroy());
    const headers = { host: 'localhost', cookie, 'sec-fetch-site': 'same-origin' };
    const asked = request({
      host: '127.0.0.1',
      port: console.port,
      path: '/now/events',
      headers,
      agent,
    }).end();
    const [response] = await once(asked, 'response');
    t.equal(response.statusCode, 200);
    return { ended: once(response.resume(), 'end') };
  };
  const people = console.people;
  const ways: [string, () => void, () => void][] = [
    ['taken out', () => (console.people = []), () => (console.people = people)],
    [
      'another role',
      () => (console.people = [{ certificateName: 'CN=anna', name: 'Anna', role: 'auditor' }]),
      () => (console.people = people),
    ],
    ['expired', () => (console.aheadMs = 31 * DAY_MS), () => (console.aheadMs = 0)],
    ['revoked', () => revoke(console.dir, console.crl, console.authority, [anna]), () => {}],
  ];
  for (const [what, out, back] of ways) {
    const { cookie } = await console.signIn(anna);
    const { ended } = await events(cookie);
    out();
    await ended;
    t.equal(console.test.console.sessions.list().length, 0, what);
    t.match((await console.get('/', { as: anna, cookie })).text, /certificate/, what);
    back();
    t.notMatch(
      await console.get('/', { as: anna, cookie }),
      { status: 200 },
      `${what}: the session does not come back`,
    );
  }
  t.match(await console.get('/', { as: anna }), { status: 403, text: /CERT_REVOKED/ });
});

t.test('requests for other host names and from other sites are refused', async (t) => {
  const console = await openTlsConsole(t);
  const anna = console.client('anna');
  const { cookie } = await console.signIn(anna);
  for (const host of ['evil.example', 'evil.example.com', '127.0.0.1', 'test.localhost'])
    t.match(
      await console.get('/', { as: anna, cookie, host }),
      { status: 421, text: /its own certificate/ },
      host,
    );
  for (const site of ['cross-site', 'same-site'])
    t.match(
      await console.post('/login', {}, { as: anna, site }),
      { status: 403, text: /from its own pages/ },
      site,
    );
  t.equal((await console.test.acts()).length, 1);
});

t.test('a person signs in ten times in ten minutes, and logs out', async (t) => {
  const console = await openTlsConsole(t);
  const anna = console.client('anna');
  const { cookie, token } = await console.signIn(anna);
  const left = await console.post('/logout', { token }, { as: anna, cookie });
  t.match(await console.get('/logout', { as: anna }), { text: /open the first page/ });
  t.match(String(left.headers['set-cookie']), /^__Host-pdfseal-console-test=; Max-Age=0; Path=\/; Secure/);
  t.match(
    await console.get('/', { as: anna, cookie }),
    { status: 401 },
    'and is not signed in again by looking',
  );
  for (let n = 1; n < 10; n += 1) t.match(await console.post('/login', {}, { as: anna }), { status: 303 });
  t.match(await console.post('/login', {}, { as: anna }), {
    status: 429,
    text: /ten sign-ins in ten minutes/,
  });
  t.equal((await console.test.acts()).length, 10);
  t.match(
    await console.post('/login', {}, { as: console.client('bert') }),
    { status: 303 },
    'another person',
  );
});

t.test('strangers who only connect do not keep anyone out', async (t) => {
  const console = await openTlsConsole(t);
  const anna = console.client('anna');
  const { cookie } = await console.signIn(anna);
  const strangers = Array.from({ length: 256 }, () =>
    connect(console.port, '127.0.0.1').on('error', () => {}),
  );
  t.teardown(() => {
    for (const one of strangers) one.destroy();
  });
  await Promise.all(strangers.map((one) => once(one, 'connect')));
  t.match(await console.get('/', { as: anna, cookie }), { status: 200 }, 'one of them makes room');
  t.match(await console.test.get('/'), { status: 401 }, 'and they do not count on loopback');
});

t.test('each request of a stranger with an Expect header is answered once', async (t) => {
  const console = await openTlsConsole(t);
  for (const expected of ['100-continue', 'something-else']) {
    const stranger = connectTls({ host: '127.0.0.1', port: console.port, rejectUnauthorized: false });
    t.teardown(() => stranger.destroy());
    const asked = ['keep-alive', 'close'].map(
      (after) =>
        `GET / HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: none\r\nExpect: ${expected}\r\nConnection: ${after}\r\n\r\n`,
    );
    stranger.write(asked.join(''));
    const answers = await text(stranger);
    t.equal(answers.match(/^HTTP\/1\.1 401 /gm)?.length, 2, expected);
  }
});
