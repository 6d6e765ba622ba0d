import { Counter, Gauge, type Registry } from 'prom-client';
import type { AdminStatus } from './status.ts';

type Labels = Record<string, string>;

/** One value of a metric. */
interface Sample {
  labels?: Labels;
  value: number;
}

interface StatusMetric {
  name: string;
  help: string;
  labelNames?: string[];
  /** A total that the daemon keeps itself since its start. */
  isTotal?: true;
  samples(status: AdminStatus): Sample[];
}

function one(value: number | boolean | undefined): Sample[] {
  return value === undefined ? [] : [{ value: Number(value) }];
}

function epochSeconds(time: string | undefined): number | undefined {
  return time === undefined ? undefined : Date.parse(time) / 1000;
}

const METRICS: StatusMetric[] = [
  {
    name: 'pdfseal_info',
    help: 'Always 1; what runs is in the labels',
    labelNames: ['version', 'node', 'environment', 'hash_engine'],
    samples: ({ version, node, environment, hash }) => [
      { labels: { version, node, environment, hash_engine: hash.engine }, value: 1 },
    ],
  },
  {
    name: 'pdfseal_ready',
    help: '1 while every part is ready, as /readyz answers',
    samples: ({ ready }) => one(ready),
  },
  {
    name: 'pdfseal_part_ready',
    help: '1 while this part is ready',
    labelNames: ['part'],
    samples: ({ parts }) =>
      parts.map(({ name, ready }) => ({ labels: { part: name }, value: Number(ready) })),
  },
  {
    name: 'pdfseal_canary_verified_timestamp_seconds',
    help: 'When the newest canary that verified was begun; absent before the first',
    samples: ({ canary }) => one(epochSeconds(canary.last_verified?.started_at)),
  },
  {
    name: 'pdfseal_jobs',
    help: 'Jobs of clients that wait for their outcome, by phase',
    labelNames: ['phase'],
    samples: ({ queue }) =>
      (['queued', 'hashing', 'sealing'] as const).map((phase) => ({
        labels: { phase },
        value: queue[phase],
      })),
  },
  {
    name: 'pdfseal_jobs_oldest_age_seconds',
    help: 'Since the acceptance of the job that waits longest; 0 when none waits',
    samples: ({ queue }) => one(queue.oldest_age_seconds),
  },
  {
    name: 'pdfseal_jobs_max',
    help: 'Jobs that may wait (limits.queue_jobs_max)',
    samples: ({ queue }) => one(queue.jobs_max),
  },
  {
    name: 'pdfseal_partition_ready',
    help: '1 while this partition signs',
    labelNames: ['partition'],
    samples: ({ partitions }) =>
      partitions.members.map(({ name, state }) => ({
        labels: { partition: name },
        value: Number(state === 'ready'),
      })),
  },
  {
    name: 'pdfseal_partition_signatures_total',
    help: 'Checkpoints this partition signed',
    labelNames: ['partition'],
    isTotal: true,
    samples: ({ partitions }) =>
      partitions.members.map(({ name, signatures }) => ({ labels: { partition: name }, value: signatures })),
  },
  {
    name: 'pdfseal_partition_restarts_total',
    help: 'Signer processes that were replaced',
    labelNames: ['partition'],
    isTotal: true,
    samples: ({ partitions }) =>
      partitions.members.map(({ name, restarts }) => ({ labels: { partition: name }, value: restarts })),
  },
  {
    name: 'pdfseal_quorum',
    help: 'How many must sign (kms.quorum), in the epoch in force',
    samples: ({ partitions }) => one(partitions.needed),
  },
  {
    name: 'pdfseal_clock_trusted',
    help: '1 while the clock is believed; absent without time-stamps',
    samples: ({ timestamps }) => one(timestamps && timestamps.clock.trouble === undefined),
  },
  {
    name: 'pdfseal_clock_error_bound_seconds',
    help: 'Most by which the clock can be wrong; absent where its source does not say',
    samples: ({ timestamps }) => {
      const boundMs = timestamps?.clock.error_bound_ms;
      return one(boundMs === undefined ? undefined : boundMs / 1000);
    },
  },
  {
    name: 'pdfseal_authority_up',
    help: '1 unless the newest request to this time-stamp authority failed',
    labelNames: ['authority'],
    samples: ({ timestamps }) =>
      (timestamps?.authorities ?? []).map(({ name, trouble }) => ({
        labels: { authority: name },
        value: Number(trouble === undefined),
      })),
  },
  {
    name: 'pdfseal_authority_tokens_total',
    help: 'Verified time-stamps of this authority',
    labelNames: ['authority'],
    isTotal: true,
    samples: ({ timestamps }) =>
      (timestamps?.authorities ?? []).map(({ name, tokens }) => ({
        labels: { authority: name },
        value: tokens,
      })),
  },
  {
    name: 'pdfseal_authority_failures_total',
    help: 'Requests to this authority that gave no good time-stamp',
    labelNames: ['authority'],
    isTotal: true,
    samples: ({ timestamps }) =>
      (timestamps?.authorities ?? []).map(({ name, failures }) => ({
        labels: { authority: name },
        value: failures,
      })),
  },
  {
    name: 'pdfseal_certificate_not_after_timestamp_seconds',
    help: 'When a certificate that time-stamps rest on ends; 0 for one that is missing',
    labelNames: ['authority', 'role', 'subject'],
    samples: ({ certificates }) =>
      certificates.map(({ authority, role, subject = '', not_after }) => ({
        labels: { authority, role, subject },
        value: epochSeconds(not_after) ?? 0,
      })),
  },
  {
    name: 'pdfseal_webhook_endpoints',
    help: 'Webhook endpoints by state; failing ones are enabled',
    labelNames: ['state'],
    samples: ({ webhooks: { endpoints, disabled, failing } }) => [
      { labels: { state: 'enabled' }, value: endpoints - disabled },
      { labels: { state: 'disabled' }, value: disabled },
      { labels: { state: 'failing' }, value: failing },
    ],
  },
  {
    name: 'pdfseal_webhooks_pending',
    help: 'Webhooks still to be sent',
    samples: ({ webhooks }) => one(webhooks.pending),
  },
  {
    name: 'pdfseal_webhooks_oldest_due_age_seconds',
    help: 'Since when the webhook that is due the longest is due; 0 when none is',
    samples: ({ webhooks }) => one(webhooks.oldest_due_age_seconds),
  },
  {
    name: 'pdfseal_webhooks_dead_letters',
    help: 'Webhooks that were given up and can be replayed',
    samples: ({ webhooks }) => one(webhooks.dead_letters),
  },
  {
    name: 'pdfseal_webhooks_delivered_total',
    help: 'Webhooks delivered to the endpoints there are',
    isTotal: true,
    samples: ({ webhooks }) => one(webhooks.delivered),
  },
  {
    name: 'pdfseal_webhooks_failed_attempts_total',
    help: 'Attempts to deliver a webhook that failed',
    isTotal: true,
    samples: ({ webhooks }) => one(webhooks.failed_attempts),
  },
  {
    name: 'pdfseal_webhooks_dropped_total',
    help: 'Webhooks that found backlog and dead letters of their endpoint full',
    isTotal: true,
    samples: ({ webhooks }) => one(webhooks.dropped),
  },
  {
    name: 'pdfseal_log_leaves',
    help: 'Size of the log: sealed jobs, canaries too',
    samples: ({ log }) => one(log.tree_size),
  },
  {
    name: 'pdfseal_log_sealed_timestamp_seconds',
    help: 'When the newest checkpoint was sealed; absent while the log is empty',
    samples: ({ log }) => one(epochSeconds(log.sealed_at)),
  },
  {
    name: 'pdfseal_store_bytes',
    help: 'What the store takes on disk',
    samples: ({ store }) => one(store.bytes),
  },
  {
    name: 'pdfseal_store_disk_free_bytes',
    help: 'What is left of the disk the store is on',
    samples: ({ store }) => one(store.disk_free_bytes),
  },
];

/** The metrics that say how things stand. */
export class StatusGauges {
  readonly #metrics: { metric: Gauge | Counter; isPlain: boolean; samples: StatusMetric['samples'] }[];

  constructor(registry: Registry) {
    this.#metrics = METRICS.map(({ name, help, labelNames = [], isTotal, samples }) => {
      const options = { name, help, labelNames, registers: [registry] };
      const metric = isTotal ? new Counter(options) : new Gauge(options);
      return { metric, isPlain: labelNames.length === 0, samples };
    });
  }

  /** What is not in the status any more is not in the metrics either. */
  set(status: AdminStatus): void {
    for (const { metric, isPlain, samples } of this.#metrics) {
      metric.reset();
      // Resetting gives a metric without labels the value 0, which it may not have.
      if (isPlain) metric.remove();
      for (const { labels = {}, value } of samples(status)) metric.inc(labels, value);
    }
  }
}
