/** Creates behind the virus scanner: a real clamd. */
import t from 'tap';
import { openTestApp, pdfOf } from '../support/app.ts';
import { isAvailable, startClamd, startScanner, VIRUS, VIRUS_NAME } from '../support/clamd.ts';
import type { Answer, Envelope, JobBody } from '../support/client.ts';
import { encryptedPdf } from '../support/pdf.ts';
import { either, openSource, type SourceHandler, serving, sha256Of } from '../support/sources.ts';
import { until } from '../support/until.ts';
import { Wire } from '../support/wire.ts';

const INFECTED = pdfOf(VIRUS);
const codeOf = (answer: Answer) => `${answer.status} ${answer.json<Envelope>().error.code}`;

t.test('the verdict is in the manifest', async (t) => {
  const clamd = await startClamd(t);
  const { scanner } = await startScanner(t, clamd.address, { encrypted: 'record' });
  const { client } = await openTestApp(t, { scanner });
  const scanOf = async (document: Buffer<ArrayBuffer>) => {
    const sealed = await client.seal(document, { mode: 'blocking' });
    const receipt = await client.get(`/v1/jobs/${sealed.json<JobBody>().id}/receipt.json`);
    return receipt.json<{ manifest: { scan: object } }>().manifest.scan;
  };
  const engine = scanner.health().version?.engine;
  t.strictSame(await scanOf(pdfOf('a')), { verdict: 'clean', engine, signatures: '27410' });
  t.strictSame(await scanOf(pdfOf('large', 3_000_000)), { verdict: 'clean', engine, signatures: '27410' });
  t.strictSame(await scanOf(Buffer.from(encryptedPdf())), {
    verdict: 'encrypted',
    engine,
    signatures: '27410',
  });
});

t.test('a document that the scanner rejects makes no job, and is never hashed', async (t) => {
  const clamd = await startClamd(t);
  const { scanner } = await startScanner(t, clamd.address);
  const { client, log } = await openTestApp(t, { scanner });
  const key = { 'Idempotency-Key': 'infected-0001' };
  for (const mode of ['async', 'blocking']) {
    const answer = await client.seal(INFECTED, { mode }, key);
    t.equal(codeOf(answer), '400 virus_scan_failed', mode);
    t.match(answer.json<Envelope>().error.message, `found ${VIRUS_NAME} in the document`);
    t.equal(answer.headers.get('Location'), null);
  }
  t.equal(codeOf(await client.seal(Buffer.from(encryptedPdf()))), '400 virus_scan_failed');
  const mismatch = { checksum_sha256: '0'.repeat(64) };
  t.equal(
    codeOf(await client.seal(INFECTED, mismatch)),
    '400 virus_scan_failed',
    'nobody looked at its digest',
  );
  t.strictSame((await client.get('/v1/jobs')).json(), { jobs: [] });
  const lines = JSON.stringify(log());
  t.notMatch(lines, sha256Of(INFECTED));
  t.match(lines, VIRUS_NAME, 'the administrator is told');

  t.equal((await client.seal(pdfOf('clean'), {}, key)).status, 202, 'and the key is free');
});

t.test('without a scanner no document is accepted, but repeats are answered', async (t) => {
  const clamd = await startClamd(t);
  const { scanner } = await startScanner(t, clamd.address);
  const { client, server } = await openTestApp(t, { scanner });
  const key = { 'Idempotency-Key': 'accepted-0001' };
  const first = await client.seal(pdfOf('a'), {}, key);
  await clamd.stop();
  await until('it is missed', () => !isAvailable(scanner));

  const refused = await client.seal(pdfOf('b'));
  t.equal(codeOf(refused), '503 scanner_unavailable');
  t.ok(Number(refused.headers.get('Retry-After')) > 0);
  const repeated = await client.seal(pdfOf('a'), {}, key);
  t.equal(repeated.json<JobBody>().id, first.json<JobBody>().id);
  t.equal(repeated.headers.get('Idempotent-Replayed'), 'true');

  const wire = new Wire(server.port);
  const fields = [
    'Host: a',
    `Authorization: Bearer ${client.apiKey}`,
    'Expect: 100-continue',
    'Content-Length: 500',
  ];
  const type = 'Content-Type: multipart/form-data; boundary=b';
  wire.send(`POST /v1/jobs/seal HTTP/1.1\r\n${[...fields, type].join('\r\n')}\r\n\r\n`);
  await wire.until(/\}\}$/);
  t.match(wire.received, /^HTTP\/1\.1 503 /, 'nobody asked for the document');
  wire.destroy();
  t.equal((await client.get('/v1/jobs')).json<{ jobs: [] }>().jobs.length, 1);

  await clamd.start();
  await until('it is back', () => isAvailable(scanner));
  t.equal((await client.seal(pdfOf('b'))).status, 202);
  t.equal(codeOf(await client.seal(INFECTED)), '400 virus_scan_failed');
});

