/** The alert rules in config/: promtool has each of them fire, alone, and be silent where it nearly would. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import t from 'tap';
import { URGENCIES, urgencyOf } from '../../src/base/validity.ts';
import { pageAt, toLink } from '../support/manual.ts';
import { promtool } from './promtool.ts';

const RULES = resolve('config/prometheus-alerts.yml');
const rules = readFileSync(RULES, 'utf8');

const TARGET = 'job="pdfseald", environment="production", instance="127.0.0.1:8410"';
const IN_DATABASE = 'pdfseal_info{store_engine="postgresql"}';
const HOUR = 3600;
const DAY = 24 * HOUR;

/** Values of a series, minute by minute, in promtool's notation: `0x60` stays 0 for an hour, `0+1x60` grows by one a minute. */
type Values = string;
/** By metric and labels of its own: `pdfseal_partition_ready{partition="eu"}`. */
type Metrics = Record<string, Values>;

interface Case {
  fires: Metrics;
  silent: Metrics[];
  /** When to look, minutes after the start of time; default 60. */
  minutes?: number;
}

const steps =
  (...buckets: [le: string, values: Values][]) =>
  (name: string, labels = '') =>
    Object.fromEntries(buckets.map(([le, values]) => [`${name}{le="${le}"${labels}}`, values]));
/** Ten a minute, all of which take longer than `le` or all of which do not. */
const slow = steps(['1', '0x60'], ['30', '0+10x60'], ['+Inf', '0+10x60']);
const quick = steps(['1', '0+10x60'], ['30', '0+10x60'], ['+Inf', '0+10x60']);

const quorumOf = (needed: number, signers: Values, ...ready: Values[]): Metrics => ({
  pdfseal_quorum: `${needed}x60`,
  pdfseal_quorum_signers: signers,
  ...Object.fromEntries(ready.map((values, n) => [`pdfseal_partition_ready{partition="p${n}"}`, values])),
});
const certificate = (days: number, authority = 'built-in eu/a'): Metrics => {
  const labels = `{authority="${authority}", role="root", subject="CN=a"}`;
  const validity = { notBefore: (days - 365) * DAY * 1000, notAfter: days * DAY * 1000 };
  const urgency = URGENCIES.indexOf(urgencyOf(validity, 0));
  return {
    [`pdfseal_certificate_not_after_timestamp_seconds${labels}`]: `${days * DAY}x120`,
    [`pdfseal_certificate_urgency${labels}`]: `${urgency}x120`,
  };
};
/** A time so many seconds before the start of time, which is when promtool's tests begin. */
const ago = (name: string, seconds: number): Metrics => ({ [name]: `-${seconds}x120` });
/** So many days after the start of time. */
const timestampsEnd = (days: number): Metrics => ({
  pdfseal_timestamps_end_timestamp_seconds: `${days * DAY}x120`,
});
const jobs = (age: number, fetched = 0): Metrics => ({
  'pdfseal_jobs_oldest_age_seconds{phase="queued"}': '0x60',
  'pdfseal_jobs_oldest_age_seconds{phase="sealing"}': `${age}x60`,
  'pdfseal_source_jobs{state="fetching"}': '0x60',
  'pdfseal_source_jobs{state="paused"}': `${fetched}x60`,
});
const requests = (good: number, failed: number): Metrics => ({
  'pdfseal_http_request_duration_seconds_count{method="POST", route="/v1/jobs/seal", status="202"}': `0+${good}x60`,
  'pdfseal_http_request_duration_seconds_count{method="POST", route="/v1/jobs/seal", status="503"}': `0+${failed}x60`,
});
const fetches = (received: number, retried: number): Metrics => ({
  'pdfseal_source_fetches_total{outcome="received"}': `0+${received}x60`,
  'pdfseal_source_fetches_total{outcome="retried"}': `0+${retried}x60`,
});
const disk = (freeMiB: number, change = 0): Metrics => ({
  pdfseal_store_disk_free_bytes: `${freeMiB * 2 ** 20}${change < 0 ? change : `+${change}`}x600`,
  pdfseal_store_disk_free_min_bytes: `${64 * 2 ** 20}x600`,
});
/** Silent until ten minutes before the end. */
const LATELY = '0x52 1x8';

