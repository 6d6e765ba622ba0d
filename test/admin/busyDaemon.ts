/** A daemon that has done all it can do, for what its metrics say of that. */
import type { Test } from 'tap';
import { askAdminAt, parseMetrics, type Sample, sampleOf } from '../support/admin.ts';
import { pdfOf } from '../support/app.ts';
import { startClamd, VIRUS } from '../support/clamd.ts';
import { Client } from '../support/client.ts';
import { freePort } from '../support/freePort.ts';
import { openSandbox } from '../support/sandbox.ts';
import { openSource, serving, sha256Of } from '../support/sources.ts';
import { until } from '../support/until.ts';

/** What its jobs seal: a document that it fetches, or one as long. */
export const DOCUMENT = pdfOf('a hosted document');

export interface BusyDaemon {
  /** Where its administration listens. */
  port: number;
  /** With the scope admin:read. */
  monitorKey: string;
  /** Its metrics, once all is done and noted. */
  text: string;
  samples: Sample[];
}

/** It ends with the test. */
export async function openBusyDaemon(t: Test): Promise<BusyDaemon> {
  const clamd = await startClamd(t);
  const source = await openSource(t, (req, res) =>
    req.url === '/a.pdf' ? serving(DOCUMENT)(req, res) : res.writeHead(405).end(),
  );
  const port = await freePort();
  const sandbox = await openSandbox({
    stamped: true,
    head: 'compliance_mode = true',
    tables: {
      admin: `listen = "127.0.0.1:${port}"`,
      log: 'last_checkpoint_interval = "100ms"',
      scan: `clamd = "unix:${clamd.socket}"`,
      sources: 'allow = ["127.0.0.0/8"]',
      limits: 'document_bytes_max = "32MiB"',
    },
    tail: '[quotas.letters]\njobs = 1\nwindow = "1d"\n[clients.clerk.rate]\nrequests = 2\nwindow = "1h"',
  });
  t.teardown(() => sandbox.close());
  const apiKey = await sandbox.issueKey();
  const clerkKey = await sandbox.issueKey('clerk');
  const monitorKey = await sandbox.issueKey('prometheus', 'acme', '--scopes', 'admin:read');
  const authorization = { Authorization: `Bearer ${monitorKey}` };
  await sandbox.start();
  const client = await Client.connect(sandbox.url, apiKey);
  const create = (url: string) =>
    client.request('POST', '/v1/jobs/seal', {
      headers: { 'Content-Type': 'application/json', 'Idempotency-Key': `fetched-${url}` },
      body: JSON.stringify({ source_url: url, checksum_sha256: sha256Of(DOCUMENT), visibility: 'private' }),
    });
  let text = '';
  let samples: Sample[] = [];
  const scrape = async () => {
    ({ text } = await askAdminAt({ host: '127.0.0.1', port }, '/metrics', 'GET', authorization));
    samples = parseMetrics(text);
  };
  const value = (name: string, labels: Record<string, string> = {}) => sampleOf(samples, name, labels);

  t.equal((await client.seal(pdfOf('one'), { mode: 'blocking', purpose: 'letters' })).status, 202);
  t.equal((await client.seal(pdfOf('two'), { purpose: 'letters' })).status, 429, 'past the quota');
  t.equal((await client.seal(Buffer.from(`%PDF-1.7\n${VIRUS}\n%%EOF\n`))).status, 400);
  const clerk = client.as(clerkKey);
  for (const status of [202, 202, 429]) t.equal((await clerk.seal(pdfOf('three'))).status, status);
  const fetched = await create(`${source.origin}/a.pdf`);
  t.equal(fetched.status, 202, fetched.text);
  t.equal((await create(`${source.origin}/b.pdf`)).status, 202);
  for (const command of [['backup', '--output', `${sandbox.dir}/copy`], ['check']]) {
    const { status, stderr } = await sandbox.pdfseal([...command, '--config', sandbox.configFile]);
    t.equal(status, 0, stderr);
  }
  await until('all is done and noted', async () => {
    await scrape();
    return (
      value('pdfseal_jobs_failed_total') === 1 &&
      value('pdfseal_log_leaves') === value('pdfseal_witness_leaves') &&
      value('pdfseal_source_fetches_total', { outcome: 'received' }) === 1
    );
  });
  return { port, monitorKey, text, samples };
}
