import * as z from 'zod';
import type { KernelRate } from '../../hash/calibrate.ts';
import type { HashPool } from '../../hash/pool.ts';
import type { Fetching } from '../../seal/fetching.ts';
import { by, plain, showAs, WIRE } from './section.ts';

const { bytes, count, seconds } = WIRE;

export const sourcesSchema = z.object({ under_way: count, queued: count, paused: count });
type SourcesSection = z.infer<typeof sourcesSchema>;

export const copiesSchema = z.object({
  documents: count.describe('Copies that are kept.'),
  files: count.describe('Files on disk. Small copies share files.'),
  bytes: bytes.describe('Bytes of these files. A file is removed with the last of its copies.'),
  bytes_max: bytes.optional().describe('The most that they may take; absent if the disk alone is the limit.'),
  oldest_age_seconds: seconds,
  kept_seconds: seconds,
});
type CopiesSection = z.infer<typeof copiesSchema>;

export const hashSchema = z.object({
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
});
type HashSection = z.infer<typeof hashSchema>;

export interface HashSource {
  engine: string;
  kernels: readonly KernelRate[];
  workers: number;
  pool: Pick<HashPool, 'load'>;
}

export function presentSources(sources: Pick<Fetching, 'status'>): SourcesSection {
  const { underWay, queued, paused } = sources.status();
  return { under_way: underWay, queued, paused };
}

export interface CopiesSource {
  readonly usage: { documents: number; files: number; bytes: number };
}

/** `oldest` is the oldest copy's job. */
export function presentCopies(
  { documents, files, bytes }: CopiesSource['usage'],
  { oldestMs, keptMs, bytesMax }: { oldestMs: number; keptMs: number; bytesMax: number | undefined },
): CopiesSection {
  return {
    ...{ documents, files, bytes },
    bytes_max: bytesMax,
    oldest_age_seconds: oldestMs / 1000,
    kept_seconds: keptMs / 1000,
  };
}

export function presentHash({ engine, kernels, workers, pool }: HashSource): HashSection {
  const { documents, pendingBytes, tasks, tasksMax } = pool.load;
  return {
    engine,
    kernels: presentKernels(kernels),
    workers,
    documents,
    pending_bytes: pendingBytes,
    tasks,
    tasks_max: tasksMax,
  };
}

export function presentKernels(rates: readonly KernelRate[]): HashSection['kernels'] {
  return rates.map(({ streams, kernel, megabytesPerSecond }) => ({
    streams,
    kernel,
    megabytes_per_second: Math.round(megabytesPerSecond),
  }));
}

showAs(sourcesSchema, [
  by(
    'state',
    'pdfseal_source_jobs',
    'Jobs whose document is to be fetched, by state: fetching, queued, or paused until the next attempt',
    ({ under_way: fetching, queued, paused }) => Object.entries({ fetching, queued, paused }),
  ),
]);

showAs(copiesSchema, [
  plain(
    'pdfseal_copies',
    'Documents that are kept: copies without metadata, and documents of sealed PDFs',
    'documents',
  ),
  plain('pdfseal_copies_files', 'Files of these copies; small copies share files', 'files'),
  plain('pdfseal_copies_bytes', 'What these files take on disk', 'bytes'),
  plain(
    'pdfseal_copies_oldest_age_seconds',
    'Since the job of the oldest copy was made; 0 when there is none',
    'oldest_age_seconds',
  ),
  plain(
    'pdfseal_copies_kept_seconds',
    'How long a copy is kept (retention.document_hours); what is older waits to be deleted',
    'kept_seconds',
  ),
]);

showAs(hashSchema, [
  {
    name: 'pdfseal_hash_kernel_bytes_per_second',
    help: 'Measured at the start: the fastest kernel for so many documents at once, both digests, on one core',
    labelNames: ['streams', 'kernel'],
    samples: (hash) =>
      hash.kernels.map(({ streams, kernel, megabytes_per_second }) => ({
        labels: { streams: `${streams}`, kernel },
        value: megabytes_per_second * 1e6,
      })),
  },
  plain('pdfseal_hash_documents', 'Documents that are being hashed as their bytes arrive', 'documents'),
  plain('pdfseal_hash_pending_bytes', 'Bytes received that still wait for a hash worker', 'pending_bytes'),
  plain('pdfseal_hash_tasks', 'Tasks the hash workers have in hand', 'tasks'),
  plain('pdfseal_hash_tasks_max', 'Tasks they can have in hand', 'tasks_max'),
]);