const CASES: Record<string, Case> = {
  PdfsealdDown: { fires: { up: '0x60' }, silent: [{ up: '1x60' }, { up: '1x59 0' }] },
  PdfsealdNotReady: {
    fires: { pdfseal_ready: '0x60' },
    silent: [{ pdfseal_ready: '1x58 0 0' }, { pdfseal_ready: '0x10 1x50' }],
  },
  PdfsealdRestarts: {
    fires: { process_start_time_seconds: '0x30 1x10 2x10 3x10' },
    silent: [{ process_start_time_seconds: '0x40 1x10 2x10' }],
  },
  PdfsealdBelowQuorum: {
    fires: quorumOf(2, '2x50 1x10', '1x60', '1x50 0x10'),
    silent: [quorumOf(2, '2x60'), quorumOf(2, '3x59 1')],
  },
  PdfsealdPartitionDown: {
    fires: quorumOf(1, '1x60', '1x60', '0x60'),
    silent: [quorumOf(1, '2x60', '1x60', '1x60')],
  },
  PdfsealdPartitionRestarts: {
    fires: { 'pdfseal_partition_restarts_total{partition="eu"}': '0x50 1+1x9' },
    silent: [{ 'pdfseal_partition_restarts_total{partition="eu"}': '0x50 1 2 2x8' }],
  },
  PdfsealdSignerRefuses: {
    fires: { 'pdfseal_partition_refusals_total{partition="eu"}': '0x30 1x30' },
    silent: [{ 'pdfseal_partition_refusals_total{partition="eu"}': '1x60' }],
  },
  PdfsealdSigningSlow: {
    fires: slow('pdfseal_partition_sign_duration_seconds_bucket', ', partition="eu"'),
    silent: [quick('pdfseal_partition_sign_duration_seconds_bucket', ', partition="eu"')],
  },
  PdfsealdClockUntrusted: {
    fires: { pdfseal_clock_trusted: '0x60' },
    silent: [{ pdfseal_clock_trusted: '1x60' }],
  },
  PdfsealdAuthorityDown: {
    fires: { 'pdfseal_authority_up{authority="built-in"}': '0x60' },
    silent: [
      { 'pdfseal_authority_up{authority="built-in"}': '1x60' },
      { 'pdfseal_authority_up{authority="built-in"}': '1x57 0x3' },
    ],
  },
  PdfsealdCertificateEndsIn60Days: { fires: certificate(59), silent: [certificate(61)], minutes: 90 },
  PdfsealdCertificateEndsIn30Days: { fires: certificate(29), silent: [certificate(61)], minutes: 90 },
  PdfsealdTlsCertificateEnds: {
    fires: certificate(59, 'http.tls'),
    silent: [certificate(61, 'http.tls'), certificate(61)],
    minutes: 90,
  },
  PdfsealdCertificateEndsIn7Days: {
    fires: {
      ...certificate(6),
      'pdfseal_certificate_not_after_timestamp_seconds{authority="x"}': '0x120',
      'pdfseal_certificate_urgency{authority="x"}': '3x120',
    },
    silent: [certificate(365)],
  },
  PdfsealdJobsWait: { fires: jobs(400), silent: [jobs(200)] },
  PdfsealdJobsStuck: { fires: jobs(2000), silent: [jobs(250), jobs(250, 1)] },
  PdfsealdQueueFills: {
    fires: {
      'pdfseal_jobs{phase="queued"}': '50x60',
      'pdfseal_jobs{phase="sealing"}': '40x60',
      pdfseal_jobs_max: '100x60',
    },
    silent: [
      {
        'pdfseal_jobs{phase="queued"}': '50x60',
        'pdfseal_jobs{phase="sealing"}': '20x60',
        pdfseal_jobs_max: '100x60',
      },
    ],
  },
  PdfsealdForkAlarm: {
    fires: { pdfseal_fork_alarm: '1x60' },
    silent: [{ pdfseal_fork_alarm: '0x60' }, { 'pdfseal_cosigner_up{witness="a"}': '1x60' }],
  },
  PdfsealdWitnessFails: {
    fires: { 'pdfseal_cosigner_up{witness="a"}': '0x60', 'pdfseal_cosigner_up{witness="b"}': '1x60' },
    silent: [{ 'pdfseal_cosigner_up{witness="a"}': '0x50 1x20' }],
  },
  PdfsealdNotWitnessed: {
    fires: ago('pdfseal_witnessed_timestamp_seconds', 3 * HOUR),
    silent: [
      ago('pdfseal_witnessed_timestamp_seconds', HOUR),
      { ...ago('pdfseal_witnessed_timestamp_seconds', 30 * DAY), pdfseal_witnessing_by_hand: '1x60' },
    ],
  },
  PdfsealdJobsFail: {
    fires: { 'pdfseal_jobs_failed_total{code="kms_partition_unavailable"}': LATELY },
    silent: [
      { 'pdfseal_jobs_failed_total{code="kms_partition_unavailable"}': '5x60' },
      { 'pdfseal_jobs_failed_total{code="source_unreachable"}': LATELY },
    ],
  },
  PdfsealdSealingSlow: {
    fires: slow('pdfseal_seal_duration_seconds_bucket'),
    silent: [quick('pdfseal_seal_duration_seconds_bucket')],
  },
  PdfsealdErrors: { fires: requests(90, 10), silent: [requests(96, 4), requests(0, 0)] },
  PdfsealdInternalErrors: {
    fires: { 'pdfseal_http_errors_total{code="internal_error"}': LATELY },
    silent: [{ 'pdfseal_http_errors_total{code="not_a_pdf"}': LATELY }],
  },
  PdfsealdClientRefused: {
    fires: { 'pdfseal_limit_refusals_total{client="erp", limit="rate"}': LATELY },
    silent: [{ 'pdfseal_limit_refusals_total{client="erp", limit="rate"}': '7x60' }],
  },
  PdfsealdScannerDown: {
    fires: { pdfseal_scanner_up: '0x60' },
    silent: [{ pdfseal_scanner_up: '1x60' }],
  },
  PdfsealdScannerBusy: {
    fires: { pdfseal_scanner_documents_waiting: '2x60' },
    silent: [{ pdfseal_scanner_documents_waiting: '0x55 9 9 0 9 9 9' }],
  },
  PdfsealdScannerSignaturesOld: {
    fires: ago('pdfseal_scanner_signatures_timestamp_seconds', 4 * DAY),
    silent: [ago('pdfseal_scanner_signatures_timestamp_seconds', DAY)],
    minutes: 90,
  },
  PdfsealdVirusFound: {
    fires: { 'pdfseal_scans_total{answer="found"}': LATELY },
    silent: [{ 'pdfseal_scans_total{answer="clean"}': '0+9x60' }],
  },
  PdfsealdSourcesFail: { fires: fetches(1, 2), silent: [fetches(2, 1), fetches(0, 0)] },
  PdfsealdHashWorkersFail: {
    fires: { pdfseal_hash_troubles_total: LATELY },
    silent: [{ pdfseal_hash_troubles_total: '1x60' }],
  },
  PdfsealdCopiesOverdue: {
    fires: { pdfseal_copies_oldest_age_seconds: '100000x60', pdfseal_copies_kept_seconds: '86400x60' },
    silent: [{ pdfseal_copies_oldest_age_seconds: '86500x60', pdfseal_copies_kept_seconds: '86400x60' }],
  },
  PdfsealdWebhookEndpointFails: {
    fires: { 'pdfseal_webhook_endpoints{state="failing"}': '1x60' },
    silent: [
      { 'pdfseal_webhook_endpoints{state="disabled"}': '1x60' },
      { 'pdfseal_webhook_endpoints{state="failing"}': '0x50 1x10' },
    ],
  },
  PdfsealdWebhooksOverdue: {
    fires: { pdfseal_webhooks_oldest_due_age_seconds: '1000x60' },
    silent: [{ pdfseal_webhooks_oldest_due_age_seconds: '800x60' }],
  },
  PdfsealdWebhooksGivenUp: {
    fires: { pdfseal_webhooks_dead_letters: LATELY, pdfseal_webhooks_dropped_total: '0x60' },
    silent: [{ pdfseal_webhooks_dead_letters: '3x60', pdfseal_webhooks_dropped_total: '3x60' }],
  },
  PdfsealdDiskFull: {
    fires: { pdfseal_store_full: '1x60' },
    silent: [{ pdfseal_store_full: '0x60' }],
    minutes: 20,
  },
  PdfsealdDiskFills: {
    fires: disk(200),
    silent: [disk(300), disk(1_000_000, -1_000_000)],
  },
  PdfsealdStoreHeld: {
    fires: { pdfseal_store_oldest_reader_age_seconds: `${5 * HOUR}x60` },
    silent: [{ pdfseal_store_oldest_reader_age_seconds: `${3 * HOUR}x60` }],
  },
  PdfsealdWitnessBehind: {
    fires: ago('pdfseal_witness_current_timestamp_seconds', 1),
    silent: [{ pdfseal_witness_current_timestamp_seconds: '0+60x60' }],
  },
  PdfsealdBackupOld: {
    fires: ago('pdfseal_backup_timestamp_seconds', 36 * HOUR),
    silent: [
      ago('pdfseal_backup_timestamp_seconds', 30 * HOUR),
      // Made before the log was moved into a database.
      { ...ago('pdfseal_backup_timestamp_seconds', 36 * HOUR), [IN_DATABASE]: '1x120' },
    ],
  },
  PdfsealdCheckFailed: {
    fires: { pdfseal_check_good: '0x60' },
    silent: [{ pdfseal_check_good: '1x60' }],
  },
  PdfsealdCheckOld: {
    fires: ago('pdfseal_check_timestamp_seconds', 3 * DAY),
    silent: [ago('pdfseal_check_timestamp_seconds', 2 * DAY)],
  },
  PdfsealdRenewalOld: {
    fires: ago('pdfseal_renewal_timestamp_seconds', 3 * DAY),
    silent: [ago('pdfseal_renewal_timestamp_seconds', 2 * DAY)],
  },
  PdfsealdRenewalFailed: {
    fires: { pdfseal_renewal_good: '0x120' },
    silent: [{ pdfseal_renewal_good: '1x120' }, { pdfseal_renewal_good: '0x50 1x70' }],
    minutes: 90,
  },
  PdfsealdTimestampsEndIn365Days: { fires: timestampsEnd(364), silent: [timestampsEnd(366)], minutes: 90 },
  PdfsealdTimestampsEndIn90Days: { fires: timestampsEnd(89), silent: [timestampsEnd(366)], minutes: 90 },
  PdfsealdTimestampsEndIn30Days: { fires: timestampsEnd(29), silent: [timestampsEnd(366)], minutes: 90 },
  PdfsealdEventLoopSlow: {
    fires: { nodejs_eventloop_lag_p99_seconds: '0.7x60' },
    silent: [{ nodejs_eventloop_lag_p99_seconds: '0.1x60' }],
  },
  PdfsealdFilesRunOut: {
    fires: { process_open_fds: '900x60', process_max_fds: '1024x60' },
    silent: [{ process_open_fds: '700x60', process_max_fds: '1024x60' }],
  },
};

