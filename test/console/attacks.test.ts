/** What somebody gets at who has no link, an old one, another one's, or another site open beside the console. */
import { once } from 'node:events';
import { request } from 'node:http';
import t from 'tap';
import { ServiceError } from '../../src/base/errors.ts';
import { ROLES } from '../../src/base/people.ts';
import { html } from '../../src/console/html.ts';
import type { Screen } from '../../src/console/screen.ts';
import { Sessions } from '../../src/console/sessions.ts';
import { until } from '../support/until.ts';
import { fillHistory } from './fill.ts';
import { openScreens, openTestConsole } from './testConsole.ts';

const minutes = (count: number) => count * 60_000;

t.test('a link works once, within five minutes', async (t) => {
  const test = await openTestConsole(t);
  const link = new URL(test.link('auditor')).pathname;
  const secret = link.split('/')[2] ?? '';
  t.match(await test.get(link), { status: 200, text: /Anna.*auditor/s }, 'looking does not use it');
  t.match(await test.get(link), { status: 200 });
  const used = await test.post('/login', { link: secret });
  t.match(used, { status: 303, headers: { location: '/' } });
  t.match(
    String(used.headers['set-cookie']),
    /^pdfseal-console-test=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict$/,
  );
  t.match(await test.acts(), [
    { act: 'console.login', actor: { via: 'console', person: 'Anna', role: 'auditor' }, outcome: 'done' },
  ]);
  const late = { status: 410, text: /has just been used.*pressed the button twice.*logout --as NAME/s };
  t.match(await test.get(link), late, 'a stolen link opens nothing');
  const again = await test.post('/login', { link: secret });
  t.match(again, late);
  const [cookie = ''] = String(used.headers['set-cookie']).split(';');
  t.match(await test.get('/', { cookie }), { status: 200 }, 'the link of that page, after a second press');
  const none = await test.get(`/login/${'x'.repeat(43)}`);
  t.match(none, { status: 410, text: /is not valid/ });
  t.notOk(again.headers['set-cookie']);
  t.equal((await test.acts()).length, 1);
});

t.test('a new login ends the session of the same browser, and no other', async (t) => {
  const test = await openTestConsole(t);
  const [former, other] = [test.signedIn('administrator'), test.signedIn('administrator')];
  const login = (link: string) => test.post('/login', { link }, { cookie: former.cookie });
  t.match(await login('A'.repeat(43)), { status: 410 });
  t.match(
    await test.get('/', { cookie: former.cookie }),
    { status: 200 },
    'a link that is none ends nothing',
  );
  const link = test.link('auditor').split('/').at(-1) ?? '';
  const begun = await login(link);
  const [cookie] = String(begun.headers['set-cookie']).split(';');
  t.match(await test.get('/', { cookie: cookie ?? '' }), { status: 200 });
  t.match(await test.get('/', { cookie: former.cookie }), { status: 401 });
  t.match(await test.get('/', { cookie: other.cookie }), { status: 200 });
});

t.test('links and sessions end after their time', async (t) => {
  let now = 0;
  const sessions = new Sessions(() => now);
  const anna = { name: 'Anna', role: 'auditor' } as const;
  const late = sessions.invite(anna);
  now += minutes(5);
  t.equal(sessions.invited(late), undefined);
  t.equal(sessions.begin(late), undefined, 'a link, after five minutes');
  const begin = () => sessions.begin(sessions.invite(anna));
  const idle = begin();
  const live = begin();
  now += minutes(29);
  t.ok(sessions.find(live?.cookie ?? '', { isUse: true }));
  t.ok(sessions.find(idle?.cookie ?? '', { isUse: false }));
  now += minutes(1);
  t.equal(sessions.find(idle?.cookie ?? '', { isUse: true }), undefined, 'an idle one, after half an hour');
  t.equal(idle?.session.ended.aborted, true);
  for (let n = 0; n < 26; n += 1) {
    t.ok(sessions.find(live?.cookie ?? '', { isUse: true }), `used after ${n / 2} hours`);
    if (n < 23) now += minutes(30) - 1;
  }
  now += minutes(30) - 1;
  t.equal(sessions.find(live?.cookie ?? '', { isUse: true }), undefined, 'a busy one, after twelve hours');
  const other = begin();
  t.equal(sessions.endAll(), 1);
  t.equal(other?.session.ended.aborted, true);
});

