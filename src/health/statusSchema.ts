/** The status of a daemon, in the spelling of the API, and the metrics that are read from it. */
import * as z from 'zod';
import { CANARY_METRICS, canarySchema } from './sections/canarySection.ts';
import { CERTIFICATE_METRICS, certificateSchema } from './sections/certificatesSection.ts';
import {
  COPY_METRICS,
  copiesSchema,
  HASH_METRICS,
  hashSchema,
  SOURCE_METRICS,
  sourcesSchema,
} from './sections/documentsSection.ts';
import { EGRESS_METRICS, egressSchema } from './sections/egressSection.ts';
import {
  AUDIT_METRICS,
  auditSchema,
  LAST_CHECKPOINT_METRICS,
  LOG_METRICS,
  lastCheckpointSchema,
  logSchema,
} from './sections/logSection.ts';
import { NODES_METRICS, nodesSchema } from './sections/nodesSection.ts';
import { PARTITION_METRICS, partitionsSchema } from './sections/partitionsSection.ts';
import { QUEUE_METRICS, queueSchema } from './sections/queueSection.ts';
import { SCANNER_METRICS, scannerSchema } from './sections/scannerSection.ts';
import { SEALING_METRICS, sealingSchema } from './sections/sealingSection.ts';
import { by, healthPartSchema, plain, type StatusMetric, WIRE } from './sections/section.ts';
import { TIMESTAMP_METRICS, timestampsSchema } from './sections/timestampsSection.ts';
import { STORE_METRICS, storeSchema, UPKEEP_METRICS, upkeepSchema } from './sections/upkeepSection.ts';
import { WEBHOOK_METRICS, webhooksSchema } from './sections/webhooksSection.ts';
import { WITNESS_METRICS, witnessesSchema } from './sections/witnessesSection.ts';

const { seconds, time } = WIRE;

export const statusSchema = z.object({
  version: z.string(),
  node: z.string(),
  environment: z.string(),
  pid: z.int(),
  started_at: time,
  uptime_seconds: seconds,
  draining: z.boolean(),
  config: z
    .object({
      file: z.string(),
      sha256: z.string(),
      loaded_at: time,
      pending: z.array(z.string()).readonly(),
    })
    .describe(
      'The configuration in force: the digest of the file’s text when the daemon read it, and the keys that wait for a restart.',
    ),
  ready: z.boolean().describe('Whether every part is ready.'),
  parts: z.array(healthPartSchema),
  canary: canarySchema,
  queue: queueSchema,
  partitions: partitionsSchema,
  sealing: sealingSchema.exactOptional(),
  nodes: nodesSchema.exactOptional(),
  timestamps: timestampsSchema.exactOptional(),
  scanner: scannerSchema.exactOptional(),
  egress: egressSchema.exactOptional(),
  sources: sourcesSchema,
  copies: copiesSchema,
  certificates: z.array(certificateSchema),
  webhooks: webhooksSchema,
  audit: auditSchema,
  log: logSchema,
  witness: lastCheckpointSchema,
  witnesses: witnessesSchema.exactOptional(),
  upkeep: upkeepSchema,
  store: storeSchema,
  hash: hashSchema,
  event_loop_delay_ms: z
    .object({ p50: z.number(), p99: z.number(), max: z.number() })
    .describe('The delay since the status was last read.'),
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