/** Those that a case of another brings along. */
const ALONG: Record<string, string[]> = {
  PdfsealdBelowQuorum: ['PdfsealdPartitionDown'],
  PdfsealdJobsStuck: ['PdfsealdJobsWait'],
};

const names = Array.from(rules.matchAll(/^ +- alert: (\w+)$/gm), ([, name]) => name ?? '');
/** What the file says of each. */
const blocks = rules.split(/^ +- alert: /m).slice(1);

/** What the manual writes in place of the expression of an alert. */
function rulesWith(dir: string, alert: string, expr: string): string {
  const file = join(dir, 'rules.yml');
  writeFileSync(
    file,
    rules.replace(new RegExp(`(alert: ${alert}\n +expr: ).*`), (_, before) => before + expr),
  );
  return file;
}

/** One test of promtool: which alerts fire at the end, given these metrics of one daemon and no others. */
function unitTest(metrics: Metrics, minutes: number, expected: string[]) {
  const input_series = Object.entries(metrics).map(([metric, values]) => {
    const [name, labels = ''] = metric.replace(/\}$/, '').split('{');
    return { series: `${name}{${[TARGET, labels].filter((one) => one !== '').join(', ')}}`, values };
  });
  const exp_samples = expected.map((name) => ({ labels: `{alertname="${name}"}`, value: 1 }));
  const expr = 'group by (alertname) (ALERTS{alertstate="firing"})';
  return {
    interval: '1m',
    input_series,
    promql_expr_test: [{ expr, eval_time: `${minutes}m`, exp_samples }],
  };
}