t.test('the number of links and sessions is bounded', async (t) => {
  const sessions = new Sessions(() => 0);
  const anna = { name: 'Anna', role: 'auditor' } as const;
  const links = Array.from({ length: 33 }, () => sessions.invite(anna));
  t.equal(sessions.invited(links[0] ?? ''), undefined, 'the oldest link makes room');
  t.ok(sessions.invited(links[1] ?? ''));
  const begun = Array.from({ length: 129 }, () => sessions.begin(sessions.invite(anna)));
  t.equal(begun[0]?.session.ended.aborted, true, 'the session that is idle for the longest makes room');
  t.equal(begun[1]?.session.ended.aborted, false);
  t.equal(sessions.endAll(), 128);
});

t.test('without a session no page is shown', async (t) => {
  const test = await openTestConsole(t);
  for (const path of ['/', '/now', '/now/events', '/nothing', '/logout/x']) {
    const answer = await test.get(path);
    t.match(answer, { status: 401, text: /pdfseal console login/ }, path);
    t.notMatch(answer.text, /<nav/);
  }
  const cookie = { cookie: `pdfseal-console-test=${'A'.repeat(43)}` };
  t.match(await test.get('/', cookie), { status: 401 }, 'with a cookie that nobody gave');
  const { cookie: mine } = test.signedIn();
  t.match(await test.get('/', { cookie: mine }), { status: 200 });
  t.match(await test.get('/', { cookie: `${mine}; ${mine}x` }), { status: 401 }, 'with two');
  t.match(await test.get('/nothing', { cookie: mine }), { status: 404, text: /no such page/ });
  t.match(await test.send('DELETE', '/', { cookie: mine, 'sec-fetch-site': 'same-origin' }), { status: 405 });
});

t.test('another site can neither read nor change anything', async (t) => {
  const test = await openTestConsole(t);
  const { cookie, token } = test.signedIn();
  for (const site of ['cross-site', 'same-site', 'nonsense', undefined]) {
    const from = { cookie, ...(site && { 'sec-fetch-site': site }) };
    t.match(await test.send('GET', '/', from), { status: 403 }, `GET, ${site}`);
    const form = { ...from, 'content-type': 'application/x-www-form-urlencoded' };
    t.match(await test.send('POST', '/logout', form, `token=${token}`), { status: 403 }, `POST, ${site}`);
  }
  t.match(
    await test.post('/logout', {}, { cookie }),
    { status: 403, text: /out of date/ },
    'without the token',
  );
  const other = test.signedIn();
  t.match(await test.post('/logout', { token: other.token }, { cookie }), { status: 403 }, 'with another’s');
  const json = { cookie, 'content-type': 'application/json' };
  t.match(await test.post('/logout', { token }, json), { status: 415 });
  t.match(await test.post('/logout', { token, more: 'x'.repeat(70_000) }, { cookie }), { status: 413 });
  t.match(await test.get('/', { cookie }), { status: 200 }, 'the session goes on');
  const left = await test.post('/logout', { token }, { cookie });
  t.match(left, { status: 303, headers: { location: '/logout' } });
  t.match(String(left.headers['set-cookie']), /^pdfseal-console-test=; Max-Age=0; /);
  t.match(await test.get('/', { cookie }), { status: 401 }, 'until its owner ends it');
});

t.test('no page can be framed', async (t) => {
  const test = await openTestConsole(t);
  const { cookie } = test.signedIn('administrator');
  const framed = { cookie, 'sec-fetch-dest': 'iframe', 'sec-fetch-mode': 'navigate' };
  for (const site of ['cross-site', 'same-site']) {
    const answer = await test.send('GET', '/', { ...framed, 'sec-fetch-site': site });
    t.match(answer, { status: 403, headers: { 'x-frame-options': 'DENY' } }, site);
    t.notMatch(answer.text, /Anna|<form/, 'nothing of the session');
  }
  const { headers } = await test.send('GET', '/', { ...framed, 'sec-fetch-site': 'same-origin' });
  t.match(headers['content-security-policy'], /frame-ancestors 'none'/, 'nor does a page of its own');
});

t.test('a host name that resolves to loopback is refused', async (t) => {
  const test = await openTestConsole(t);
  const { cookie } = test.signedIn();
  for (const host of ['evil.example', 'localhost.evil.example', '192.0.2.1', 'xlocalhost'])
    t.match(await test.get('/', { cookie, host }), { status: 421 }, host);
  for (const host of ['localhost', '127.0.0.1:8443', '[::1]:8443', 'test.localhost:1'])
    t.match(await test.get('/', { cookie, host }), { status: 200 }, host);
});

