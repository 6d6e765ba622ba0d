/** The alert rules in config/: promtool has each of them fire, alone, and be silent where it nearly would. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import t from 'tap';
import { FINDINGS } from '../../src/health/healthFindings.ts';
import { pageAt, toLink } from '../support/manual.ts';
import { promtool } from './promtool.ts';

const RULES = resolve('config/prometheus-alerts.yml');
const rules = readFileSync(RULES, 'utf8');

const TARGET = 'job="pdfseald", environment="production", instance="127.0.0.1:8410"';
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

/** So many days after the start of time. */
const timestampsEnd = (days: number): Metrics => ({
  pdfseal_timestamps_end_timestamp_seconds: `${days * DAY}x120`,
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
  PdfsealdPartitionRestarts: {
    fires: { 'pdfseal_partition_restarts_total{partition="eu"}': '0x50 1+1x9' },
    silent: [{ 'pdfseal_partition_restarts_total{partition="eu"}': '0x50 1 2 2x8' }],
  },
  PdfsealdSigningSlow: {
    fires: slow('pdfseal_partition_sign_duration_seconds_bucket', ', partition="eu"'),
    silent: [quick('pdfseal_partition_sign_duration_seconds_bucket', ', partition="eu"')],
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
  PdfsealdScannerBusy: {
    fires: { pdfseal_scanner_documents_waiting: '2x60' },
    silent: [{ pdfseal_scanner_documents_waiting: '0x55 9 9 0 9 9 9' }],
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
  PdfsealdWebhooksGivenUp: {
    fires: { pdfseal_webhooks_dead_letters: LATELY, pdfseal_webhooks_dropped_total: '0x60' },
    silent: [{ pdfseal_webhooks_dead_letters: '3x60', pdfseal_webhooks_dropped_total: '3x60' }],
  },
  PdfsealdDiskFills: {
    fires: { ...disk(200), 'pdfseal_finding{finding="disk_low", subject="disk"}': '1x600' },
    silent: [
      { ...disk(300), 'pdfseal_finding{finding="disk_low", subject=""}': '0x600' },
      disk(1_000_000, -1_000_000),
    ],
  },
  PdfsealdTimestampsEndIn365Days: {
    fires: timestampsEnd(364),
    silent: [timestampsEnd(366), timestampsEnd(89)],
    minutes: 90,
  },
  PdfsealdEventLoopSlow: {
    fires: { nodejs_eventloop_lag_p99_seconds: '0.7x60' },
    silent: [{ nodejs_eventloop_lag_p99_seconds: '0.1x60' }],
  },
  PdfsealdFilesRunOut: {
    fires: { process_open_fds: '900x60', process_max_fds: '1024x60' },
    silent: [{ process_open_fds: '700x60', process_max_fds: '1024x60' }],
  },
};

const names = Array.from(rules.matchAll(/^ +- alert: (\w+)$/gm), ([, name]) => name ?? '');
/** What the file says of each. */
const blocks = rules.split(/^ +- alert: /m).slice(1);

function ruleOf(name: string): string {
  return blocks.find((block) => block.startsWith(`${name}\n`)) ?? '';
}

/** The findings that raise an alert. */
function findingsBehind(name: string): string[] {
  const [, ids] = /pdfseal_finding\{finding=~?"([^"]+)"/.exec(ruleOf(name)) ?? [];
  if (ids === undefined) return [];
  return FINDINGS.map(({ id }) => id).filter((id) => new RegExp(`^(?:${ids})$`).test(id));
}

function alertsOf(id: string): string[] {
  return names.filter((name) => findingsBehind(name).includes(id));
}

/** For how long it must hold. */
function minutesOf(name: string): number {
  const [, count = '0', unit = 'm'] = /^ +for: (\d+)([smhd])$/m.exec(ruleOf(name)) ?? [];
  const seconds = { s: 1, m: 60, h: 3600, d: 86_400 }[unit as 's' | 'm' | 'h' | 'd'];
  return Math.ceil((Number(count) * seconds) / 60);
}

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
  const ofFindings = names.filter((name) => findingsBehind(name).length > 0);
  const cased = [...Object.keys(CASES), ...ofFindings.filter((name) => !(name in CASES))];
  t.strictSame(cased.sort(), names.toSorted(), 'every alert has a case');
  const tests = Object.entries(CASES).flatMap(([name, { fires, silent, minutes = 60 }]) => [
    unitTest(fires, minutes, [name]),
    ...silent.map((metrics) => unitTest(metrics, minutes, [])),
  ]);
  const bytesPerMinute = -4e9 / 1440;
  tests.push(
    // A disk that will be full within three days is, one that lasts a month is not.
    unitTest(disk(10_000, bytesPerMinute), 120, ['PdfsealdDiskFills']),
    unitTest(disk(10_000, bytesPerMinute / 10), 120, []),
  );
  const { status, output } = runTests(t.testdir(), tests);
  t.equal(status, 0, output);
  const wrong = unitTest({ up: '0x60' }, 60, []);
  t.equal(runTests(t.testdir(), [wrong]).status, 1, 'a case that is not met is seen');
});

