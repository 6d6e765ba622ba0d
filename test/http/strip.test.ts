import t from 'tap';
import { openTestApp } from '../support/app.ts';
import { LABORIOUS, metadata, onePage, pdfFile } from '../support/pdf.ts';
import { until } from '../support/until.ts';
import { slowUpload } from '../support/wire.ts';

const DOCUMENT = Buffer.from(pdfFile({ ...onePage('/Metadata 5 0 R'), 5: metadata() }));

const app = await openTestApp(t, { compliance: true });

t.test('stripping stops if its client disconnects, and no job is made', async (t) => {
  const before = await app.store.jobs.waiting(10);
  const upload = await slowUpload(app.client, LABORIOUS);
  upload.send();
  await until('the document has arrived', () => app.kept() === 1);
  upload.hangUp();
  await until('it is forgotten', () => app.kept() === 0);
  t.same(await app.store.jobs.waiting(10), before);
});

t.test('one client’s documents do not keep another client waiting', async (t) => {
  const greedy = app.client.as(await app.issue({ clientId: 'greedy' }));
  const uploads = await Promise.all([1, 2, 3].map(() => slowUpload(greedy, LABORIOUS)));
  for (const upload of uploads) upload.send();
  await until('its documents have arrived', () => app.kept() === 3);
  t.match(await app.client.seal(DOCUMENT), { status: 202 });
  t.equal(app.kept(), 4, 'and these are still looked through');
  for (const upload of uploads) upload.hangUp();
  await until('they are forgotten', () => app.kept() === 1);
});
