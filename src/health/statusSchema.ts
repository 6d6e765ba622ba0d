/** The status of a daemon: its facts and what is wrong, in the spelling of the API, and the metrics that show both. */
import * as z from 'zod';
import { factsSchema } from './facts.ts';
import { findingSchema, healthPartSchema } from './healthFinding.ts';
import { FINDINGS } from './healthFindings.ts';
import { by, metricsOf, plain, type StatusMetric } from './sections/section.ts';

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

/** Every metric that is read from the status. */
export const STATUS_METRICS: StatusMetric<AdminStatus>[] = [
  ...DAEMON_METRICS,
  ...Object.entries(factsSchema.shape).flatMap(([name, member]) =>
    metricsOf<z.ZodType>(member).map((metric) => ({
      ...metric,
      samples: (status: AdminStatus) => metric.samples(status[name as keyof AdminStatus]),
    })),
  ),
];