t.test('every answer has the security headers', async (t) => {
  const test = await openTestConsole(t);
  const { cookie } = test.signedIn();
  const style = /href="(\/assets\/[^"]+)"/.exec((await test.get('/')).text)?.[1] ?? '';
  for (const path of ['/', '/nothing', '/login/x', style]) {
    const { headers } = await test.get(path, { cookie });
    t.match(
      headers['content-security-policy'],
      /default-src 'none';.*frame-ancestors 'none';.*trusted-types 'none'/,
    );
    t.match(headers, {
      'x-frame-options': 'DENY',
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'cross-origin-opener-policy': 'same-origin',
      'cross-origin-resource-policy': 'same-origin',
      'cache-control': path === style ? /immutable/ : 'no-store',
    });
  }
});

t.test('a role can do what it is allowed to, and nothing more', async (t) => {
  const done: string[] = [];
  const screen: Screen = {
    path: '/try',
    label: 'Try',
    routes: ROLES.flatMap((role) => [
      { method: 'GET', path: `/try/${role}`, role, answer: () => ({ title: role, main: html`seen` }) },
      {
        method: 'POST',
        path: `/try/${role}`,
        role,
        answer: ({ actor }) => {
          done.push(`${actor.person}: ${role}`);
          return { location: '/try' };
        },
      },
    ]),
  };
  const tried = await openScreens(t, [screen]);
  for (const [n, role] of ROLES.entries()) {
    const { cookie, token } = tried.signedIn(role, `a person who is ${role}`);
    for (const [m, wanted] of ROLES.entries()) {
      const isAllowed = n >= m;
      const seen = await tried.get(`/try/${wanted}`, { cookie });
      t.equal(seen.status, isAllowed ? 200 : 403, `${role} reads what takes ${wanted}`);
      const changed = await tried.post(`/try/${wanted}`, { token }, { cookie });
      t.equal(changed.status, isAllowed ? 303 : 403, `${role} changes what takes ${wanted}`);
    }
  }
  t.equal(done.length, 6);
});

t.test('a refusal by a part of the daemon keeps its status', async (t) => {
  const failing = (path: string, error: Error) => ({
    ...({ method: 'GET', path, role: 'auditor' } as const),
    answer: () => Promise.reject(error),
  });
  const test = await openScreens(t, [
    {
      path: '/try',
      label: 'Try',
      routes: [
        failing('/try/full', new ServiceError('storage_full', 'The disk is full.')),
        failing('/try/bad', new ServiceError('invalid_parameter', 'x must be y.')),
        failing('/try/broken', new Error('s3cret')),
        { method: 'POST', path: '/try/full', role: 'auditor', answer: () => ({ location: '/' }) },
      ],
    },
  ]);
  const { cookie } = test.signedIn();
  const ask = (path: string, method = 'GET') =>
    test.send(method, path, { cookie, 'sec-fetch-site': 'same-origin' });
  const full = { status: 503, headers: { 'retry-after': '2' }, text: /The disk is full\..*Try again/s };
  t.match(await ask('/try/full'), full);
  t.match(await ask('/try/bad'), { status: 400, text: /x must be y\..*correct the form/s });
  const broken = await ask('/try/broken');
  t.match(broken, { status: 500, text: /The daemon log/ });
  t.notMatch(broken.text, /s3cret/);
  t.match(await ask('/try/bad', 'POST'), { status: 405, headers: { allow: 'GET' } });
  t.match(await ask('/try/full', 'DELETE'), { status: 405, headers: { allow: 'GET, POST' } });
  t.match(await ask('/nothing', 'DELETE'), { status: 404, headers: { allow: undefined } });
});

t.test('U+0000 is refused everywhere, as a database cannot store it', async (t) => {
  const test = await openTestConsole(t);
  const { cookie, token } = test.signedIn();
  const refused = { status: 400, text: /contains the character U\+0000/ };
  for (const path of ['/find?client=%00', '/access/webhooks?client=a%00b', '/access/keys/%00', '/find/x%00'])
    t.match(await test.get(path, { cookie }), refused, path);
  t.match(await test.post('/access/webhooks/x/replay', { message: '\0', token }, { cookie }), refused);
});

