/** Every metric of a real daemon that does all it can do. */
import { readFileSync } from 'node:fs';
import t from 'tap';
import type { AdminQuotas } from '../../src/admin/status/quotasSection.ts';
import { askAdminAt, parseMetrics, type Sample, sampleOf } from '../support/admin.ts';
import { pdfOf } from '../support/app.ts';
import { SIGNATURES_BUILT_AT, startClamd, VIRUS } from '../support/clamd.ts';
import { Client } from '../support/client.ts';
import { freePort } from '../support/freePort.ts';
import { pageAt } from '../support/manual.ts';
import { openSandbox } from '../support/sandbox.ts';
import { openSource, serving, sha256Of } from '../support/sources.ts';
import { until } from '../support/until.ts';
import { expressionsOf, readDashboard } from './dashboard.ts';
import { startPrometheus } from './prometheus.ts';
import { promtool } from './promtool.ts';

/** What one scrape of a small daemon may have; far below what would trouble anybody. */
const SAMPLES_MAX = 2_000;

/** This daemon believes its clock as it is. */
const MAY_BE_ABSENT = ['pdfseal_clock_error_bound_seconds'];
/** It answers no 5xx, and was not started twice. */
const MAY_BE_EMPTY = /clock_error_bound|status=~"5|^changes\(process_start/;

const DOCUMENT = pdfOf('a hosted document');

t.test('metrics', async (t) => {
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

  await t.test('report what happened', async (t) => {
    const now = Date.now() / 1000;
    t.strictSame(
      [
        value('pdfseal_scanner_up'),
        value('pdfseal_scanner_documents_waiting'),
        value('pdfseal_scans_total', { answer: 'found' }),
        value('pdfseal_scans_total', { answer: 'clean' }),
        value('pdfseal_source_fetches_total', { outcome: 'failed' }),
        value('pdfseal_source_fetch_failures_total', { code: 'source_unreachable' }),
        value('pdfseal_source_jobs', { state: 'fetching' }),
        value('pdfseal_limit_refusals_total', { client: 'quickstart', limit: 'quota' }),
        value('pdfseal_limit_refusals_total', { client: 'clerk', limit: 'rate' }),
        value('pdfseal_http_errors_total', { code: 'virus_scan_failed' }),
        value('pdfseal_hash_pending_bytes'),
        value('pdfseal_copies'),
        value('pdfseal_copies_kept_seconds'),
        value('pdfseal_check_good'),
      ],
      [1, 0, 1, 4, 1, 1, 0, 1, 1, 1, 0, 4, 72 * 3600, 1],
    );
    for (const [name, atLeast, atMost] of [
      ['pdfseal_copies_bytes', 4 * DOCUMENT.length - 100, 4 * DOCUMENT.length],
      ['pdfseal_scanner_connections_max', 1, 64],
      ['pdfseal_backup_timestamp_seconds', now - 60, now],
      ['pdfseal_check_timestamp_seconds', now - 60, now],
      ['pdfseal_witness_current_timestamp_seconds', now - 60, now],
      ['pdfseal_backup_leaves', 1, value('pdfseal_log_leaves') ?? 0],
      ['pdfseal_scanner_signatures_timestamp_seconds', SIGNATURES_BUILT_AT / 1000 - 86_400, now],
      ['pdfseal_store_disk_free_bytes', 1, value('pdfseal_store_disk_bytes') ?? 0],
    ] as const) {
      const found = value(name) ?? Number.NaN;
      t.ok(found >= atLeast && found <= atMost, `${name} is ${found}`);
    }
    const { clients } = (
      await askAdminAt({ host: '127.0.0.1', port }, '/quotas', 'GET', authorization)
    ).json<AdminQuotas>();
    t.match(clients, [
      { client_id: 'clerk', rate: { limit: 2, used: 2, window_seconds: 3600 } },
      { client_id: 'quickstart', quotas: [{ name: 'letters', limit: 1, used: 1, resets_at: /Z$/ }] },
    ]);
  });

  await t.test('are named, bounded and explained', async (t) => {
    t.strictSame(promtool(['check', 'metrics'], text), { status: 0, output: '' });
    t.ok(samples.length < SAMPLES_MAX, `${samples.length} samples`);
    const families = Array.from(text.matchAll(/^# TYPE (pdfseal_\w+)/gm), ([, name]) => name ?? '');
    const { text: manual } = pageAt('docs/operate/health.md');
    const told = Array.from(manual.matchAll(/^\| .*$/gm), ([row]) => row.split('|')[1] ?? '').flatMap(
      (cell) => Array.from(cell.matchAll(/`(pdfseal_\w+)`/g), ([, name]) => name ?? ''),
    );
    t.strictSame(told.sort(), families.sort(), 'in the manual, all and no others');
  });

  await t.test('include every metric that alerts and dashboard use', async (t) => {
    const dashboard = readDashboard();
    const asked = readFileSync('config/prometheus-alerts.yml', 'utf8') + expressionsOf(dashboard).join('\n');
    const names = new Set(asked.match(/\b(?:pdfseal|process|nodejs)_[a-z_]+\b/g));
    const families = Array.from(text.matchAll(/^# TYPE (\w+)/gm), ([, name]) => name);
    const exported = new Set([...families, ...samples.map(({ name }) => name)]);
    t.strictSame(
      [...names].filter((name) => !exported.has(name) && !MAY_BE_ABSENT.includes(name)),
      [],
    );

    const prometheus = await startPrometheus(t, port, monitorKey);
    for (const expression of expressionsOf(dashboard)) {
      if (MAY_BE_EMPTY.test(expression)) await prometheus.count(expression);
      else t.ok(await prometheus.count(expression), expression);
    }
    await until('every rule was evaluated', async () => {
      return (await prometheus.rules()).every(({ health }) => health !== 'unknown');
    });
    t.strictSame(
      (await prometheus.rules()).filter(({ health }) => health !== 'ok'),
      [],
    );
  });
});
