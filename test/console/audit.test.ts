/** The screen Audit trail over a real store: pages, filters, single records, the check, and the archive. */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pino } from 'pino';
import t from 'tap';
import { TrailChecks } from '../../src/console/trailChecks.ts';
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
      text: /Enter dates as/,
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
  t.notMatch((await test.get('/audit/check', { cookie })).text, /under way|not proven/);
  t.match(await test.post('/audit/check', { token }, { cookie }), {
    status: 303,
    headers: { location: '/audit/check' },
  });
  await until('it has ended', async () =>
    /not proven yet.*no receipt proves audit record 1/s.test(
      (await test.get('/audit/check', { cookie })).text,
    ),
  );
});

t.test('one check goes on at a time, and the others are shown the last result', async (t) => {
  const test = await openTestConsole(t);
  await test.record('config.reload', 'Anna');
  const { trail } = test.store;
  const newest = trail.newest.bind(trail);
  const held = { checks: 0, gate: Promise.withResolvers<void>() };
  trail.newest = async () => {
    held.checks += 1;
    await held.gate.promise;
    return newest();
  };
  const check = async (name: string) => {
    const { cookie, token } = test.signedIn('auditor', name);
    t.equal((await test.post('/audit/check', { token }, { cookie })).status, 303, 'no request waits for it');
    return (await test.get('/audit/check', { cookie })).text;
  };
  for (const name of ['Anna', 'Anna', 'Berta']) {
    const text = await check(name);
    t.match(text, /A check is under way/);
    t.notMatch(text, /The last check ended/);
  }
  t.equal(held.checks, 1);
  held.gate.resolve();
  const { cookie } = test.signedIn('auditor', 'Carl');
  const shown = async () => (await test.get('/audit/check', { cookie })).text;
  await until('everybody is shown how it ended', async () => /The last check ended/.test(await shown()));
  t.notMatch(await shown(), /under way/);
  held.gate = Promise.withResolvers();
  t.match(await check('Berta'), /A check is under way.*not proven yet.*The last check ended/s);
  held.gate.reject(new Error('the store is away'));
  await until('it has failed', async () => /was not completed/.test(await shown()));
});

t.test('a check rests nine times as long as it works, and ends with the console', async (t) => {
  const { store } = await openTestConsole(t);
  const actor = { via: 'console', person: 'Anna', role: 'auditor' } as const;
  for (let n = 0; n < 3; n += 1)
    await store.trail.append({ act: 'config.reload', actor, object: {}, outcome: 'done' });
  const { jobs } = store;
  const get = jobs.get.bind(jobs);
  let elapsed = 0;
  jobs.get = (id) => {
    elapsed += 2;
    return get(id);
  };
  const rests: number[] = [];
  const open = (rest: (ms: number, signal: AbortSignal) => Promise<void>) => {
    const ended = Promise.withResolvers<void>();
    const checks = new TrailChecks({
      store,
      verifier: () => undefined,
      clock: () => 0,
      logger: pino({ level: 'silent' }),
      onEnd: ended.resolve,
      onFatal: (error) => t.fail(String(error)),
      monotonicMs: () => elapsed,
      rest,
    });
    checks.begin();
    return { checks, ended: ended.promise };
  };
  const whole = open(async (ms) => void rests.push(ms));
  await whole.ended;
  t.strictSame(rests, [18, 18, 18]);
  t.match(whole.checks.last, { report: { first: 1, records: 3 } });
  const resting = Promise.withResolvers<void>();
  const cut = open(async (_, signal) => {
    resting.resolve();
    await once(signal, 'abort');
    signal.throwIfAborted();
  });
  await resting.promise;
  await cut.checks.close();
  t.strictSame([cut.checks.last, cut.checks.isUnderWay], [undefined, false]);
  cut.checks.begin();
  t.notOk(cut.checks.isUnderWay);
});

t.test('a person exports the trail once at a time, even if the store is slow', async (t) => {
  const test = await openTestConsole(t);
  await test.record('config.reload', 'Anna');
  const { trail } = test.store;
  const entries = trail.entries.bind(trail);
  const held = { reads: 0, gate: Promise.withResolvers<void>() };
  trail.entries = async (after, limit) => {
    held.reads += 1;
    await held.gate.promise;
    return entries(after, limit);
  };
  const exportAs = (name: string) =>
    test.get('/audit/export', { cookie: test.signedIn('auditor', name).cookie });
  const both = [exportAs('Anna'), exportAs('Anna')];
  t.match(await Promise.race(both), { status: 503, text: /Another export of yours/ });
  const other = exportAs('Berta');
  await until('another person is not held up', () => held.reads === 2);
  held.gate.resolve();
  const statuses = (await Promise.all([...both, other])).map(({ status }) => status);
  t.strictSame(statuses.sort(), [200, 200, 503]);
  for (let n = 0; n < 2; n += 1) t.equal((await exportAs('Anna')).status, 200);
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