function runTests(
  dir: string,
  tests: object[],
  evaluation_interval = '1m',
  rulesFile = RULES,
): { status: number | null; output: string } {
  const file = join(dir, 'tests.json');
  writeFileSync(file, JSON.stringify({ rule_files: [rulesFile], evaluation_interval, tests }));
  return promtool(['test', 'rules', file]);
}

t.test('promtool accepts the alerts and the example that scrapes for them', async (t) => {
  for (const args of [
    ['check', 'rules', RULES],
    ['check', 'config', '--syntax-only', 'config/prometheus-scrape.yml'],
  ]) {
    const { status, output } = promtool(args);
    t.equal(status, 0, output);
  }
});

t.test('each alert fires alone for its fault, and is silent otherwise', async (t) => {
  t.strictSame(
    [...Object.keys(CASES), 'PdfsealdBackupMissing'].sort(),
    names.sort(),
    'every alert has a case',
  );
  const tests = Object.entries(CASES).flatMap(([name, { fires, silent, minutes = 60 }]) => [
    unitTest(fires, minutes, [name, ...(ALONG[name] ?? [])].sort()),
    ...silent.map((metrics) => unitTest(metrics, minutes, [])),
  ]);
  const bytesPerMinute = -4e9 / 1440;
  tests.push(
    // A job that waits for its document is no alarm of the HSM.
    unitTest(jobs(5000, 3), 60, ['PdfsealdJobsWait']),
    // A disk that will be full within three days is, one that lasts a month is not.
    unitTest(disk(10_000, bytesPerMinute), 120, ['PdfsealdDiskFills']),
    unitTest(disk(10_000, bytesPerMinute / 10), 120, []),
  );
  const { status, output } = runTests(t.testdir(), tests);
  t.equal(status, 0, output);
  const wrong = unitTest({ up: '0x60' }, 60, []);
  t.equal(runTests(t.testdir(), [wrong]).status, 1, 'a case that is not met is seen');
});

