import t from 'tap';
import { openTestApp, pdfOf, pullToken, type TestApp } from '../support/app.ts';
import type { Answer, Envelope, JobBody } from '../support/client.ts';
import { pidOf } from '../support/partitions.ts';
import { until } from '../support/until.ts';
import { slowUpload } from '../support/wire.ts';

const codeOf = (answer: Answer) => `${answer.status} ${answer.json<Envelope>().error.code}`;
const blocking = { mode: 'blocking' };

/** An HSM that does not answer until the function returned is called. */
function hang({ partitions }: TestApp): () => void {
  const pid = pidOf(partitions);
  process.kill(pid, 'SIGSTOP');
  return () => process.kill(pid, 'SIGCONT');
}

t.test('a wait that times out is answered with the phase so far, and the job goes on', async (t) => {
  const app = await openTestApp(t, { partitions: { signTimeoutMs: 30_000 }, app: { blockingTimeoutMs: 50 } });
  const { client } = app;
  const resume = hang(app);
  const waits: [string, string | null][] = [
    ['', null],
    ['wait=0', 'wait=0'],
    ['WAIT = "0"', 'wait=0'],
    ['respond-async, wait=0; x=1, wait=99', 'wait=0'],
    ['x="a, wait=3", wait="0"', 'wait=0'],
    ['x="a, wait=0"', null],
    ['x="\\", wait=0"', null],
    ['x="a, wait=0', null],
    ['wait="0, wait=0"', null],
    ['wait=3600', null],
    ['wait=-1', null],
    ['wait=soon', null],
  ];
  for (const [prefer, applied] of waits) {
    const answer = await client.seal(pdfOf(prefer), blocking, prefer === '' ? {} : { Prefer: prefer });
    t.equal(answer.status, 202, prefer);
    t.match(answer.json<JobBody>().phase, /^(queued|sealing)$/, prefer);
    t.notOk('receipt_url' in answer.json<JobBody>());
    t.equal(answer.headers.get('Preference-Applied'), applied, prefer);
    t.ok(Number(answer.headers.get('Retry-After')) > 0);
    t.match(answer.headers.get('Location'), answer.json<JobBody>().id);
  }
  const { jobs } = (await client.get('/v1/jobs')).json<{ jobs: JobBody[] }>();
  t.equal(jobs.length, waits.length);
  const pending = await client.get(`/v1/jobs/${jobs[0]?.id}/receipt.json`);
  t.equal(codeOf(pending), '404 receipt_not_ready');
  t.ok(Number(pending.headers.get('Retry-After')) > 0);
  resume();
  for (const { id } of jobs) {
    await until(
      'the job completed',
      async () => (await client.get(`/v1/jobs/${id}`)).json<JobBody>().phase === 'completed',
    );
  }
});

t.test('Prefer has no effect on async creates', async (t) => {
  const { client } = await openTestApp(t);
  const answer = await client.seal(pdfOf('a'), {}, { Prefer: 'wait=5' });
  t.equal(answer.json<JobBody>().phase, 'queued');
  t.equal(answer.headers.get('Preference-Applied'), null);
});

t.test('a repeat of a blocking create waits for the job the first one made', async (t) => {
  const app = await openTestApp(t, { partitions: { signTimeoutMs: 30_000 } });
  const headers = { 'Idempotency-Key': 'waiting-repeat' };
  const resume = hang(app);
  const first = await app.client.seal(pdfOf('a'), blocking, { ...headers, Prefer: 'wait=0' });
  t.match(first.json<JobBody>().phase, /^(queued|sealing)$/);
  const impatient = await app.client.seal(pdfOf('a'), blocking, { ...headers, Prefer: 'wait=0' });
  t.match(impatient.json<JobBody>().phase, /^(queued|sealing)$/);
  t.equal(impatient.headers.get('Idempotent-Replayed'), 'true');
  setTimeout(resume, 200);
  const patient = await app.client.seal(pdfOf('a'), blocking, headers);
  t.equal(patient.headers.get('Idempotent-Replayed'), 'true');
  t.match(patient.json<JobBody>(), { phase: 'completed', id: first.json<JobBody>().id });
});

t.test('a job goes on after its client has hung up', async (t) => {
  const app = await openTestApp(t, { partitions: { signTimeoutMs: 30_000 } });
  const resume = hang(app);
  const stop = new AbortController();
  const form = new FormData();
  form.append('visibility', 'private');
  form.append('mode', 'blocking');
  form.append('file', new Blob([pdfOf('a')]), 'a.pdf');
  const answer = app.client.request('POST', '/v1/jobs/seal', { body: form, signal: stop.signal });
  await until('the job accepted', () => app.sealer.waitingCount === 1);
  stop.abort();
  await t.rejects(answer);
  await until('the request ended', () => app.log().some((line) => line.client_gone === true));
  resume();
  await until('the job sealed', () => app.sealer.waitingCount === 0);
  const { jobs } = (await app.client.get('/v1/jobs')).json<{ jobs: JobBody[] }>();
  t.match(jobs, [{ phase: 'completed' }]);
});

t.test('with too few partitions, blocking creates are refused and async jobs wait', async (t) => {
  const app = await openTestApp(t, { partitions: { probeIntervalMs: 50 } });
  const { client, store } = app;
  const headers = { 'Idempotency-Key': 'unavailable' };
  const before = await store.jobs.waitingCount();

  const receiving = await slowUpload(client, pdfOf('async'), headers);
  const putBack = await pullToken(app);
  const refused = await client.seal(pdfOf('a'), blocking);
  t.equal(codeOf(refused), '503 kms_partition_unavailable');
  t.ok(Number(refused.headers.get('Retry-After')) > 0);
  t.equal(refused.headers.get('Location'), null);
  t.equal(await store.jobs.waitingCount(), before, 'nothing is recorded');

  const accepted = await receiving.finish();
  t.equal(accepted.status, 202, 'async jobs wait');
  const { id } = JSON.parse(accepted.text) as JobBody;
  t.equal(codeOf(await client.get(`/v1/jobs/${id}/receipt.json`)), '404 receipt_not_ready');
  await putBack();
  await until(
    'sealed',
    async () => (await client.get(`/v1/jobs/${id}`)).json<JobBody>().phase === 'completed',
  );
});

t.test('a blocking create that cannot be sealed leaves no job, and its key is free', async (t) => {
  // No probe may notice before the create is admitted.
  const app = await openTestApp(t, { partitions: { signTimeoutMs: 5000, probeIntervalMs: 60_000 } });
  const { client, store } = app;
  const headers = { 'Idempotency-Key': 'failing-create' };
  hang(app);
  const first = client.seal(pdfOf('a'), blocking, headers);
  await until('it is at the HSM', () => app.sealer.waitingCount === 1);
  for (const failed of await Promise.all([first, client.seal(pdfOf('a'), blocking, headers)])) {
    t.equal(codeOf(failed), '503 kms_partition_unavailable', 'the repeat shares the outcome');
    t.equal(failed.headers.get('Location'), null);
  }
  const viewer = { clientId: 'acme-web', organization: 'acme', partnerOf: [] };
  t.same((await store.jobs.list({ viewer, limit: 1 })).records, []);

  await until('the partition replaced', () => app.partitions.canSign());
  const again = await client.seal(pdfOf('a'), blocking, headers);
  t.equal(again.json<JobBody>().phase, 'completed');
  t.equal(again.headers.get('Idempotent-Replayed'), null);
});
