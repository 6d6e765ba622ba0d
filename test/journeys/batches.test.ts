/** Batches of digests, with the real daemon: all that one may hold, killed half-way, and verified. */
import { readFileSync } from 'node:fs';
import t from 'tap';
import type { Receipt } from '../../src/manifest/receipt.ts';
import { parseTrust } from '../../src/manifest/trustFile.ts';
import { createVerifier } from '../../src/prove/verify/verify.ts';
import { BatchStream, Client, digestLines, digestsOf, type JobBody, sealBatch } from '../support/client.ts';
import { openSandbox } from '../support/sandbox.ts';

const LINES = 10_000;

t.test('a full batch that is killed half-way is completed by a repeat', async (t) => {
  const sandbox = await openSandbox({ regions: ['eu', 'us'], stamped: true });
  t.teardown(() => sandbox.close());
  const apiKey = await sandbox.issueKey();
  const verify = createVerifier(parseTrust(readFileSync(sandbox.trustFile, 'utf8')));
  const lines = digestLines(LINES);

  let daemon = await sandbox.start();
  const broken = new BatchStream(sandbox.url, apiKey);
  broken.send(...lines.slice(0, LINES / 2));
  await broken.until(1_000);
  await daemon.kill();
  await t.rejects(broken.ended, 'the connection is gone');
  const acknowledged = broken.answers.map(({ line, job }) => [line, job?.id] as const);
  t.ok(acknowledged.length >= 1_000 && acknowledged.length < LINES);

  daemon = await sandbox.start();
  const answers = await sealBatch(sandbox.url, apiKey, lines);
  t.equal(answers.length, LINES);
  t.strictSame(
    answers.filter(({ status }) => status !== 202),
    [],
  );
  const lost = acknowledged.filter(([line, id]) => answers[line - 1]?.job?.id !== id);
  t.strictSame(lost, [], 'what was acknowledged before is the same job');
  const ids = answers.map(({ job }) => job?.id ?? '');
  t.equal(new Set(ids).size, LINES);

  const client = await Client.connect(sandbox.url, apiKey);
  const sample = Array.from({ length: 50 }, (_, n) => n * (LINES / 50));
  for (const n of sample) {
    const path = `/v1/jobs/${ids[n]}`;
    let phase = '';
    while (phase !== 'completed') phase = (await client.get(path)).json<JobBody>().phase;
    const receipt = (await client.get(`${path}/receipt.json`)).json<Receipt>();
    const verdict = verify({ document: digestsOf(Buffer.from(`document ${n}`)), receipt });
    t.equal(verdict.outcome, 'good', JSON.stringify(verdict.checks));
    t.match(verdict.checks.find(({ name }) => name === 'manifest')?.detail, /never saw the document/);
    const other = verify({ document: digestsOf(Buffer.from('another')), receipt });
    t.equal(other.outcome, 'bad');
  }
  t.equal(await daemon.stop(), 0);
  const check = await sandbox.pdfseal(['check', '--config', sandbox.configFile]);
  t.match(check, { status: 0, stdout: /jobs: 100\d\d completed, 0 failed, [01] waiting\ngood\n$/ });
});
