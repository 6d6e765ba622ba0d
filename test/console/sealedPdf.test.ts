/** What the console's page of a job says of a sealed PDF, and who may download it. */
import t, { type Test } from 'tap';
import { type SealedFilesOptions, sealedFilesOf } from '../../src/main/sealedFiles.ts';
import { openTestApp, type TestApp } from '../support/app.ts';
import type { JobBody } from '../support/client.ts';
import { onePage, pdfFile } from '../support/pdf.ts';
import { trusting } from '../support/wholeStore.ts';
import { openTestConsole } from './testConsole.ts';

const DOCUMENT = Buffer.from(pdfFile(onePage()));
const RETENTION_MS = 3_600_000;
let ageMs = 0;

const app = await openTestApp(t, { attach: true });
const kept = { copies: app.copies, retentionMs: RETENTION_MS, time: { ageMs: () => ageMs } };
const evidence = sealedFilesOf({
  ...kept,
  store: app.store,
  trust: () => trusting(1),
} satisfies SealedFilesOptions);

async function sealed({ client }: TestApp, fields = {}): Promise<string> {
  const answer = await client.seal(DOCUMENT, { mode: 'blocking', ...fields });
  return answer.json<JobBody>().id;
}

const openConsole = (t: Test, givesSealedPdfs: boolean) =>
  openTestConsole(t, { store: app.store, evidence, givesSealedPdfs });

const id = await sealed(app, { sealed_pdf: 'attach' });

t.test('an administrator downloads it, on record, where it is switched on', async (t) => {
  const test = await openConsole(t, true);
  const { cookie } = test.signedIn('administrator');
  const get = (name: string, who = cookie) => test.get(`/find/${id}${name}`, { cookie: who });
  t.match((await get('')).text, /kept for a limited time.*sealed\.pdf.*sealed-pdf\.suffix/s);
  const before = await app.store.trail.newest();
  const expected = await app.client.get(`/v1/jobs/${id}/sealed.pdf`);
  const answer = await get('/sealed.pdf');
  t.match(answer, {
    status: 200,
    headers: {
      'content-type': 'application/pdf',
      'content-disposition': `attachment; filename="${id}.sealed.pdf"`,
    },
  });
  t.equal(answer.text, expected.bytes.toString());
  const newest = (await test.acts()).at(-1);
  t.equal(await app.store.trail.newest(), before + 1);
  t.match(newest, { act: 'document.read', actor: { person: 'Anna' }, object: { job: id } });
  for (const role of ['auditor', 'operator'] as const) {
    const { cookie } = test.signedIn(role);
    t.match(await get('/sealed.pdf', cookie), { status: 403 }, role);
    t.notMatch((await get('', cookie)).text, /\/sealed\.pdf/, role);
  }
  t.match(await test.get(`/find/${id}/sealed.pdf`), { status: 401 });
  t.equal(await app.store.trail.newest(), before + 1, 'what was refused is not a reading');
});

t.test('nobody downloads it unless it is switched on; the suffix is for all', async (t) => {
  const test = await openConsole(t, false);
  const { cookie } = test.signedIn('administrator');
  const before = await app.store.trail.newest();
  const refused = await test.get(`/find/${id}/sealed.pdf`, { cookie });
  t.match(refused, { status: 403, text: /does not give out sealed PDFs.*console\.sealed_pdfs/s });
  const auditor = { cookie: test.signedIn('auditor').cookie };
  const page = (await test.get(`/find/${id}`, auditor)).text;
  t.match(page, /kept for a limited time/);
  t.notMatch(page, /\/sealed\.pdf/);
  const suffix = await test.get(`/find/${id}/sealed-pdf.suffix`, auditor);
  const own = await app.client.get(`/v1/jobs/${id}/sealed-pdf.suffix`);
  t.match(suffix, { status: 200, text: own.bytes.toString() });
  t.equal(await app.store.trail.newest(), before, 'it holds no document');
});

t.test('a job without one, and one whose document is gone', async (t) => {
  const test = await openConsole(t, true);
  const { cookie } = test.signedIn('administrator');
  const plain = await sealed(app);
  t.match((await test.get(`/find/${plain}`, { cookie })).text, /Sealed PDF.*not requested/s);
  for (const name of ['sealed.pdf', 'sealed-pdf.suffix'])
    t.match(await test.get(`/find/${plain}/${name}`, { cookie }), { status: 404 }, name);
  ageMs = RETENTION_MS;
  const page = (await test.get(`/find/${id}`, { cookie })).text;
  t.match(page, /no longer kept/);
  t.notMatch(page, /\/sealed\.pdf/);
  t.match(page, /sealed-pdf\.suffix/);
  t.match(await test.get(`/find/${id}/sealed.pdf`, { cookie }), { status: 404 });
  ageMs = 0;
});