t.test('a form that is still being sent has no effect once its session has ended', async (t) => {
  const test = await openTestConsole(t);
  const { cookie, token } = test.signedIn('administrator');
  const fields = { token, client: 'late', organization: 'late', lifetime: '365', scope: 'jobs:read' };
  const body = String(new URLSearchParams(fields));
  const headers = {
    ...{ host: 'localhost', cookie, 'sec-fetch-site': 'same-origin', expect: '100-continue' },
    ...{ 'content-type': 'application/x-www-form-urlencoded', 'content-length': body.length },
  };
  const to = { host: '127.0.0.1', port: test.port, method: 'POST', path: '/access/keys', agent: false };
  const asked = request({ ...to, headers });
  t.teardown(() => asked.destroy());
  asked.flushHeaders();
  await once(asked, 'continue');
  test.console.sessions.endAll();
  asked.end(body);
  const [answer] = await once(asked, 'response');
  answer.resume();
  t.equal(answer.statusCode, 401);
  t.strictSame(await test.store.credentials.all(), []);
  t.strictSame(await test.acts(), []);
  const again = test.signedIn('administrator');
  const made = await test.post('/access/keys', { ...fields, token: again.token }, { cookie: again.cookie });
  t.ok(made.status < 400, 'the same form acts for a session that goes on');
  t.equal((await test.store.credentials.all()).length, 1);
});

t.test('a download ends with its session', async (t) => {
  const ends: string[] = [];
  async function* body() {
    try {
      for (;;) yield Buffer.alloc(65_536);
    } finally {
      ends.push('the source');
    }
  }
  const answer = () => ({
    fileName: 'x',
    type: 'text/plain',
    body: body(),
    onEnd: () => ends.push('the file'),
  });
  const routes = [{ method: 'GET', path: '/file', role: 'auditor', answer } as const];
  const test = await openScreens(t, [{ path: '/file', label: 'File', routes }]);
  const { cookie } = test.signedIn('auditor');
  const headers = { host: 'localhost', cookie, 'sec-fetch-site': 'none' };
  const asked = request({ host: '127.0.0.1', port: test.port, path: '/file', headers, agent: false }).end();
  t.teardown(() => asked.destroy());
  const [response] = await once(asked, 'response');
  response.on('error', () => {});
  await once(response, 'readable');
  t.strictSame(ends, [], 'a reader that takes nothing');
  test.console.sessions.endAll();
  await until('it broke off', () => ends.length === 2);
  t.strictSame(ends.sort(), ['the file', 'the source']);
});

t.test('a hundred live pages are open at most, and ten of one person', async (t) => {
  const test = await openTestConsole(t, { beatMs: 20 });
  const open = (cookie: string) =>
    new Promise<number>((resolve, reject) => {
      const headers = { host: 'localhost', 'sec-fetch-site': 'same-origin', cookie };
      const asked = request({
        host: '127.0.0.1',
        port: test.port,
        path: '/now/events',
        headers,
        agent: false,
      });
      t.teardown(() => asked.destroy());
      asked.once('error', reject).end();
      asked.once('response', (response) => {
        response.on('error', () => {});
        if (response.statusCode !== 200) resolve(response.statusCode ?? 0);
        // Every one of them is told that there is news.
        response.on('data', (chunk: Buffer) => {
          if (String(chunk).includes('event: news')) resolve(200);
        });
      });
    });
  const all = (name: string) =>
    Promise.all(Array.from({ length: 12 }, () => open(test.signedIn('auditor', name).cookie)));
  const counts: number[] = [];
  for (let n = 0; n < 12; n += 1) {
    const statuses = await all(`person ${n}`);
    counts.push(statuses.filter((status) => status === 200).length);
    t.equal(statuses.filter((status) => status === 503).length, 12 - (counts.at(-1) ?? 0));
  }
  t.strictSame(counts.slice(0, 9), new Array(9).fill(10), 'however many sessions somebody has');
  t.ok(
    counts.every((count) => count > 0),
    `whoever has none finds room: ${counts}`,
  );
  const first = test.signedIn().cookie;
  t.match(await test.get('/', { cookie: first }), { status: 200 }, 'pages are still answered');
});

t.test('the first page of a busy day is small', async (t) => {
  const clock = { now: Date.now() };
  const test = await openTestConsole(t, { clock: () => clock.now });
  fillHistory(test.console.history, clock);
  const { text } = await test.get('/', { cookie: test.signedIn().cookie });
  const assets = Array.from(text.matchAll(/(?:href|src)="(\/assets\/[^"]+)"/g), ([, path = '']) => path);
  t.equal(assets.length, 2);
  let bytes = Buffer.byteLength(text);
  for (const path of assets) bytes += Buffer.byteLength((await test.get(path)).text);
  t.ok(bytes < 100_000, `${bytes} bytes`);
  t.notMatch(text, /(?:href|src)="(?:https?:)?\/\//, 'and of nobody else');
});
