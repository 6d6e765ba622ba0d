/**
 * What the administration is told of the daemon; on the wire, so members are in its spelling. The types and what
 * `openapi.json` says of them are the same schemas.
 */
import { z } from 'zod';
import { URGENCIES } from '../base/validity.ts';
import { upkeepNote } from '../watch/upkeepNotes.ts';

const count = z.int().min(0);
const seconds = z.number().min(0);
const bytes = z.int().min(0);
const time = z.iso.datetime();

const run = z
  .object({
    verified: z.boolean(),
    started_at: time,
    age_seconds: seconds,
    duration_ms: z.number().min(0),
    detail: z.string(),
    job_id: z.string().exactOptional(),
    leaf_index: count.exactOptional(),
    signers: z.array(z.string()),
  })
  .describe('A canary, a document of pdfseald’s own, sealed and verified as a client would.');
export type PresentedRun = z.infer<typeof run>;

const healthPart = z
  .object({
    name: z.enum(['service', 'canary', 'partitions', 'timestamps', 'scanner', 'queue', 'store']),
    ready: z.boolean(),
    detail: z.string(),
    remedy: z.string().exactOptional().describe('What to do, where it is not ready.'),
  })
  .describe('One thing that must be well for a document to be sealed.');
export type HealthPart = z.infer<typeof healthPart>;

const partition = z.object({
  name: z.string().describe('`<region>/<key label>`.'),
  state: z
    .enum([
      'starting',
      'ready',
      'unavailable',
      'pin_refused',
      'key_changed',
      'key_lost',
      'withdrawn',
      'closed',
    ])
    .describe('Only `ready` signs.'),
  since: time,
  last_error: z.string().exactOptional(),
  signatures: count,
  restarts: count,
  pid: z.int().exactOptional(),
  returns_at: time.exactOptional().describe('When one that was withdrawn is put back by itself.'),
});
export type PresentedPartition = z.infer<typeof partition>;

const timestamps = z
  .object({
    can_stamp: z.boolean(),
    clock: z.object({
      trust: z.string(),
      trouble: z.string().exactOptional(),
      detail: z.string(),
      error_bound_ms: z.number().exactOptional(),
    }),
    authorities: z
      .array(
        z.object({ name: z.string(), tokens: count, failures: count, trouble: z.string().exactOptional() }),
      )
      .describe('In the order of preference.'),
    units: z
      .array(z.object({ subject: z.string(), ready: z.boolean() }))
      .describe('The keys of the built-in authority.'),
  })
  .describe('Absent where receipts carry no time-stamp.');
export type PresentedTimestamps = z.infer<typeof timestamps>;

const scanner = z
  .object({
    trouble: z.string().exactOptional(),
    detail: z.string(),
    connections_in_use: count,
    connections_idle: count,
    connections_max: count,
    documents_waiting: count.describe('For a connection.'),
    engine: z.string().exactOptional(),
    signatures: z.string().exactOptional(),
    signatures_built_at: time.exactOptional(),
  })
  .describe('Absent where documents are not scanned.');
export type PresentedScanner = z.infer<typeof scanner>;

const certificate = z.object({
  authority: z.string().describe('`http.tls` for those of the API itself.'),
  role: z.enum(['time-stamping', 'issuer', 'root', 'server', 'client-ca']),
  state: z.enum(['valid', 'expired', 'not_yet_valid', 'missing']),
  subject: z
    .string()
    .exactOptional()
    .describe('Absent where there is no certificate; then `detail` says why.'),
  not_after: time.exactOptional(),
  days_left: z.int().exactOptional(),
  urgency: z.enum(URGENCIES).describe('How near its end is: plan its renewal, renew it soon, renew it now.'),
  detail: z.string().exactOptional(),
});
export type PresentedCertificate = z.infer<typeof certificate>;

const webhooks = z.object({
  endpoints: count,
  disabled: count,
  failing: count.describe('Those that keep failing, and are tried by one delivery at a time.'),
  in_flight: count,
  pending: count,
  oldest_due_age_seconds: seconds.describe('Of the delivery that is due the longest; 0 when none is.'),
  dead_letters: count,
  delivered: count,
  failed_attempts: count,
  dropped: count,
});

