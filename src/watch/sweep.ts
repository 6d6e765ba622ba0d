import type { Logger } from 'pino';
import { Rounds } from '../base/rounds.ts';
import type { Timekeeping } from '../seal/timekeeping.ts';
import {
  IDEMPOTENCY_RETENTION_MS,
  type JobCopy,
  QUOTA_RETENTION_MS,
  type Store,
  type StoredCopy,
} from '../store/store.ts';

const INTERVAL_MS = 60_000;
/** Entries removed in one transaction: few enough not to delay a batch waiting behind them. */
const STEP_ENTRIES_MAX = 500;

export interface SweepOptions {
  store: Pick<Store, 'jobs' | 'copies' | 'credentials' | 'serviceTime' | 'pages'>;
  copies: { remove(copy: StoredCopy): Promise<void> };
  /** How long a copy is kept after its job was accepted. */
  documentRetentionMs: number;
  time: Pick<Timekeeping, 'ageMs' | 'date'>;
  logger: Logger;
  /** Default: one minute. */
  intervalMs?: number;
  /** Called if the store can no longer be written. */
  onFatal(error: unknown): void;
}

/**
 * Removes what has expired, at once and then every minute: idempotency entries, counts of past quota windows, salts of rotated keys that
 * have ended, and copies of documents. Checks the readers of the embedded store: a killed reader holds its pages until they are checked,
 * and the age of a hanging one counts from the first check. Returns a function that ends the sweep after its current step.
 */
export function startSweeping({
  onFatal,
  intervalMs = INTERVAL_MS,
  ...options
}: SweepOptions): () => Promise<void> {
  const rounds = new Rounds((signal) => sweep(options, signal), intervalMs, onFatal);
  void rounds.now();
  return () => rounds.close();
}

type Sweep = Omit<SweepOptions, 'onFatal' | 'intervalMs'>;

/** Removes everything that has expired, in small steps. */
export async function sweep(options: Sweep, signal?: AbortSignal): Promise<void> {
  options.store.pages?.read();
  const { jobs, credentials, serviceTime } = options.store;
  const steps = [
    () => jobs.sweepIdempotency(serviceTime.before(IDEMPOTENCY_RETENTION_MS), STEP_ENTRIES_MAX),
    () => jobs.sweepQuotas(options.time.date() - QUOTA_RETENTION_MS, STEP_ENTRIES_MAX),
    () => credentials.sweepSalts(serviceTime.now(), STEP_ENTRIES_MAX),
    () => sweepCopies(options),
  ];
  for (const step of steps) while (!signal?.aborted && (await step()) === STEP_ENTRIES_MAX);
}

async function sweepCopies(sweep: Sweep): Promise<number> {
  const { store, copies, logger } = sweep;
  const expired = await expiredCopies(sweep);
  if (expired.length > 0) await store.copies.forget(expired.map(({ jobId }) => jobId));
  // If we stop here, the files are unreadable without their keys, and the next start removes them, as well as files that cannot be removed
  // now.
  for (const { jobId, copy } of expired) {
    await copies
      .remove(copy)
      .catch((err) => logger.error({ err, job_id: jobId }, 'an expired copy stays on disk'));
  }
  return expired.length;
}

/** Visits every copy: after a jump of the clock, the order of ids is not the order of age. */
async function expiredCopies({ store, documentRetentionMs, time }: Sweep): Promise<JobCopy[]> {
  const expired: JobCopy[] = [];
  for await (const copy of store.copies.all()) {
    const record = await store.jobs.get(copy.jobId);
    if (record === undefined || time.ageMs(record.job) > documentRetentionMs) expired.push(copy);
    if (expired.length === STEP_ENTRIES_MAX) break;
  }
  return expired;
}
