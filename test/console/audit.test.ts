/** The screen Audit trail over a real store: pages, filters, single records, the check, and the archive. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { until } from '../support/until.ts';
import { openTestConsole } from './testConsole.ts';

const HOSTILE = '<script>alert(1)</script>\u202egnp.exe';

function numbersOf(text: string): number[] {
  return Array.from(text.matchAll(/<a href="\/audit\/(\d+)">/g), ([, number]) => Number(number));
}

t.test('the trail is shown in pages, newest first, and can be filtered', async (t) => {
  const test = await openTestConsole(t);
  for (let n = 1; n <= 120; n += 1)
    await test.record(n % 10 === 0 ? 'key.issue' : 'config.reload', n <= 60 ? 'Anna' : 'Berta', { n });
  const { cookie } = test.signedIn('auditor');
  const get = async (path: string) => (await test.get(path, { cookie })).text;
  const first = await get('/audit');
  t.strictSame(
    numbersOf(first),
    Array.from({ length: 50 }, (_, n) => 120 - n),
  );
  const olderOf = (text: string) => /href="(\/audit\?[^"]*before=\d+)"[^>]*>Older/.exec(text)?.[1];
  const second = olderOf(first)?.replaceAll('&amp;', '&') ?? '';
  t.strictSame(numbersOf(await get(second)).slice(0, 2), [70, 69]);
  t.match(await get(second), /Newest records/);
  const keys = await get('/audit?act=key&who=Anna&since=2026-01-01');
  t.strictSame(numbersOf(keys), [60, 50, 40, 30, 20, 10]);
  t.match(keys, /<option value="key" selected.*value="Anna"/s, 'the form shows the filter');
  await test.record('console.login', 'Anna', {});
  t.match(await get('/audit?act=console'), /<td data-column="What"><\/td>/, 'a narrow screen leaves it out');
  t.match(await get('/audit?act=key.revoke'), /No record matches/);
  t.match(await get('/audit?until=2020-01-01'), /No record matches/);
  for (const day of ['yesterday', '2026-02-31', '2026-13-01'])
    t.match(await test.get(`/audit?since=${day}`, { cookie }), {
      status: 400,
      text: /A date is written like/,
    });
});

t.test('a filter without matches does not read the whole trail', async (t) => {
  const test = await openTestConsole(t);
  const { trail } = test.store;
  const entries = trail.entries.bind(trail);
  const limits: number[] = [];
  trail.newest = async () => 100_000;
  trail.entries = (after, limit) => {
    limits.push(limit);
    return entries(after, limit);
  };
  const { cookie } = test.signedIn('auditor');
  const { text } = await test.get('/audit?who=nobody', { cookie });
  t.match(text, /before=99001[^>]*>Older/);
  t.equal(
    limits.reduce((sum, limit) => sum + limit),
    1000,
  );
  t.ok(Math.max(...limits) <= 50, 'and other work comes between small parts of them');
});

t.test('a record is shown escaped, and its file is the record as it is kept', async (t) => {
  const test = await openTestConsole(t);
  await test.record('key.issue', 'Anna', { client: HOSTILE, scopes: ['jobs:read', 'x'.repeat(512)] });
  const { cookie } = test.signedIn('auditor');
  const { text } = await test.get('/audit/1', { cookie });
  t.match(text, /&lt;script&gt;alert\(1\)/);
  t.notMatch(text, /<script>alert/);
  const kept = await test.get('/audit/1/record', { cookie });
  t.match(kept.headers, { 'content-disposition': 'attachment; filename="audit-00000001.json"' });
  t.equal(kept.text, (await test.store.trail.entry(1))?.text);
  t.match(await test.get('/audit/1/receipt', { cookie }), { status: 404, text: /not sealed yet/ });
  for (const path of ['/audit/2', '/audit/0', '/audit/1e3', '/audit/9007199254740993', '/audit/x'])
    t.match(await test.get(path, { cookie }), { status: 404 }, path);
});

t.test('the check says what it cannot prove, and needs the token of the session', async (t) => {
  const test = await openTestConsole(t);
  await test.record('config.reload', 'Anna');
  const { cookie, token } = test.signedIn('auditor');
  t.match(await test.post('/audit/check', {}, { cookie }), { status: 403 });
  const checked = await test.post('/audit/check', { token }, { cookie });
  t.match(checked, { status: 200, text: /not proven yet.*no receipt proves audit record 1/s });
});

t.test('a person reads the whole trail once at a time, even if the store is slow', async (t) => {
  const test = await openTestConsole(t);
  await test.record('config.reload', 'Anna');
  const { trail } = test.store;
  const newest = trail.newest.bind(trail);
  const held = { reads: 0, gate: Promise.withResolvers<void>() };
  trail.newest = async () => {
    held.reads += 1;
    await held.gate.promise;
    return newest();
  };
  const check = (name: string) => {
    const { cookie, token } = test.signedIn('auditor', name);
    return test.post('/audit/check', { token }, { cookie });
  };
  const both = [check('Anna'), check('Anna')];
  t.match(await Promise.race(both), { status: 503, text: /already/ }, 'and one at a time');
  const other = check('Berta');
  await until('another person is not held up', () => held.reads === 2);
  held.gate.resolve();
  const statuses = (await Promise.all([...both, other])).map(({ status }) => status);
  t.strictSame(statuses.sort(), [200, 200, 503]);
  t.equal((await check('Anna')).status, 200);
  const { cookie } = test.signedIn('auditor', 'Anna');
  for (let n = 0; n < 2; n += 1) t.equal((await test.get('/audit/export', { cookie })).status, 200);
});

t.test('the archive has the files of an export', async (t) => {
  const dir = t.testdir({});
  const test = await openTestConsole(t);
  for (let n = 0; n < 30; n += 1) await test.record('config.reload', 'Anna', { text: 'y'.repeat(n * 37) });
  const { cookie } = test.signedIn('auditor');
  const { text, headers } = await test.get('/audit/export', { cookie });
  t.match(headers, { 'content-type': 'application/x-tar' });
  writeFileSync(join(dir, 'trail.tar'), text);
  mkdirSync(join(dir, 'out'));
  execFileSync('tar', ['-xf', '../trail.tar'], { cwd: join(dir, 'out') });
  const names = readdirSync(join(dir, 'out'));
  t.equal(names.length, 30);
  for (const [n, name] of names.sort().entries())
    t.equal(readFileSync(join(dir, 'out', name), 'utf8'), (await test.store.trail.entry(n + 1))?.text);
});