const queue = z
  .object({
    queued: count,
    hashing: count,
    sealing: count,
    jobs_max: count,
    oldest_age_seconds: seconds,
    oldest_age_seconds_by_phase: z
      .object({ queued: seconds, hashing: seconds, sealing: seconds })
      .describe('0 for a phase that no job is in.'),
  })
  .describe('Jobs without an outcome, by phase. Canaries are no part of it.');

const status = z.object({
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
      'The configuration it goes by: digest of the file’s text when that was read, and keys that wait for a restart.',
    ),
  ready: z.boolean().describe('Whether every part is.'),
  parts: z.array(healthPart),
  canary: z.object({
    ready: z.boolean(),
    detail: z.string(),
    interval_seconds: seconds.exactOptional().describe('Absent where none is sealed by itself.'),
    newest: run.exactOptional(),
    last_verified: run.exactOptional(),
  }),
  queue,
  partitions: z
    .object({
      quorum: z.union([count, z.string()]),
      needed: count,
      signing: count,
      members: z.array(partition),
    })
    .describe(
      '`quorum` as the configuration has it, how many signatures it takes, and how many of those there are count.',
    ),
  timestamps: timestamps.exactOptional(),
  scanner: scanner.exactOptional(),
  sources: z.object({ under_way: count, queued: count, paused: count }),
  copies: z.object({ files: count, bytes, oldest_age_seconds: seconds, kept_seconds: seconds }),
  certificates: z.array(certificate),
  webhooks,
  audit: z.object({ unsealed: count }).describe('Records of the audit trail that wait to be sealed.'),
  log: z.object({ origin: z.string(), tree_size: count, sealed_at: time.exactOptional() }),
  witness: z
    .object({ tree_size: count, current_at: time.exactOptional() })
    .describe('Size of the log as the witness file has it, and when that was last known to be the newest.'),
  upkeep: z
    .object({
      backup: upkeepNote.exactOptional(),
      check: upkeepNote.exactOptional(),
      restore_drill: upkeepNote.exactOptional(),
    })
    .describe('What was last noted of each; a backup only if it was good.'),
  store: z.object({
    path: z.string(),
    bytes,
    disk_free_bytes: bytes,
    disk_free_bytes_min: bytes,
    disk_bytes: bytes,
  }),
  hash: z.object({
    engine: z.string(),
    kernels: z
      .array(z.object({ streams: count, kernel: z.string(), megabytes_per_second: count }))
      .describe(
        'What the native engine was found to do best with, at the start: the fastest kernel for 1, 2, 4, 8 and 16 documents at once, both digests, on one core. Empty for another engine.',
      ),
    workers: count,
    documents: count.describe('Being hashed as their bytes arrive.'),
    pending_bytes: bytes.describe('Received, and still to be handed to a worker.'),
    tasks: count,
    tasks_max: count,
  }),
  event_loop_delay_ms: z
    .object({ p50: z.number(), p99: z.number(), max: z.number() })
    .describe('Since it was last asked for.'),
});
export type AdminStatus = z.infer<typeof status>;

const limit = { limit: count, window_seconds: seconds, used: count, resets_at: time };
const quotas = z.object({
  clients: z.array(
    z.object({
      client_id: z.string(),
      rate: z.object(limit).exactOptional().describe('Absent without a limit.'),
      quotas: z.array(z.object({ name: z.string(), ...limit })),
    }),
  ),
});
export type AdminQuotas = z.infer<typeof quotas>;
export type PresentedLimit = NonNullable<AdminQuotas['clients'][number]['rate']>;

const readiness = status.pick({ ready: true, parts: true });
const health = z.object({ alive: z.literal(true) });

/** What is answered, by the name it has in `openapi.json`. */
export const ANSWERS = {
  Health: health,
  Readiness: readiness,
  Status: status,
  Quotas: quotas,
  Run: run,
  Partition: partition,
};
