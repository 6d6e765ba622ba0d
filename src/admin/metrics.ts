import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { BoundedSet } from '../base/bounded.ts';
import type { StatusMetric } from '../health/sections/section.ts';
import { type AdminStatus, STATUS_METRICS } from '../health/statusSchema.ts';
import type { AnsweredRequest } from '../http/observe.ts';
import { type Failure, isOfClient, type Job } from '../job/job.ts';
import type { FetchAttempt } from '../seal/fetching.ts';
import type { SealedJobs, SealerObserver } from '../seal/observer.ts';
import type { CanaryRun } from '../watch/canary.ts';

/** Seconds; from a flush of a good disk to the time-out of a bad token. */
const STEP_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
/** A job waits for at most `sealing.give_up_after`, a day by default. */
const SEAL_BUCKETS = [...STEP_BUCKETS, 30, 60, 600, 3600, 86_400];
/** From a read of the log to a large document over a slow line. */
const REQUEST_BUCKETS = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];
/** clamd needs 20 ms per megabyte; `scan.timeout` is a minute by default. */
const SCAN_BUCKETS = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
/** A document of a gigabyte can take minutes. */
const FETCH_BUCKETS = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800];
/** Up to `sealing.batch_jobs_max`, 4,096 by default. */
const BATCH_BUCKETS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 16_384];

/** Maximum number of clients with their own label value; the administrator decides how many clients there are. */
const CLIENTS_MAX = 100;
const OTHER_CLIENTS = '(others)';
/** The methods with a label value. A stranger can send any other method, so the others share one value. */
const METHODS = ['GET', 'HEAD', 'POST', 'PATCH', 'DELETE'];

/**
 * Metrics of prom-client that are left out: promtool refuses gauges with the suffix of a counter, and the others are NaN if two scrapes
 * are close together.
 */
const UNWANTED = [
  ...['handles', 'requests', 'resources'].map((what) => `nodejs_active_${what}_total`),
  ...['min', 'mean', 'stddev'].map((what) => `nodejs_eventloop_lag_${what}_seconds`),
];

export const METRICS_TYPE = Registry.PROMETHEUS_CONTENT_TYPE;

/** The metrics that show the current status. */
class StatusGauges {
  readonly #metrics: {
    metric: Gauge | Counter;
    isPlain: boolean;
    samples: StatusMetric<AdminStatus>['samples'];
  }[];

  constructor(registry: Registry) {
    this.#metrics = STATUS_METRICS.map(({ name, help, labelNames = [], samples }) => {
      const options = { name, help, labelNames, registers: [registry] };
      const metric = name.endsWith('_total') ? new Counter(options) : new Gauge(options);
      return { metric, isPlain: labelNames.length === 0, samples };
    });
  }

  /** Removes metrics that are no longer in the status. */
  set(status: AdminStatus): void {
    for (const { metric, isPlain, samples } of this.#metrics) {
      metric.reset();
      // A reset gives a metric without labels the value 0, but its value may be absent.
      if (isPlain) metric.remove();
      for (const { labels = {}, value } of samples(status)) metric.inc(labels, value);
    }
  }
}

/** The description of a metric, without its values. */
interface Family {
  name: string;
  help: string;
  labelNames: string[];
}

/** Receives each event, and not only sums. */
interface SealingListener {
  /** A job of a client was sealed, so long after its acceptance (milliseconds). */
  sealed(durationMs: number): void;
  /** A request to the API or a job failed. */
  failed(code: string): void;
}

/**
 * The daemon's metrics (Prometheus text format). Events are counted when they happen; the status is read at each scrape. No label
 * contains a value of a caller's choice, and each label has a bounded number of values.
 */
