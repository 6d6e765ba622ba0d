/** The status of a daemon: its facts and what is wrong, in the spelling of the API, and the metrics that show both. */
import * as z from 'zod';
import { factsSchema } from './facts.ts';
import { findingSchema, healthPartSchema } from './healthFinding.ts';
import { FINDINGS } from './healthFindings.ts';
import { ACCEPTANCE_METRICS } from './sections/acceptanceSection.ts';
import { CANARY_METRICS } from './sections/canarySection.ts';
import { CERTIFICATE_METRICS } from './sections/certificatesSection.ts';
import { COPY_METRICS, HASH_METRICS, SOURCE_METRICS } from './sections/documentsSection.ts';
import { EGRESS_METRICS } from './sections/egressSection.ts';
import { AUDIT_METRICS, LAST_CHECKPOINT_METRICS, LOG_METRICS } from './sections/logSection.ts';
import { NODES_METRICS } from './sections/nodesSection.ts';
import { PARTITION_METRICS } from './sections/partitionsSection.ts';
import { QUEUE_METRICS } from './sections/queueSection.ts';
import { SCANNER_METRICS } from './sections/scannerSection.ts';
import { SEALING_METRICS } from './sections/sealingSection.ts';
import { by, plain, type StatusMetric } from './sections/section.ts';
import { TIMESTAMP_METRICS } from './sections/timestampsSection.ts';
import { STORE_METRICS, UPKEEP_METRICS } from './sections/upkeepSection.ts';
import { WEBHOOK_METRICS } from './sections/webhooksSection.ts';
import { WITNESS_METRICS } from './sections/witnessesSection.ts';

export const statusSchema = factsSchema.extend({
  ready: z.boolean().describe('Whether every part is ready.'),
  parts: z.array(healthPartSchema),
  findings: z.array(findingSchema),
});
export type AdminStatus = z.infer<typeof statusSchema>;

const DAEMON_METRICS: StatusMetric<AdminStatus>[] = [
  {
    name: 'pdfseal_info',
    help: 'Always 1; the labels describe the running version',
    labelNames: ['version', 'node', 'environment', 'hash_engine', 'store_engine'],
    samples: ({ version, node, environment, hash, store }) => {
      const engines = { hash_engine: hash.engine, store_engine: store.engine };
      return [{ labels: { version, node, environment, ...engines }, value: 1 }];
    },
  },
  plain('pdfseal_ready', '1 while every part is ready, as /readyz answers', 'ready'),
  by('part', 'pdfseal_part_ready', '1 while this part is ready', ({ parts }) =>
    parts.map(({ name, ready }) => [name, ready]),
  ),
  {
    name: 'pdfseal_finding',
    help: '1 while this is wrong with its subject; 0 without a subject while it is wrong with none',
    labelNames: ['finding', 'severity', 'subject'],
    samples: ({ findings }) =>
      FINDINGS.flatMap(({ id, severity }) => {
        const subjects = new Set(findings.filter((one) => one.id === id).map(({ subject }) => subject));
        const held = Array.from(subjects, (subject) => ({
          labels: { finding: id, severity, subject },
          value: 1,
        }));
        return held.length > 0 ? held : [{ labels: { finding: id, severity, subject: '' }, value: 0 }];
      }),
  },
  plain(
    'pdfseal_config_pending_keys',
    'Changed keys of the configuration that wait for a restart',
    ({ config }) => config.pending.length,
  ),
];

/** A metric of a section, read from the whole status. */
function of<Key extends keyof AdminStatus>(
  key: Key,
  metrics: StatusMetric<AdminStatus[Key]>[],
): StatusMetric<AdminStatus>[] {
  return metrics.map((metric) => ({ ...metric, samples: (status) => metric.samples(status[key]) }));
}

/** Every metric that is read from the status. */
export const STATUS_METRICS: StatusMetric<AdminStatus>[] = [
  ...DAEMON_METRICS,
  ...of('canary', CANARY_METRICS),
  ...of('queue', QUEUE_METRICS),
  ...of('partitions', PARTITION_METRICS),
  ...of('sealing', SEALING_METRICS),
  ...of('acceptance', ACCEPTANCE_METRICS),
  ...of('nodes', NODES_METRICS),
  ...of('timestamps', TIMESTAMP_METRICS),
  ...of('scanner', SCANNER_METRICS),
  ...of('egress', EGRESS_METRICS),
  ...of('sources', SOURCE_METRICS),
  ...of('copies', COPY_METRICS),
  ...of('hash', HASH_METRICS),
  ...of('certificates', CERTIFICATE_METRICS),
  ...of('webhooks', WEBHOOK_METRICS),
  ...of('audit', AUDIT_METRICS),
  ...of('log', LOG_METRICS),
  ...of('witness', LAST_CHECKPOINT_METRICS),
  ...of('witnesses', WITNESS_METRICS),
  ...of('store', STORE_METRICS),
  ...of('upkeep', UPKEEP_METRICS),
];
