/** Every metric of a real daemon that does all it can do. */
import { readFileSync } from 'node:fs';
import t from 'tap';
import { Metrics } from '../../src/admin/metrics.ts';
import type { AdminQuotas } from '../../src/health/sections/quotasSection.ts';
import stableNames from '../stableNames.json' with { type: 'json' };
import { askAdminAt, sampleOf } from '../support/admin.ts';
import { SIGNATURES_BUILT_AT } from '../support/clamd.ts';
import { pageAt } from '../support/manual.ts';
import { DOCUMENT, openBusyDaemon } from './busyDaemon.ts';
import { expressionsOf, readDashboard } from './dashboard.ts';

/** What one scrape of a small daemon may have; far below what would trouble anybody. */
const SAMPLES_MAX = 2_000;

/** This daemon believes its clock as it is. */
const MAY_BE_ABSENT = ['pdfseal_clock_error_bound_seconds'];

t.test('metrics', async (t) => {
  const { port, monitorKey, text, samples } = await openBusyDaemon(t);
  const authorization = { Authorization: `Bearer ${monitorKey}` };
  const value = (name: string, labels: Record<string, string> = {}) => sampleOf(samples, name, labels);

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
      ['pdfseal_last_checkpoint_current_timestamp_seconds', now - 60, now],
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
    t.ok(samples.length < SAMPLES_MAX, `${samples.length} samples`);
    const types = Array.from(text.matchAll(/^# TYPE (pdfseal_\w+) (\w+)$/gm), ([, name, type]) => [
      name,
      type,
    ]);
    t.strictSame(Object.fromEntries(types), stableNames.metrics, 'none renamed, removed or of another type');
    const families = new Metrics().families().map(({ name }) => name);
    t.strictSame(families.toSorted(), Object.keys(stableNames.metrics).toSorted());
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
  });
});
