import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import type { Receipt } from '../../src/manifest/receipt.ts';
import { AlteredJob } from '../../src/store/acceptances.ts';
import { openTestApp, pdfOf, type TestApp, type TestOptions } from '../support/app.ts';
import { isAvailable, startClamd, startScanner, VIRUS, VIRUS_NAME } from '../support/clamd.ts';
import type { Answer, Client, Envelope, JobBody } from '../support/client.ts';
import { HOSTILITIES, hostilityOf, openHostile } from '../support/hostile.ts';
import {
  either,
  openSource,
  reprDigest,
  type SourceHandler,
  serving,
  sha256Of,
  status,
} from '../support/sources.ts';
import { until } from '../support/until.ts';

const LOOPBACK = ['127.0.0.0/8', '::1'];
const DOCUMENT = pdfOf('a hosted document', 300_000);
const codeOf = (answer: Answer) => `${answer.status} ${answer.json<Envelope>().error.code}`;

function openSourceApp(t: Parameters<typeof openTestApp>[0], options: TestOptions = {}): Promise<TestApp> {
  return openTestApp(t, { ...options, sources: { allow: LOOPBACK, ...options.sources } });
}

function create(
  client: Client,
  sourceUrl: string,
  document: Uint8Array = DOCUMENT,
  fields: object = {},
  headers: Record<string, string> = {},
): Promise<Answer> {
  const body = {
    source_url: sourceUrl,
    checksum_sha256: sha256Of(document),
    visibility: 'private',
    ...fields,
  };
  return client.request('POST', '/v1/jobs/seal', {
    headers: { 'Content-Type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
}

async function ended(client: Client, answer: Answer): Promise<JobBody> {
  const { id } = answer.json<JobBody>();
  const read = async () => (await client.get(`/v1/jobs/${id}`)).json<JobBody>();
  await until(`${id} ends`, async () => /completed|failed/.test((await read()).phase));
  return read();
}

const shared = await openSourceApp(t);

t.test('a hosted document is sealed like an uploaded one', async (t) => {
  const source = await openSource(t, serving(DOCUMENT));
  const { client, store, log } = shared;
  const url = `${source.origin}/contract.pdf?X-Signature=s3cr3t`;
  const fields = { customer_reference: 'R-1', purpose: 'contracts' };
  const upper = sha256Of(DOCUMENT).toUpperCase();
  const answer = await create(client, url, DOCUMENT, { ...fields, checksum_sha256: upper });
  t.equal(answer.status, 202);
  t.match(answer.json(), { phase: 'queued', capabilities: ['receipt.sha512'] });
  t.match(await ended(client, answer), { phase: 'completed', receipt_url: /^https/ });
  const { id } = answer.json<JobBody>();
  const receipt = (await client.get(`/v1/jobs/${id}/receipt.json`)).json<Receipt>();
  t.match(receipt, {
    document_sha256: sha256Of(DOCUMENT),
    customer_reference: 'R-1',
    manifest: {
      source: 'url',
      document: {
        sha256: sha256Of(DOCUMENT),
        sha512: createHash('sha512').update(DOCUMENT).digest('hex'),
        bytes: DOCUMENT.length,
      },
    },
  });
  t.same(
    source.requests,
    ['HEAD', 'GET'].map((method) => `${method} /contract.pdf?X-Signature=s3cr3t`),
  );
  t.equal(await store.jobs.sourceUrl(id), undefined, 'where it came from is forgotten');
  t.notMatch(JSON.stringify([receipt, log()]), /s3cr3t|contract\.pdf/);
  const { jobs } = (await client.get(`/v1/jobs?document_sha256=${upper}`)).json<{ jobs: JobBody[] }>();
  t.same(
    jobs.map((job) => job.id),
    [id],
  );
});

t.test('a blocking create waits for the fetch, and for its failure', async (t) => {
  const source = await openSource(t, (req, res) =>
    (req.url === '/other' ? either(status(405), serving(pdfOf('another'))) : serving(DOCUMENT))(req, res),
  );
  const { client } = shared;
  const blocking = { mode: 'blocking' };
  const answer = await create(client, source.origin, DOCUMENT, blocking);
  t.match(answer, { status: 202 });
  t.match(answer.json(), { phase: 'completed', receipt_url: /receipt/ });
  const key = { 'Idempotency-Key': 'key-of-a-failure' };
  for (const _ of ['first', 'again, for a failure is not pinned']) {
    const failed = await create(client, `${source.origin}/other`, DOCUMENT, blocking, key);
    t.equal(codeOf(failed), '409 checksum_mismatch');
    t.notOk(failed.headers.has('Location'));
    t.notOk(failed.headers.has('Retry-After'));
  }
  t.equal(source.requests.filter((request) => request === 'GET /other').length, 2);
});

t.test('nothing is fetched for a job that was altered in the store: it fails', async (t) => {
  const source = await openSource(t, serving(DOCUMENT));
  const { client, store, log } = await openSourceApp(t);
  store.jobs.sourceUrl = async (jobId) => {
    throw new AlteredJob(jobId, 'its MAC is of another job');
  };
  const job = await ended(client, await create(client, source.origin));
  t.match(job, { phase: 'failed', error: { code: 'internal_error' } });
  t.same(source.requests, ['HEAD /'], 'before it was accepted');
  t.match(
    log().filter(({ event }) => event === 'waiting_refused'),
    [{ job_id: job.id, detail: /its MAC is of another job/ }],
  );
});

t.test('a fault that the probe finds is answered by the create, and no job is accepted', async (t) => {
  const other = pdfOf('another');
  const head = (headers: Record<string, string>): SourceHandler =>
    either(status(200, headers), serving(DOCUMENT));
  const s3 = createHash('sha256').update(other).digest('base64');
  const cases: [string, SourceHandler, string][] = [
    ['another Repr-Digest', head({ 'Repr-Digest': reprDigest(other) }), '409 checksum_mismatch'],
    ['another Digest', head({ Digest: `SHA-256=${s3}` }), '409 checksum_mismatch'],
    ['another S3 checksum', head({ 'x-amz-checksum-sha256': s3 }), '409 checksum_mismatch'],
    ['a length over the limit', head({ 'Content-Length': '4194305' }), '413 document_too_large'],
    ['404', status(404), '400 source_unreachable'],
    ['500', status(500), '400 source_unreachable'],
    ['gzip', head({ 'Content-Encoding': 'gzip' }), '400 source_unreachable'],
    ['a redirect aside', status(302, { Location: 'http://[fe80::1]/' }), '400 source_not_allowed'],
  ];
  const { client, store } = shared;
  const jobsOf = async () => (await client.get('/v1/jobs')).json<{ jobs: unknown[] }>().jobs.length;
  const before = await jobsOf();
  const waiting = await store.jobs.waitingCount();
  for (const [name, handle, code] of cases) {
    const { origin } = await openSource(t, handle);
    t.equal(codeOf(await create(client, `${origin}/a.pdf`)), code, name);
  }
  t.equal(codeOf(await create(client, 'http://127.0.0.1:9/')), '400 source_unreachable');
  t.equal(codeOf(await create(client, 'http://10.0.0.1/')), '400 source_not_allowed');
  t.equal(codeOf(await create(client, 'http://user:pw@127.0.0.1/')), '400 invalid_parameter');
  t.equal(await store.jobs.waitingCount(), waiting);
  t.equal(await jobsOf(), before);
});

t.test('without allowed sources, no source is asked', async (t) => {
  const source = await openSource(t, serving(DOCUMENT));
  const { client } = await openTestApp(t);
  t.equal(codeOf(await create(client, source.origin)), '400 source_not_allowed');
  t.same(source.requests, []);
});

t.test('a fault that only the document shows fails the job for good', async (t) => {
  const bytes = DOCUMENT.length;
  const endless: SourceHandler = (_, res) => {
    res.writeHead(200);
    const chunk = Buffer.alloc(64 * 1024, '%PDF-');
    const more = () => res.socket?.writable && res.write(chunk, more);
    more();
  };
  const body = (headers: Record<string, string | number>, document: Buffer): SourceHandler =>
    either(status(405), (_, res) => res.writeHead(200, headers).end(document));
  const changed = Buffer.from(DOCUMENT).fill('x', 100, 101);
  const cases: [string, SourceHandler, string][] = [
    ['a change after HEAD', either(serving(DOCUMENT), serving(changed)), 'checksum_mismatch'],
    ['no end', either(status(403), endless), 'document_too_large'],
    [
      'an announced length over the limit',
      either(status(405), serving(pdfOf('x', 4194305))),
      'document_too_large',
    ],
    ['no PDF', body({}, Buffer.from('hello')), 'not_a_pdf'],
    ['nothing', body({}, Buffer.alloc(0)), 'not_a_pdf'],
    ['a length that is too short', body({ 'Content-Length': bytes - 8 }, DOCUMENT), 'not_a_pdf'],
    ['gzip', body({ 'Content-Encoding': 'gzip' }, DOCUMENT), 'source_unreachable'],
    ['404', either(serving(DOCUMENT), status(404)), 'source_unreachable'],
    [
      'a redirect aside',
      either(status(405), status(302, { Location: 'http://10.1.1.1' })),
      'source_not_allowed',
    ],
  ];
  const { client, store, fatal } = shared;
  for (const [name, handle, code] of cases) {
    const source = await openSource(t, handle);
    const answer = await create(client, source.origin);
    t.equal(answer.status, 202, name);
    const job = await ended(client, answer);
    t.match(job, { phase: 'failed', error: { code, message: /source_url|checksum_sha256/ } }, name);
    t.equal(source.requests.filter((request) => request.startsWith('GET')).length, 1, `${name}: asked once`);
    t.equal(await store.jobs.sourceUrl(job.id), undefined, name);
    for (const name of ['receipt.json', 'receipt.tlog-proof'])
      t.equal(codeOf(await client.get(`/v1/jobs/${job.id}/${name}`)), '404 receipt_unavailable');
  }
  t.same(fatal, []);
});

t.test('a temporary fault is retried', async (t) => {
  const { client, log } = await openSourceApp(t, { bodyIdleTimeoutMs: 2000 });
  const part = DOCUMENT.subarray(0, 100_000);
  const faults: Record<string, SourceHandler> = {
    '500': status(500),
    '429': status(429),
    'a broken connection': (_, res) => res.socket?.destroy(),
    'a length that is too long': (_, res) => {
      res.writeHead(200, { 'Content-Length': DOCUMENT.length }).write(part, () => res.socket?.destroy());
    },
    'a chunked body that breaks off': (_, res) => void res.write(part, () => res.socket?.destroy()),
    'a source that stands still': (_, res) => void res.writeHead(200).write(part),
  };
  for (const [name, fault] of Object.entries(faults)) {
    let left = 2;
    const source = await openSource(
      t,
      either(serving(DOCUMENT), (req, res) => {
        left -= 1;
        return (left >= 0 ? fault : serving(DOCUMENT))(req, res);
      }),
    );
    t.match(await ended(client, await create(client, source.origin)), { phase: 'completed' }, name);
    t.equal(source.requests.length, 4, name);
  }
  const retries = log().filter(
    ({ msg }) => msg === 'a document could not be fetched; another attempt follows',
  );
  t.equal(retries.length, 12);
  for (const line of retries) t.match(line, { error_code: 'source_unreachable', origin: /^http:..127/ });
});

t.test('a source that drips is given up in time, but not for the service’s own delay', async (t) => {
  const drip: SourceHandler = async (_, res) => {
    res.writeHead(200, { 'Content-Length': DOCUMENT.length }).write('%PDF-1.7\n');
    while (res.socket?.writable) {
      res.write('.');
      await sleep(10);
    }
  };
  const patience = { idleTimeoutMs: 2000, bytesPerSecondMin: 10_000 };
  const { client } = await openSourceApp(t, { sources: { patience, giveUpAfterMs: 100 } });
  const source = await openSource(t, either(serving(DOCUMENT), drip));
  t.match(await ended(client, await create(client, source.origin)), {
    phase: 'failed',
    error: { code: 'source_unreachable', message: /too slowly/ },
  });
});

t.test('the time until giving up counts from acceptance', async (t) => {
  let now = 0;
  const late: SourceHandler = (req, res) => {
    now += 40_000;
    return status(503, { 'Retry-After': '30' })(req, res);
  };
  const source = await openSource(t, either(serving(DOCUMENT), late));
  const { client } = await openSourceApp(t, {
    monotonicMs: () => now,
    sources: { giveUpAfterMs: 60_000 },
  });
  t.match(await ended(client, await create(client, source.origin)), {
    phase: 'failed',
    error: { code: 'source_unreachable', message: /status 503/ },
  });
});

t.test('a job reports that it is hashed, as does a blocking wait that times out', async (t) => {
  const open = Promise.withResolvers<void>();
  const slow: SourceHandler = async (_, res) => {
    res.writeHead(200, { 'Content-Length': DOCUMENT.length }).write(DOCUMENT.subarray(0, 1000));
    await open.promise;
    res.end(DOCUMENT.subarray(1000));
  };
  const source = await openSource(t, either(serving(DOCUMENT), slow));
  const { client } = shared;
  const answer = await create(client, source.origin, DOCUMENT, { mode: 'blocking' }, { Prefer: 'wait=0' });
  t.match(answer.json<JobBody>().phase, /^(queued|hashing)$/);
  const { id } = answer.json<JobBody>();
  await until(
    'hashing',
    async () => (await client.get(`/v1/jobs/${id}`)).json<JobBody>().phase === 'hashing',
  );
  open.resolve();
  t.match(await ended(client, answer), { phase: 'completed' });
});

t.test('a repeat returns the same job without asking the source', async (t) => {
  const source = await openSource(t, serving(DOCUMENT));
  const { client } = shared;
  const key = { 'Idempotency-Key': 'the-same-key' };
  const first = await create(client, source.origin, DOCUMENT, {}, key);
  await ended(client, first);
  const asked = source.requests.length;
  const again = await create(client, source.origin, DOCUMENT, {}, key);
  t.match(again.json(), { id: first.json<JobBody>().id, phase: 'completed', receipt_url: String });
  t.equal(again.headers.get('Idempotent-Replayed'), 'true');
  const other = await create(client, `${source.origin}/other`, DOCUMENT, {}, key);
  t.equal(codeOf(other), '409 idempotency_key_reused');
  const checksum = await create(client, source.origin, pdfOf('another'), {}, key);
  t.equal(codeOf(checksum), '409 idempotency_key_reused');
  t.equal(source.requests.length, asked);
  const refused = { 'Idempotency-Key': 'another-key' };
  t.equal(codeOf(await create(client, source.origin, pdfOf('x'), {}, refused)), '409 checksum_mismatch');
  t.equal((await create(client, source.origin, DOCUMENT, {}, refused)).status, 202, 'a refusal takes no key');
});

t.test('a document that the scanner rejects fails the job before it is hashed', async (t) => {
  const clamd = await startClamd(t);
  const { scanner } = await startScanner(t, clamd.address);
  const infected = pdfOf(VIRUS, 100_000);
  const open = Promise.withResolvers<void>();
  const slow: SourceHandler = async (_, res) => {
    res.writeHead(200, { 'Content-Length': infected.length }).write(infected.subarray(0, 90_000));
    await open.promise;
    res.end(infected.subarray(90_000));
  };
  const source = await openSource(t, either(serving(infected), slow));
  const { client, log } = await openSourceApp(t, { scanner });
  const answer = await create(client, source.origin, infected);
  await until('it is fetched', () => source.requests.length === 2);
  t.match((await client.get(`/v1/jobs/${answer.json<JobBody>().id}`)).json(), { phase: 'queued' });
  open.resolve();
  t.match(await ended(client, answer), {
    phase: 'failed',
    error: { code: 'virus_scan_failed', message: VIRUS_NAME },
  });
  t.match(JSON.stringify(log()), VIRUS_NAME, 'the administrator is told');
  const blocking = await create(client, source.origin, infected, { mode: 'blocking' });
  t.equal(codeOf(blocking), '400 virus_scan_failed');

  const clean = await openSource(t, serving(DOCUMENT));
  const sealed = await create(client, clean.origin, DOCUMENT, { mode: 'blocking' });
  const receipt = await client.get(`/v1/jobs/${sealed.json<JobBody>().id}/receipt.json`);
  t.match(receipt.json(), { manifest: { source: 'url', scan: { verdict: 'clean', engine: /ClamAV/ } } });
});

t.test('a fetched document waits for a scanner that is away', async (t) => {
  const clamd = await startClamd(t);
  const { scanner } = await startScanner(t, clamd.address);
  const asked = Promise.withResolvers<void>();
  const source = await openSource(
    t,
    either(serving(DOCUMENT), async (req, res) => {
      await asked.promise;
      serving(DOCUMENT)(req, res);
    }),
  );
  const { client } = await openSourceApp(t, { scanner });
  const answer = await create(client, source.origin);
  await until('it is fetched', () => source.requests.length === 2);
  await clamd.stop();
  asked.resolve();
  await until('it is missed', () => !isAvailable(scanner));
  t.match((await client.get(`/v1/jobs/${answer.json<JobBody>().id}`)).json(), { phase: 'queued' });
  await clamd.start();
  t.match(await ended(client, answer), { phase: 'completed' });
});

t.test('few documents are fetched at a time, and no client waits for all of another’s', async (t) => {
  let underWay = 0;
  let most = 0;
  const held: (() => void)[] = [];
  const source = await openSource(
    t,
    either(serving(DOCUMENT), (req, res) => {
      underWay += 1;
      most = Math.max(most, underWay);
      held.push(() => {
        underWay -= 1;
        serving(DOCUMENT)(req, res);
      });
    }),
  );
  const { client, issue } = await openSourceApp(t, { sources: { concurrentMax: 4 } });
  const other = client.as(await issue({ clientId: 'acme-app' }));
  const greedy: Answer[] = [];
  for (let n = 0; n < 4; n++) greedy.push(await create(client, `${source.origin}/greedy`));
  const modest = await create(other, `${source.origin}/modest`);
  await until('three are fetched', () => held.length === 3);
  t.equal(source.requests.at(-1), 'GET /modest', 'a greedy client has half of the places, and leaves one');
  held.shift()?.();
  await until('the next is fetched', () => held.length === 3);
  const releasing = setInterval(() => held.shift()?.(), 5);
  t.teardown(() => clearInterval(releasing));
  for (const answer of greedy) t.match(await ended(client, answer), { phase: 'completed' });
  t.match(await ended(other, modest), { phase: 'completed' });
  t.equal(most, 3);
});

t.test('hostile sources occupy only the share of their client, and do not delay a stop', async (t) => {
  const { client, issue, fetching, store, fatal } = await openSourceApp(t, { sources: { concurrentMax: 8 } });
  const other = client.as(await issue({ clientId: 'acme-app' }));
  const before = await store.jobs.waitingCount();
  const servers = await Promise.all(HOSTILITIES.map((one) => openHostile(t, one, { toGet: true })));
  for (const { host } of servers) {
    const answer = await create(client, `http://${host}/a.pdf`);
    t.equal(answer.status, 202);
  }
  await until('they hold what they may', () => fetching.status().underWay === 4);
  const source = await openSource(t, serving(DOCUMENT));
  const sealed = await create(other, source.origin, DOCUMENT, { mode: 'blocking' });
  t.match(sealed.json(), { phase: 'completed' });
  await fetching.close();
  for (const server of servers) await server.left();
  t.same(fatal, []);
  t.equal(
    await store.jobs.waitingCount(),
    before + HOSTILITIES.length,
    'they are fetched after the next start',
  );
});

t.test('sources that do not answer HEAD do not delay others', async (t) => {
  const app = await openSourceApp(t, { app: { uploadsMax: 2 }, sources: { answerTimeoutMs: 60_000 } });
  const silent = await openHostile(t, hostilityOf('says nothing'));
  const { client, issue, fetching } = app;
  const asked = Array.from({ length: 130 }, () => create(client, `http://${silent.host}/`));
  const refused = await Promise.race(asked);
  t.equal(codeOf(refused), '429 too_many_requests', 'a client has a share of requests to sources');
  await until('it is used', () => silent.connections() === 128);
  const other = client.as(await issue({ clientId: 'acme-app' }));
  const source = await openSource(t, serving(DOCUMENT));
  const hosted = await create(other, source.origin, DOCUMENT, { mode: 'blocking' });
  t.match(hosted.json(), { phase: 'completed' });
  for (const uploading of [client, other]) {
    const uploaded = await uploading.seal(DOCUMENT, { mode: 'blocking' });
    t.match(uploaded.json(), { phase: 'completed' });
  }
  await fetching.close();
  const codes = (await Promise.all(asked)).map(codeOf);
  t.equal(codes.filter((code) => code === '503 shutting_down').length, 128);
  await silent.left();
});