t.test('a document whose scanner is lost half-way is refused, and the reason is logged', async (t) => {
  const clamd = await startClamd(t);
  const { scanner } = await startScanner(t, clamd.address, { intervalMs: 600_000 });
  const { client, log } = await openTestApp(t, { scanner });
  const document = pdfOf('slow', 2_000_000);
  const head = `--b\r\nContent-Disposition: form-data; name="visibility"\r\n\r\nprivate\r\n--b\r\nContent-Disposition: form-data; name="file"; filename="a.pdf"\r\n\r\n`;
  const body = async function* () {
    yield Buffer.from(head);
    yield document.subarray(0, 1_000_000);
    await until('clamd has some of it', () => scanner.health().connectionsInUse === 1);
    await clamd.stop();
    yield document.subarray(1_000_000);
    yield Buffer.from('\r\n--b--\r\n');
  };
  const headers = { 'Content-Type': 'multipart/form-data; boundary=b' };
  const answer = await client.request('POST', '/v1/jobs/seal', {
    headers,
    body: ReadableStream.from(body()),
  });
  t.equal(codeOf(answer), '503 scanner_unavailable');
  t.strictSame((await client.get('/v1/jobs')).json(), { jobs: [] });
  t.match(
    log().find(({ msg }) => msg === 'refused a request'),
    { err: { code: 'scanner_unavailable', cause: { type: 'ScannerFailure', message: /clamd|connection/ } } },
    'the reason is in the log',
  );
});

t.test('a fetched document is scanned too, and not hashed before that', async (t) => {
  const clamd = await startClamd(t);
  const { scanner } = await startScanner(t, clamd.address);
  const { client, log } = await openTestApp(t, {
    scanner,
    sources: { allow: ['127.0.0.0/8'], retryDelayMs: 20 },
  });
  const held = Promise.withResolvers<void>();
  const inTwo = (document: Buffer, second: Promise<void>): SourceHandler =>
    either(serving(document), async (_, res) => {
      res.writeHead(200, { 'Content-Length': document.length }).write(document.subarray(0, 20));
      await second;
      res.end(document.subarray(20));
    });
  const create = async (document: Buffer, handler: SourceHandler, mode = 'async') => {
    const { origin } = await openSource(t, handler);
    const body = { source_url: origin, checksum_sha256: sha256Of(document), visibility: 'private', mode };
    const headers = { 'Content-Type': 'application/json' };
    return client.request('POST', '/v1/jobs/seal', { headers, body: JSON.stringify(body) });
  };
  const read = async (answer: Answer) =>
    (await client.get(`/v1/jobs/${answer.json<JobBody>().id}`)).json<JobBody>();
  const ends = async (answer: Answer) => {
    await until('the job ends', async () => /completed|failed/.test((await read(answer)).phase));
    return read(answer);
  };

  const infected = await create(INFECTED, inTwo(INFECTED, held.promise));
  await until('it is scanned', () => scanner.health().connectionsInUse === 1);
  t.equal((await read(infected)).phase, 'queued');
  held.resolve();
  t.match(await ends(infected), {
    phase: 'failed',
    error: { code: 'virus_scan_failed', message: VIRUS_NAME },
  });
  const blocking = await create(INFECTED, serving(INFECTED), 'blocking');
  t.equal(codeOf(blocking), '400 virus_scan_failed');

  const clean = pdfOf('clean');
  const lost = Promise.withResolvers<void>();
  const waiting = await create(clean, inTwo(clean, lost.promise));
  await until('it is scanned', () => scanner.health().connectionsInUse === 1);
  await clamd.stop();
  lost.resolve();
  await until('it is to be tried again', () => log().some(({ pause_ms }) => pause_ms !== undefined));
  t.equal((await read(waiting)).phase, 'queued');
  await until('clamd is missed', () => !isAvailable(scanner));
  t.equal(codeOf(await create(clean, serving(clean))), '503 scanner_unavailable');
  await clamd.start();
  const { id, phase } = await ends(waiting);
  t.equal(phase, 'completed');
  const receipt = await client.get(`/v1/jobs/${id}/receipt.json`);
  t.match(receipt.json(), { manifest: { source: 'url', scan: { verdict: 'clean', signatures: '27410' } } });
});
