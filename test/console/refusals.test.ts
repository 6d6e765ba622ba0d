/** Who was refused leaves a line in the log: so many at most, and none with what could open the console. */
import { pino } from 'pino';
import t from 'tap';
import { RefusalLog } from '../../src/console/refusalLog.ts';
import { openTestConsole } from './testConsole.ts';

type Line = Record<string, unknown>;

function logTo(lines: Line[]) {
  return pino({ level: 'warn', base: null }, { write: (line) => void lines.push(JSON.parse(line)) });
}

t.test('refused logins, forms, roles and sites are logged without secrets', async (t) => {
  const lines: Line[] = [];
  const test = await openTestConsole(t, { logger: logTo(lines) });
  const secret = test.link('administrator').split('/').at(-1) ?? '';
  const { cookie, token } = test.signedIn('auditor');
  const other = test.signedIn('auditor', 'Berta');
  await test.get('/find?query=s3cret', { cookie });
  await test.post('/audit/check', { token }, { cookie });
  t.strictSame(lines, [], 'what is allowed leaves none');
  await test.post('/login', { link: 'x'.repeat(43) });
  await test.post('/audit/check', { token: other.token }, { cookie });
  await test.post('/care/drill/begin?x=s3cret', { token }, { cookie });
  await test.send('POST', '/access/keys', { cookie, 'sec-fetch-site': 'cross-site' });
  await test.get(`/login/${secret}`, { host: 'evil.example' });
  const event = 'console_refused';
  t.match(lines, [
    { event, status: 410, path: '/login', person: undefined },
    { event, status: 403, path: '/audit/check', person: 'Anna', role: 'auditor', reason: /out of date/ },
    { event, status: 403, path: '/care/drill/begin', person: 'Anna', reason: /role/ },
    { event, status: 403, path: '/access/keys' },
    { event, status: 421, path: '/login', reason: /evil\.example/ },
  ]);
  t.equal(lines.length, 5);
  for (const hidden of [secret, token, other.token, 's3cret'])
    t.notOk(JSON.stringify(lines).includes(hidden), 'nothing that opens the console, or was searched for');
  for (let n = 0; n < 100; n += 1) await test.post('/login', { link: 'x' });
  t.equal(lines.length, 22, 'twenty of strangers, and two of hers');
  await test.post('/care/drill/begin', { token }, { cookie });
  t.match(lines.at(-1), { path: '/care/drill/begin', person: 'Anna' }, 'a stranger hides nobody');
});

t.test('refusals are logged again in each minute, with the number of those left out', async (t) => {
  let now = 0;
  const lines: Line[] = [];
  const log = new RefusalLog(logTo(lines), () => now);
  const request = { socket: {}, method: 'POST', url: `/${'x'.repeat(5000)}` } as Parameters<
    typeof log.refused
  >[0];
  const refuse = () => log.refused(request, { status: 403, reason: 'x', session: undefined });
  for (let n = 0; n < 50; n += 1) refuse();
  t.equal(lines.length, 20);
  t.ok(lines.every((line) => String(line.path).length <= 100));
  now += 60_000;
  refuse();
  t.match(lines.at(-1), { unlogged_before: 30 });
  refuse();
  t.equal(lines.at(-1)?.unlogged_before, undefined);
});
