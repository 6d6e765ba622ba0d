/** What Find finds, page by page; and the files of a receipt. */
import t, { type Test } from 'tap';
import { jobRoutes } from '../../src/console/receiptPage.ts';
import type { ScreenRequest } from '../../src/console/screen.ts';
import type { Sources } from '../../src/console/sources.ts';
import { newJobId } from '../../src/job/id.ts';
import type { Act } from '../../src/manifest/auditRecord.ts';
import { encodeTrust } from '../../src/manifest/trustFile.ts';
import { SEALED_AT, trusting } from '../support/wholeStore.ts';
import { askFind } from './askFind.ts';
import { digestsOf, jobOf, openSealedStore, sealFirst } from './sealedStore.ts';
import { openTestConsole } from './testConsole.ts';

const DAY_MS = 86_400_000;

async function openMany(t: Test) {
  const sealed = await openSealedStore(t, ['one', 'two']);
  const jobs = Array.from({ length: 60 }, (_, n) =>
    jobOf(Buffer.from(`document ${n}`), {
      clientId: n % 2 === 0 ? 'one' : 'two',
      purpose: n % 20 === 0 ? 'yearly' : 'invoices',
      customerReference: `Ü & ${n % 7}`,
      acceptedAt: SEALED_AT - n * DAY_MS,
    }),
  );
  await sealFirst(sealed.store, jobs);
  return { ...sealed, jobs, test: await openTestConsole(t, sealed) };
}

t.test('jobs are found by each of their fields, page by page', async (t) => {
  const { test, jobs } = await openMany(t);
  const all = async (query: Record<string, string>) => {
    const found: (string | undefined)[] = [];
    for (let before: string | undefined; ; ) {
      const page = await askFind(test, { ...query, ...(before && { before }) });
      t.ok(page.jobs.length <= 25);
      found.push(...page.jobs);
      before = page.before;
      if (before === undefined) return found;
    }
  };
  const expected = (wanted: (job: (typeof jobs)[number], n: number) => boolean) =>
    jobs.filter(wanted).map(({ id }) => id);
  const day = (n: number) => new Date(SEALED_AT - n * DAY_MS).toISOString().slice(0, 10);
  t.strictSame(
    await all({}),
    expected(() => true),
    'newest first',
  );
  t.strictSame(
    await all({ client: 'two' }),
    expected((_, n) => n % 2 === 1),
  );
  t.strictSame(
    await all({ purpose: 'yearly' }),
    expected((_, n) => n % 20 === 0),
  );
  t.strictSame(
    await all({ purpose: 'invoices', client: 'one' }),
    expected((_, n) => n % 2 === 0 && n % 20 > 0),
  );
  t.strictSame(
    await all({ q: 'Ü & 3' }),
    expected((_, n) => n % 7 === 3),
  );
  t.strictSame(await all({ q: 'Ü & 3 ' }), [], 'a reference is exact');
  t.strictSame(
    await all({ from: day(5), to: day(3) }),
    expected((_, n) => n >= 3 && n <= 5),
  );
  const [, second] = jobs;
  const only = { status: 303, headers: { location: `/find/${second?.id}` } };
  const sha256 = second?.content.document.sha256 ?? '';
  t.match(await askFind(test, { q: ` ${sha256.toUpperCase()} ` }), only, 'by its digest');
  t.match(await askFind(test, { q: ` ${second?.id} ` }), only, 'by its id');
  t.match(await askFind(test, { q: newJobId() }), { status: 200, text: /Nothing found/ });
  for (const bad of ['2026-02-31', '1', '2026-13-01', `2026-01-01${'x'.repeat(3000)}`])
    t.match(
      await askFind(test, { from: bad }),
      { status: 200, text: /Enter dates as/, jobs: [] },
      bad.slice(0, 20),
    );
  t.match(await askFind(test, { before: 'job_zzz' }), { status: 200, jobs: [] });
});

t.test('a document that was sealed twice gives a list', async (t) => {
  const { store, evidence } = await openSealedStore(t, ['one', 'two']);
  const jobs = ['one', 'two'].map((clientId) => jobOf(Buffer.from('same'), { clientId }));
  await sealFirst(store, jobs);
  const test = await openTestConsole(t, { store, evidence });
  const found = await askFind(test, { q: digestsOf(Buffer.from('same')).sha256 });
  t.strictSame(new Set(found.jobs), new Set(jobs.map(({ id }) => id)));
  const empty = await openTestConsole(t, await openSealedStore(t, []));
  t.match(await askFind(empty, {}), { status: 200, text: /No jobs yet/ });
});

