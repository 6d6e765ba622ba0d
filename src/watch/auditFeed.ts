import type { Logger } from 'pino';
import { auditDigest, parseAuditRecord } from '../manifest/auditRecord.ts';
import type { Sealer } from '../seal/sealer.ts';
import type { Store } from '../store/store.ts';
import type { TrailEntry } from '../store/trail.ts';

export interface AuditFeedOptions {
  store: Pick<Store, 'trail'>;
  sealer: Pick<Sealer, 'adopt'>;
  /** The number of the newest record when the sealer was opened, or of an earlier one. */
  after: number;
  logger: Logger;
  /** How often new records are looked for. Default: a second. */
  intervalMs?: number;
  /** Told when the store can no longer be read. */
  onFatal(error: unknown): void;
}

const INTERVAL_MS = 1000;
const PAGE = 100;

/**
 * Passes records that any process adds to the audit trail to the sealer, and writes a line to the daemon's log for
 * each. Once that line was forwarded to another machine, nobody can remove the record unnoticed. Returns the
 * function that ends the feed.
 */
export function startAuditFeed({
  intervalMs = INTERVAL_MS,
  ...options
}: AuditFeedOptions): () => Promise<void> {
  const { store, sealer, logger, onFatal } = options;
  let seen = options.after;
  const look = async () => {
    if ((await store.trail.newest()) === seen) return;
    for (const entry of await store.trail.entries(seen, PAGE)) {
      await sealer.adopt(entry.jobId);
      logger.info(summaryOf(entry), 'the audit trail has a new record');
      seen = entry.number;
    }
  };
  let looking: Promise<void> = Promise.resolve();
  const timer = setInterval(() => {
    looking = looking.then(look).catch(onFatal);
  }, intervalMs).unref();
  return async () => {
    clearInterval(timer);
    await looking;
  };
}

/** The fields for the log: they identify the record, and say nothing of its object. */
function summaryOf({ number, text }: TrailEntry): object {
  const { act, outcome, actor } = parseAuditRecord(text) ?? {};
  return { audit_number: number, audit_digest: auditDigest(text), act, outcome, actor };
}
