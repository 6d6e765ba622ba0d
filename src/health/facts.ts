/** Facts that a daemon knows about itself, gathered once, in the spelling of the API. */
import * as z from 'zod';
import { acceptanceSchema } from './sections/acceptanceSection.ts';
import { canarySchema } from './sections/canarySection.ts';
import { certificatesSchema } from './sections/certificatesSection.ts';
import { copiesSchema, hashSchema, sourcesSchema } from './sections/documentsSection.ts';
import { egressSchema } from './sections/egressSection.ts';
import { auditSchema, lastCheckpointSchema, logSchema } from './sections/logSection.ts';
import { nodesSchema } from './sections/nodesSection.ts';
import { partitionsSchema } from './sections/partitionsSection.ts';
import { queueSchema } from './sections/queueSection.ts';
import { scannerSchema } from './sections/scannerSection.ts';
import { sealingSchema } from './sections/sealingSection.ts';
import { WIRE } from './sections/section.ts';
import { timestampsSchema } from './sections/timestampsSection.ts';
import { storeSchema, upkeepSchema } from './sections/upkeepSection.ts';
import { webhooksSchema } from './sections/webhooksSection.ts';
import { witnessesSchema } from './sections/witnessesSection.ts';

const { seconds, time } = WIRE;

export const factsSchema = z.object({
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
  canary: canarySchema,
  queue: queueSchema,
  partitions: partitionsSchema,
  sealing: sealingSchema.optional(),
  acceptance: acceptanceSchema.optional(),
  nodes: nodesSchema.optional(),
  timestamps: timestampsSchema.optional(),
  scanner: scannerSchema.optional(),
  egress: egressSchema.optional(),
  sources: sourcesSchema,
  copies: copiesSchema,
  certificates: certificatesSchema,
  webhooks: webhooksSchema,
  audit: auditSchema,
  log: logSchema,
  witness: lastCheckpointSchema,
  witnesses: witnessesSchema.optional(),
  upkeep: upkeepSchema,
  store: storeSchema,
  hash: hashSchema,
  event_loop_delay_ms: z
    .object({ p50: z.number(), p99: z.number(), max: z.number() })
    .describe('The delay since the status was last read.'),
});
export type Facts = z.infer<typeof factsSchema>;