t.test('what pdfseald finds wrong raises the alert of that finding alone, after its time', async (t) => {
  const tests = FINDINGS.filter(({ part, id }) => part === undefined || alertsOf(id).length > 0).flatMap(
    ({ id, severity }) => {
      const [alert = ''] = alertsOf(id);
      t.strictSame(alertsOf(id), [alert], `${id} has one alert`);
      t.match(ruleOf(alert), `severity: ${severity} `, `${alert} is as severe as ${id}`);
      // Prometheus looks every half hour here.
      const minutes = 30 * Math.ceil(minutesOf(alert) / 30);
      const found = (value: string) => ({
        [`pdfseal_finding{finding="${id}", severity="${severity}", subject="x"}`]: value,
      });
      return [
        unitTest(found('1x5000'), minutes + 30, [alert]),
        ...(minutes > 30 ? [unitTest(found('1x5000'), minutes - 30, [])] : []),
      ];
    },
  );
  const none = FINDINGS.map(({ id }) => [`pdfseal_finding{finding="${id}", subject=""}`, '0x5000']);
  tests.push(unitTest(Object.fromEntries(none), 2910, []));
  const { status, output } = runTests(t.testdir(), tests, '30m');
  t.equal(status, 0, output);
  // PdfsealdNotReady watches the parts.
  for (const { id, severity, part } of FINDINGS) if (part !== undefined) t.equal(severity, 'critical', id);
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
    { 'pdfseal_finding{finding="partition_down", subject="partition eu/production-2026"}': '1x60' },
    60,
    [],
  );
  const exp_alerts = [
    {
      exp_labels: {
        severity: 'warning',
        finding: 'partition_down',
        subject: 'partition eu/production-2026',
        ...labelsOf(TARGET),
      },
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
    const [, description = ''] = /description: "(.*)"/.exec(block) ?? [];
    const words = description.replaceAll('{{ $labels.environment }}', 'production').split('{{')[0] ?? '';
    const section =
      sections.find((one) => one.includes(`\n\n\`${name}\`, `) || one.includes(`\n\n\`${name}\`: `)) ?? '';
    t.ok(
      words.length > 20 && section.includes(`.\n\n${words}`),
      `${name} is explained as it is in the rules`,
    );
    const heading = headings.find(({ text }) => section.startsWith(`${text}\n`));
    const runbook = toLink(/runbook: "file:\/\/(.*)"/.exec(block)?.[1] ?? '');
    t.strictSame(runbook, { path, anchor: heading?.anchor }, `${name} links to it`);
    const above = headings.slice(0, heading && headings.indexOf(heading));
    t.equal(above.findLast(({ level }) => level === 2)?.text.toLowerCase(), severity, name);
  }
});