t.test('a site without a backup has two days to make one', async (t) => {
  const ready = { pdfseal_ready: '1x3000' };
  const tests = [
    unitTest(ready, 2910, ['PdfsealdBackupMissing']),
    unitTest({ ...ready, 'pdfseal_info{store_engine="lmdb"}': '1x3000' }, 2910, ['PdfsealdBackupMissing']),
    unitTest({ ...ready, [IN_DATABASE]: '1x3000' }, 2910, []),
    unitTest(ready, 2850, []),
    unitTest({ ...ready, pdfseal_backup_timestamp_seconds: '172800x3000' }, 2910, []),
  ];
  const { status, output } = runTests(t.testdir(), tests, '30m');
  t.equal(status, 0, output);
});

t.test('of two machines with one log, only one must be up', (t) => {
  const page = readFileSync(resolve('docs/operate/postgresql.md'), 'utf8');
  const [, expr = ''] = /^ *expr: (up\{.*)$/m.exec(page) ?? [];
  const dir = t.testdir();
  const second = `up{${TARGET.replace('127.0.0.1', '127.0.0.2')}}`;
  const pair = (values: Values, expected: string[]) => {
    const test = unitTest({ up: '0x60' }, 60, expected);
    return { ...test, input_series: [...test.input_series, { series: second, values }] };
  };
  const tests = [pair('1x60', []), pair('0x60', ['PdfsealdDown'])];
  const { status, output } = runTests(dir, tests, '1m', rulesWith(dir, 'PdfsealdDown', expr));
  t.equal(status, 0, output);
  t.equal(runTests(dir, tests).status, 1, 'as it is installed, the rule asks that each is up');
  t.end();
});

t.test('an alert says what is wrong, and where', async (t) => {
  const { input_series } = unitTest(
    { 'pdfseal_partition_ready{partition="eu/production-2026"}': '0x60' },
    60,
    [],
  );
  const exp_alerts = [
    {
      exp_labels: { severity: 'warning', partition: 'eu/production-2026', ...labelsOf(TARGET) },
      exp_annotations: {
        summary: 'HSM partition eu/production-2026 of pdfseald production does not sign',
        description: /alert: PdfsealdPartitionDown[\s\S]*?description: "(.*)"/.exec(rules)?.[1],
        runbook: 'file:///usr/share/doc/pdfseald/html/operate/alarms.html#a-partition-is-down',
      },
    },
  ];
  const alert_rule_test = [{ alertname: 'PdfsealdPartitionDown', eval_time: '1h', exp_alerts }];
  const { status, output } = runTests(t.testdir(), [{ interval: '1m', input_series, alert_rule_test }]);
  t.equal(status, 0, output);
});

function labelsOf(text: string): Record<string, string> {
  return Object.fromEntries(
    Array.from(text.matchAll(/(\w+)="([^"]*)"/g), ([, name, value]) => [name, value]),
  );
}

t.test('each alert has a severity, a remedy and a link to the manual', async (t) => {
  const { path, text, headings } = pageAt('docs/operate/alarms.md');
  const sections = text.split(/^### /m).slice(1);
  t.equal(sections.length, blocks.length, 'the manual has a section for each, and no other');
  for (const block of blocks) {
    const [name = ''] = block.split('\n');
    const [, severity = ''] = /severity: (critical|warning|info) /.exec(block) ?? [];
    for (const annotation of ['summary', 'description', 'runbook']) t.match(block, `${annotation}: `, name);
    const section = sections.find((one) => one.includes(`\n\n\`${name}\`: `)) ?? '';
    const ends = ['It means', 'Look at', 'Do'].map((part) => `- \\*\\*${part}\\*\\*: [^]+`).join('');
    t.match(section, new RegExp(`^[^\n]+\n\n.*\n\n${ends}$`), `${name} is explained`);
    const heading = headings.find(({ text }) => section.startsWith(`${text}\n`));
    const runbook = toLink(/runbook: "file:\/\/(.*)"/.exec(block)?.[1] ?? '');
    t.strictSame(runbook, { path, anchor: heading?.anchor }, `${name} links to it`);
    const above = headings.slice(0, heading && headings.indexOf(heading));
    t.equal(above.findLast(({ level }) => level === 2)?.text.toLowerCase(), severity, name);
  }
});
