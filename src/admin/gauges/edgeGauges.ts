import { epochSeconds, one, type StatusMetric } from './statusMetric.ts';

/** What documents come by and receipts go by: scanner, sources, hash workers, copies, webhooks. */
export const EDGES: StatusMetric[] = [
  {
    name: 'pdfseal_scanner_up',
    help: '1 while documents are scanned; absent where none are',
    samples: ({ scanner }) => one(scanner && scanner.trouble === undefined),
  },
  {
    name: 'pdfseal_scanner_connections',
    help: 'Connections to the virus scanner, by state; a document that is scanned has one in use',
    labelNames: ['state'],
    samples: ({ scanner }) =>
      scanner === undefined
        ? []
        : [
            { labels: { state: 'in_use' }, value: scanner.connections_in_use },
            { labels: { state: 'idle' }, value: scanner.connections_idle },
          ],
  },
  {
    name: 'pdfseal_scanner_connections_max',
    help: 'Connections there may be (scan.connections_max)',
    samples: ({ scanner }) => one(scanner?.connections_max),
  },
  {
    name: 'pdfseal_scanner_documents_waiting',
    help: 'Documents that wait for a connection to the virus scanner',
    samples: ({ scanner }) => one(scanner?.documents_waiting),
  },
  {
    name: 'pdfseal_scanner_signatures_timestamp_seconds',
    help: 'When the signatures of the virus scanner were built; absent where it does not say',
    samples: ({ scanner }) => one(epochSeconds(scanner?.signatures_built_at)),
  },
  {
    name: 'pdfseal_source_jobs',
    help: 'Jobs whose document is to be fetched, by state: fetching, queued, or paused until the next attempt',
    labelNames: ['state'],
    samples: ({ sources: { under_way, queued, paused } }) => [
      { labels: { state: 'fetching' }, value: under_way },
      { labels: { state: 'queued' }, value: queued },
      { labels: { state: 'paused' }, value: paused },
    ],
  },
  {
    name: 'pdfseal_copies',
    help: 'Copies without metadata that are kept',
    samples: ({ copies }) => one(copies.files),
  },
  {
    name: 'pdfseal_copies_bytes',
    help: 'What these copies take on disk',
    samples: ({ copies }) => one(copies.bytes),
  },
  {
    name: 'pdfseal_copies_oldest_age_seconds',
    help: 'Since the job of the oldest copy was made; 0 when there is none',
    samples: ({ copies }) => one(copies.oldest_age_seconds),
  },
  {
    name: 'pdfseal_copies_kept_seconds',
    help: 'How long a copy is kept (retention.document_hours); what is older waits to be deleted',
    samples: ({ copies }) => one(copies.kept_seconds),
  },
  {
    name: 'pdfseal_hash_kernel_bytes_per_second',
    help: 'Measured at the start: the fastest kernel for so many documents at once, both digests, on one core',
    labelNames: ['streams', 'kernel'],
    samples: ({ hash }) =>
      hash.kernels.map(({ streams, kernel, megabytes_per_second }) => ({
        labels: { streams: `${streams}`, kernel },
        value: megabytes_per_second * 1e6,
      })),
  },
  {
    name: 'pdfseal_hash_documents',
    help: 'Documents that are being hashed as their bytes arrive',
    samples: ({ hash }) => one(hash.documents),
  },
  {
    name: 'pdfseal_hash_pending_bytes',
    help: 'Bytes received that still wait for a hash worker',
    samples: ({ hash }) => one(hash.pending_bytes),
  },
  {
    name: 'pdfseal_hash_tasks',
    help: 'Tasks the hash workers have in hand',
    samples: ({ hash }) => one(hash.tasks),
  },
  {
    name: 'pdfseal_hash_tasks_max',
    help: 'Tasks they can have in hand',
    samples: ({ hash }) => one(hash.tasks_max),
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
];
