/** The way of a document in each form that a client can send it in, over a crash, to a receipt that verifies offline. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { newJobId } from '../../src/job/id.ts';
import { openStore } from '../../src/store/lmdb/open.ts';
import { sampleJob } from '../store/samples.ts';
import { pdfOf } from '../support/app.ts';
import { Client, digestFields, type JobBody } from '../support/client.ts';
import { openSandbox } from '../support/sandbox.ts';
import { openSource, serving, sha256Of } from '../support/sources.ts';
import { until } from '../support/until.ts';

const JSON_BODY = { 'Content-Type': 'application/json' };

t.test('a document is sealed in each form, and its receipt outlives the daemon', async (t) => {
  const hosted = pdfOf('at a URL');
  const source = await openSource(t, serving(hosted));
  const sandbox = await openSandbox({
    stamped: true,
    tables: { sources: `allow = ["${source.origin}", "127.0.0.1"]` },
  });
  t.teardown(() => sandbox.close());
  const apiKey = await sandbox.issueKey();
  await sandbox.start();
  const client = await Client.connect(sandbox.url, apiKey);
  const post = (path: string, headers: Record<string, string>, body: Uint8Array<ArrayBuffer> | string) =>
    client.request('POST', path, { headers, body });

  const documents = {
    form: pdfOf('in a form'),
    raw: pdfOf('as the body'),
    url: hosted,
    digests: pdfOf('kept'),
  };
  const inUrl = JSON.stringify({
    source_url: `${source.origin}/a.pdf`,
    checksum_sha256: sha256Of(hosted),
    visibility: 'private',
    mode: 'blocking',
  });
  const answers = {
    form: await client.seal(documents.form, { mode: 'blocking' }),
    raw: await post(
      '/v1/jobs/seal?visibility=private&mode=blocking',
      { 'Content-Type': 'application/pdf' },
      documents.raw,
    ),
    url: await post('/v1/jobs/seal', JSON_BODY, inUrl),
    digests: await post('/v1/digests/seal', JSON_BODY, JSON.stringify(digestFields(documents.digests))),
  };
  // Asynchronous: accepted before the crash, and sealed at the latest after it.
  const late = await client.seal(pdfOf('accepted'), { mode: 'async' });
  await sandbox.kill();
  const forged = sampleJob({ id: newJobId(), clientId: 'quickstart', capabilities: ['no'.repeat(40)] });
  const store = await openStore({ path: join(sandbox.dir, 'state', 'store') });
  await store.jobs.accept(forged);
  await store.close();
  await sandbox.start();
  const refused = (await client.get(`/v1/jobs/${forged.id}`)).json<JobBody>();
  t.equal(refused.phase, 'failed', 'a job that was written into the store is not sealed');

  const isCompleted = async ({ id }: JobBody) => {
    const job = await client.get(`/v1/jobs/${id}`);
    return job.json<JobBody>().phase === 'completed';
  };
  await until('the job that was accepted is sealed', () => isCompleted(late.json()));
  for (const [form, document] of Object.entries(documents) as [keyof typeof documents, Buffer][]) {
    const answer = answers[form];
    t.equal(answer.status, 202, `${form}: ${answer.text}`);
    const job = answer.json<JobBody>();
    await until(`${form} is sealed`, () => isCompleted(job));
    const receipt = await client.get(`/v1/jobs/${job.id}/receipt.json`);
    const [file, receiptFile] = [join(sandbox.dir, `${form}.pdf`), join(sandbox.dir, `${form}.json`)];
    writeFileSync(file, document);
    writeFileSync(receiptFile, receipt.bytes);
    const verified = await sandbox.pdfseal(['verify', file, receiptFile, '--trust', sandbox.trustFile]);
    t.match(verified, { status: 0, stdout: /good$/m }, form);
  }
});
