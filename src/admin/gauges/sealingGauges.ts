import { epochSeconds, one, type StatusMetric } from './statusMetric.ts';

const PHASES = ['queued', 'hashing', 'sealing'] as const;

/** What seals: jobs, partitions, time-stamps, and the log they make. */
export const SEALING: StatusMetric[] = [
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
    samples: ({ queue }) => PHASES.map((phase) => ({ labels: { phase }, value: queue[phase] })),
  },
  {
    name: 'pdfseal_jobs_oldest_age_seconds',
    help: 'Since the acceptance of the job that waits longest in this phase; 0 when none is in it',
    labelNames: ['phase'],
    samples: ({ queue }) =>
      PHASES.map((phase) => ({ labels: { phase }, value: queue.oldest_age_seconds_by_phase[phase] })),
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
    name: 'pdfseal_quorum_signers',
    help: 'How many of those that sign count towards the quorum; below it nothing is sealed',
    samples: ({ partitions }) => one(partitions.signing),
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
    name: 'pdfseal_audit_unsealed',
    help: 'Records of the audit trail that wait to be sealed',
    samples: ({ audit }) => one(audit.unsealed),
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
];