export class Metrics implements SealerObserver {
  readonly #registry = new Registry();
  readonly #gauges = new StatusGauges(this.#registry);
  readonly #accepted = this.#counter('pdfseal_jobs_accepted_total', 'Accepted jobs of clients', []);
  readonly #sealed = this.#counter('pdfseal_jobs_sealed_total', 'Sealed jobs of clients', []);
  readonly #failed = this.#counter('pdfseal_jobs_failed_total', 'Failed jobs of clients', ['code']);
  readonly #canaries = this.#counter('pdfseal_canaries_total', 'Canaries, by outcome', ['outcome']);
  readonly #sealTime = this.#histogram(
    'pdfseal_seal_duration_seconds',
    'Time from the acceptance of a client’s job to its receipt',
    [],
    SEAL_BUCKETS,
  );
  readonly #stepTime = this.#histogram(
    'pdfseal_step_duration_seconds',
    'Time of each step of a job: accept (unless it is written with its receipt), wait (each job), sign, stamp, commit (each batch; with the wait for the batch before), canary (end to end)',
    ['step'],
    STEP_BUCKETS,
  );
  readonly #batchJobs = this.#histogram(
    'pdfseal_batch_jobs',
    'Jobs that share one checkpoint, including canaries and audit records',
    [],
    BATCH_BUCKETS,
  );
  readonly #signTime = this.#histogram(
    'pdfseal_partition_sign_duration_seconds',
    'Time a token takes for one signature',
    ['partition'],
    STEP_BUCKETS,
  );
  readonly #requestTime = this.#histogram(
    'pdfseal_http_request_duration_seconds',
    'Time of requests to the API, by route; a blocking create lasts until its job is sealed',
    ['method', 'route', 'status'],
    REQUEST_BUCKETS,
  );
  readonly #errors = this.#counter('pdfseal_http_errors_total', 'Failed API requests, by error code', [
    'code',
  ]);
  readonly #unlogged = this.#counter(
    'pdfseal_http_unlogged_requests_total',
    'Requests without a good API key that were counted instead of logged',
    [],
  );
  readonly #refusals = this.#counter(
    'pdfseal_limit_refusals_total',
    `Creates refused because of a rate or quota, with the names of the first ${CLIENTS_MAX} clients`,
    ['client', 'limit'],
  );
  readonly #scans = this.#counter('pdfseal_scans_total', 'Documents, by the answer of the virus scanner', [
    'answer',
  ]);
  readonly #scanTime = this.#histogram(
    'pdfseal_scan_duration_seconds',
    'Time from the last byte of a document to the answer of the virus scanner',
    [],
    SCAN_BUCKETS,
  );
  readonly #fetches = this.#counter(
    'pdfseal_source_fetches_total',
    'Attempts to fetch a document, by outcome',
    ['outcome'],
  );
  readonly #fetchFailures = this.#counter(
    'pdfseal_source_fetch_failures_total',
    'Failed attempts to fetch a document, by error code',
    ['code'],
  );
  readonly #fetchTime = this.#histogram(
    'pdfseal_source_fetch_duration_seconds',
    'Time of attempts to fetch a document, with any outcome',
    [],
    FETCH_BUCKETS,
  );
  readonly #hashTroubles = this.#counter(
    'pdfseal_hash_troubles_total',
    'Lost hash workers and failed tasks; tasks are repeated',
    [],
  );
  readonly #clients = new BoundedSet<string>({ max: CLIENTS_MAX, whenFull: 'refuse it' });

  /** Told of the same events; must not throw. */
  readonly #also: SealingListener | undefined;

  constructor(also?: SealingListener) {
    this.#also = also;
    collectDefaultMetrics({ register: this.#registry });
    for (const name of UNWANTED) this.#registry.removeSingleMetric(name);
  }

  accepted(job: Job, durationMs?: number): void {
    if (!isOfClient(job)) return;
    this.#accepted.inc();
    if (durationMs !== undefined) this.#stepTime.observe({ step: 'accept' }, durationMs / 1000);
  }

  sealed({ jobs, waitedMs, signMs, stampMs, commitMs }: SealedJobs): void {
    const ofClients = jobs.filter(isOfClient);
    this.#sealed.inc(ofClients.length);
    this.#batchJobs.observe(jobs.length);
    this.#stepTime.observe({ step: 'sign' }, signMs / 1000);
    if (stampMs !== undefined) this.#stepTime.observe({ step: 'stamp' }, stampMs / 1000);
    this.#stepTime.observe({ step: 'commit' }, commitMs / 1000);
    const sealMs = signMs + (stampMs ?? 0) + commitMs;
    for (const [n, waited] of waitedMs.entries()) {
      if (!jobs[n] || !isOfClient(jobs[n])) continue;
      this.#stepTime.observe({ step: 'wait' }, waited / 1000);
      this.#sealTime.observe((waited + sealMs) / 1000);
      this.#also?.sealed(waited + sealMs);
    }
  }

  failed(job: Job, code: Failure['code']): void {
    if (!isOfClient(job)) return;
    this.#failed.inc({ code });
    this.#also?.failed(code);
  }

  canary({ verified, durationMs }: CanaryRun): void {
    this.#canaries.inc({ outcome: verified ? 'verified' : 'failed' });
    if (verified) this.#stepTime.observe({ step: 'canary' }, durationMs / 1000);
  }

  /** `partition` is `<region>/<key label>`. */
  signed(partition: string, durationMs: number): void {
    this.#signTime.observe({ partition }, durationMs / 1000);
  }

  request({ method, route, status, durationMs, errorCode }: AnsweredRequest): void {
    const known = METHODS.includes(method) ? method : '(other)';
    this.#requestTime.observe({ method: known, route, status }, durationMs / 1000);
    if (errorCode === undefined) return;
    this.#errors.inc({ code: errorCode });
    this.#also?.failed(errorCode);
  }

  unlogged(): void {
    this.#unlogged.inc();
  }

  refused(clientId: string, limit: 'rate' | 'quota'): void {
    const client = this.#clients.add(clientId) ? clientId : OTHER_CLIENTS;
    this.#refusals.inc({ client, limit });
  }

  scanned(answer: string, durationMs: number): void {
    this.#scans.inc({ answer });
    this.#scanTime.observe(durationMs / 1000);
  }

  fetched({ code, again, durationMs }: FetchAttempt): void {
    this.#fetches.inc({ outcome: code === undefined ? 'received' : again ? 'retried' : 'failed' });
    if (code !== undefined) this.#fetchFailures.inc({ code });
    this.#fetchTime.observe(durationMs / 1000);
  }

  hashTrouble(): void {
    this.#hashTroubles.inc();
  }

  /** The metrics of pdfseald's own, in the order in which they are printed. */
  families(): Family[] {
    const all: (Omit<Family, 'labelNames'> & Partial<Family>)[] = this.#registry.getMetricsAsArray();
    return all.flatMap(({ name, help, labelNames = [] }) =>
      name.startsWith('pdfseal_') ? [{ name, help, labelNames }] : [],
    );
  }

  /** All metrics, with the current status. */
  text(status: AdminStatus): Promise<string> {
    this.#gauges.set(status);
    return this.#registry.metrics();
  }

  #counter<Label extends string>(name: string, help: string, labelNames: Label[]): Counter<Label> {
    return new Counter({ name, help, labelNames, registers: [this.#registry] });
  }

  #histogram<Label extends string>(
    name: string,
    help: string,
    labelNames: Label[],
    buckets: number[],
  ): Histogram<Label> {
    return new Histogram({ name, help, labelNames, buckets, registers: [this.#registry] });
  }
}