t.test('the files of a receipt are served byte for byte, and missing files are not found', async (t) => {
  const { test, store, evidence, jobs } = await openMany(t);
  const { cookie } = test.signedIn('auditor');
  const [job] = jobs;
  const id = job?.id ?? '';
  const outcome = (await store.jobs.get(id))?.outcome;
  if (job === undefined || outcome?.kind !== 'sealed') throw new Error('nothing is sealed');
  const file = (name: string) => test.get(`/find/${name}`, { cookie });
  const receipt = await file(`${id}/receipt.json`);
  t.equal(receipt.text, await evidence.receipt(job, outcome));
  t.equal(receipt.headers['content-disposition'], `attachment; filename="${id}.receipt.json"`);
  t.match(JSON.parse(receipt.text), { job_id: id });
  t.equal((await file(`${id}/tlog-proof`)).text, await evidence.proof(job, outcome));
  t.equal((await file('trust.json')).text, encodeTrust(trusting(1)));
  for (const name of ['ers', 'document.pdf', 'bundle.json'])
    t.match(await file(`${id}/${name}`), { status: 404, text: /no such file/ }, name);
  const page = (await file(id)).text;
  t.match(page, /receipt\.json.*tlog-proof.*trust\.json/s);
  t.notMatch(page, /\.ers|document\.pdf|bundle\.json/);
  const head = await store.log.head();
  if (head === undefined) throw new Error('a log with jobs has a head');
  await store.witnessing.put({ witnesses: {}, witnessed: head });
  t.match((await file(id)).text, /bundle\.json/, 'once witnesses have seen it');
  t.equal((await file(`${id}/bundle.json`)).text, await evidence.bundle(job, outcome, 'auditor'));
  for (const path of [newJobId(), `${newJobId()}/receipt.json`, 'job_x', '..%2f..%2fetc'])
    t.match(await file(path), { status: 404, text: /no such job/i }, path);
  for (const path of [id, `${id}/receipt.json`, 'trust.json']) {
    t.match(await test.get(`/find/${path}`), { status: 401 }, 'only with a session');
    t.match(await test.post(`/find/${path}`, { token: test.signedIn().token }, { cookie }), { status: 405 });
  }
});

t.test('each read of a document is on record before any of it is sent', async (t) => {
  const { store, evidence } = await openSealedStore(t, ['billing']);
  const job = jobOf(Buffer.from('%PDF-1'));
  await sealFirst(store, [job]);
  const before = await store.trail.newest();
  let recorded = 0;
  async function* copy() {
    recorded = await store.trail.newest();
    yield Buffer.from('%PDF-1');
  }
  const test = await openTestConsole(t, { store, evidence: { ...evidence, copy: async () => copy() } });
  const { cookie } = test.signedIn('auditor');
  const read = (name: string, who = cookie) => test.get(`/find/${job.id}/${name}`, { cookie: who });
  t.match(await read('document.pdf'), { status: 200, text: '%PDF-1' });
  t.equal(recorded, before + 1);
  await read('document.pdf');
  await read('receipt.json');
  t.equal(
    await store.trail.newest(),
    before + 1,
    'once in a session, and nothing for what holds no document',
  );
  await read('document.pdf', test.signedIn('operator', 'Berta').cookie);
  const object = { job: job.id, client: job.clientId };
  t.match((await test.acts()).slice(before), [
    { act: 'document.read', actor: { via: 'console', person: 'Anna', role: 'auditor' }, object },
    { act: 'document.read', actor: { person: 'Berta', role: 'operator' }, object },
  ]);
});

t.test('a session remembers the last thousand documents that it read', async (t) => {
  const { store, evidence } = await openSealedStore(t, ['billing']);
  const jobs = Array.from({ length: 1_001 }, (_, n) => jobOf(Buffer.from(`%PDF-${n}`)));
  await sealFirst(store, jobs);
  async function* copy() {
    yield Buffer.from('%PDF-1');
  }
  const acts: (number | undefined)[] = [];
  const trail = {
    append: async ({ object }: Act) => acts.push(jobs.findIndex(({ id }) => id === object.job)),
  };
  const sources: unknown = {
    store: { jobs: store.jobs, log: store.log, trail },
    evidence: { ...evidence, copy: async () => copy() },
  };
  const route = jobRoutes(sources as Sources).find(({ path }) => path === '/find/:id/document.pdf');
  const session = {};
  const read = async (n: number) => {
    const asked: unknown = { params: { id: jobs[n]?.id }, session, actor: {} };
    await route?.answer(asked as ScreenRequest);
  };
  for (const n of [...jobs.keys(), 1_000, 0]) await read(n);
  t.strictSame(acts, [...jobs.keys(), 0], 'the newest is on record once, and the oldest again');
});
