/** The daemon and clamd, started, lost and misled. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { startClamd, VIRUS } from '../support/clamd.ts';
import { Client, type Envelope, type JobBody } from '../support/client.ts';
import { makePdf } from '../support/pdf.ts';
import { openSandbox } from '../support/sandbox.ts';
import { until } from '../support/until.ts';

t.test('a site with a scanner rejects what it finds, and goes on after its loss', async (t) => {
  const clamd = await startClamd(t);
  const sandbox = await openSandbox({
    tables: {
      limits: 'document_bytes_max = "32MiB"',
      scan: `clamd = "unix:${clamd.socket}"\ntimeout = "10s"`,
    },
  });
  t.teardown(() => sandbox.close());
  const apiKey = await sandbox.issueKey();

  clamd.configure({
    settings: ['AlertEncrypted yes', 'StreamMaxLength 64M', 'MaxFileSize 64M', 'MaxScanSize 256M'],
  });
  await clamd.stop();
  await clamd.start();
  const refused = await sandbox.pdfseald();
  t.equal(refused.status, 1, 'a scanner that says OK to what it does not scan');
  t.match(refused.stderr, /^pdfseald: scan\.clamd: .*AlertExceedsMax yes.*\n$/);

  clamd.configure({});
  await clamd.stop();
  const daemon = await sandbox.start();
  const client = await Client.connect(sandbox.url, apiKey);
  const document = Buffer.from(await makePdf('a clean page'));
  const early = await client.seal(document);
  t.equal(early.json<Envelope>().error.code, 'scanner_unavailable', 'a daemon that is up before its scanner');

  await clamd.start();
  let job: JobBody | undefined;
  await until('the scanner is found', async () => {
    const answer = await client.seal(document, { mode: 'blocking' });
    if (answer.status === 202) job = answer.json<JobBody>();
    return job !== undefined;
  });
  const receipt = await client.get(`/v1/jobs/${job?.id}/receipt.json`);
  t.match(receipt.json(), {
    manifest: { scan: { verdict: 'clean', engine: /^ClamAV /, signatures: '27410' } },
  });
  writeFileSync(join(sandbox.dir, 'a.pdf'), document);
  writeFileSync(join(sandbox.dir, 'a.json'), receipt.bytes);
  const verified = await sandbox.pdfseal(['verify', 'a.pdf', 'a.json', '--trust', sandbox.trustFile], {
    cwd: sandbox.dir,
  });
  t.equal(verified.status, 0, verified.stdout);

  const infected = await client.seal(Buffer.from(`%PDF-1.7\n${VIRUS}\n%%EOF\n`));
  t.equal(infected.json<Envelope>().error.code, 'virus_scan_failed');
  t.equal(await daemon.stop(), 0);
  const fields = new Set(daemon.log.flatMap((entry) => Object.keys(entry)));
  t.strictSame(
    [...fields].filter((name) => !/^[a-z_]+$/.test(name)),
    [],
    'every field is in snake_case',
  );
});

t.test('a site without a scanner is warned at every start and in every receipt', async (t) => {
  const sandbox = await openSandbox();
  t.teardown(() => sandbox.close());
  const apiKey = await sandbox.issueKey();
  const daemon = await sandbox.start();
  t.match(
    daemon.log.find(({ level, msg }) => level === 'warn' && String(msg).startsWith('scan.clamd is not set')),
    { msg: /receipts say not_configured/ },
  );
  const client = await Client.connect(sandbox.url, apiKey);
  const job = (await client.seal(Buffer.from('%PDF-1.7\n%%EOF\n'), { mode: 'blocking' })).json<JobBody>();
  const receipt = await client.get(`/v1/jobs/${job.id}/receipt.json`);
  t.strictSame(receipt.json<{ manifest: { scan: object } }>().manifest.scan, { verdict: 'not_configured' });
});
