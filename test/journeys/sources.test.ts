/** Documents at a source_url, brought by a real daemon that is killed meanwhile. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { Receipt } from '../../src/manifest/receipt.ts';
import { parseTrust } from '../../src/manifest/trustFile.ts';
import { verifyReceipt } from '../../src/prove/verify/verify.ts';
import { pdfOf } from '../support/app.ts';
import { type Answer, Client, type Envelope, type JobBody } from '../support/client.ts';
import { openSandbox } from '../support/sandbox.ts';
import { either, makeTls, openSource, type SourceHandler, serving, sha256Of } from '../support/sources.ts';
import { until } from '../support/until.ts';

const DOCUMENT = pdfOf('a hosted document', 400_000);
const SECRET = 's3cr3t';

t.test('an accepted URL is fetched even if the daemon is killed or stopped meanwhile', async (t) => {
  const tls = makeTls(t);
  /** Documents are given to the end only after this; before, half of each. */
  let whole = false;
  const halfway: SourceHandler = (req, res) => {
    if (whole) serving(DOCUMENT)(req, res);
    else res.writeHead(200, { 'Content-Length': DOCUMENT.length }).write(DOCUMENT.subarray(0, 200_000));
  };
  const source = await openSource(t, either(serving(DOCUMENT), halfway), { tls });
  const stranger = await openSource(t, serving(DOCUMENT), { tls: makeTls(t) });
  const sandbox = await openSandbox({
    init: false,
    tables: {
      sources: 'allow = ["127.0.0.1"]\nca_file = "sources.pem"\nretry_delay = "50ms"\nconcurrent_max = 4',
    },
  });
  t.teardown(() => sandbox.close());
  writeFileSync(join(sandbox.dir, 'sources.pem'), tls.cert);
  await sandbox.init();
  const daemon = await sandbox.start();
  const client = await Client.connect(sandbox.url, await sandbox.issueKey());
  const create = (origin: string, key: string): Promise<Answer> =>
    client.request('POST', '/v1/jobs/seal', {
      headers: { 'Content-Type': 'application/json', 'Idempotency-Key': key },
      body: JSON.stringify({
        source_url: `${origin}/a.pdf?X-Signature=${SECRET}`,
        checksum_sha256: sha256Of(DOCUMENT),
        visibility: 'private',
        customer_reference: key,
      }),
    });
  const show = async (id: string) => {
    const { stdout } = await sandbox.pdfseal(['jobs', 'show', '--json', id, '--config', sandbox.configFile]);
    return JSON.parse(stdout) as Record<string, unknown>;
  };

  const refused = await create(stranger.origin, 'of-a-stranger');
  t.match(refused.json<Envelope>().error, { code: 'source_unreachable', message: /certificate/ });

  const answers: Answer[] = [];
  for (const key of ['the-first', 'the-second', 'the-third']) answers.push(await create(source.origin, key));
  const fetches = () => source.requests.filter((request) => request.startsWith('GET')).length;
  await until('two are half-way', () => fetches() === 2);
  await daemon.kill();

  const again = await sandbox.start();
  await until('two are half-way again', () => fetches() === 4);
  const [first] = answers.map((answer) => answer.json<JobBody>().id);
  t.match((await client.get(`/v1/jobs/${first}`)).json(), { phase: 'hashing' });
  t.match(await show(first ?? ''), {
    phase: 'queued',
    source: 'url',
    document: { sha256: sha256Of(DOCUMENT) },
  });
  const repeated = await create(source.origin, 'the-first');
  t.match(repeated.json(), { id: first, phase: 'hashing' }, 'a repeat is the same job, as it is now');
  t.equal(await again.stop(), 0, 'a stop waits for no source');

  whole = true;
  const last = await sandbox.start();
  const trust = parseTrust(readFileSync(sandbox.trustFile, 'utf8'));
  for (const answer of answers) {
    const { id } = answer.json<JobBody>();
    const read = async () => (await client.get(`/v1/jobs/${id}`)).json<JobBody>();
    await until('it is sealed', async () => (await read()).phase === 'completed');
    const receipt = (await client.get(`/v1/jobs/${id}/receipt.json`)).json<Receipt>();
    const { document } = receipt.manifest;
    t.equal(document.sha256, sha256Of(DOCUMENT));
    t.match(verifyReceipt({ document, receipt, trust }), { outcome: 'good' });
  }
  t.equal(fetches(), 7);
  const { stdout, status } = await sandbox.pdfseal(['check', '--config', sandbox.configFile]);
  t.equal(status, 0, stdout);
  for (const { log } of [daemon, again, last]) t.notMatch(JSON.stringify(log), SECRET);

  const gone = await openSource(
    t,
    either(serving(DOCUMENT), (_, res) => res.writeHead(404).end()),
    { tls },
  );
  const { id } = (await create(gone.origin, 'to-a-source-that-forgot')).json<JobBody>();
  await until(
    'it failed',
    async () => (await client.get(`/v1/jobs/${id}`)).json<JobBody>().phase === 'failed',
  );
  t.match(await show(id), { phase: 'failed', error: { code: 'source_unreachable', message: /status 404/ } });
});
