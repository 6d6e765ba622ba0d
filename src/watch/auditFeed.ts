import type { Logger } from 'pino';
import { Rounds } from '../base/rounds.ts';
import { auditDigest, isAboutEpochs, parseAuditRecord } from '../manifest/auditRecord.ts';
import type { Sealer } from '../seal/sealer.ts';
import type { Store } from '../store/store.ts';
import type { TrailEntry } from '../store/trail.ts';

export interface AuditFeedOptions {
  store: Pick<Store, 'trail'>;
  sealer: Pick<Sealer, 'adopt'>;
  /** Throws if the epochs no longer agree with the records. Then nothing more may be sealed. */
  proveEpochs(): Promise<unknown>;
  /** The number of the newest record when the sealer was opened, or of an earlier one. */
  after: number;
  logger: Logger;
  /** Interval of looks for new records. Default: one second. */
  intervalMs?: number;
  /** Called if the store can no longer be read. */
  onFatal(error: unknown): void;
}

const INTERVAL_MS = 1000;
const PAGE = 100;

/**
 * Passes records that any process adds to the audit trail to the sealer, and writes a line to the daemon's log for each. Once that line was
 * forwarded to another machine, removing the record does not go unnoticed. After a round, the sealer has every record that existed when the
 * round began.
 */
export function startAuditFeed({ intervalMs = INTERVAL_MS, ...options }: AuditFeedOptions): Rounds {
  const { store, sealer, proveEpochs, logger, onFatal } = options;
  let seen = options.after;
  const look = async () => {
    while ((await store.trail.newest()) > seen) {
      for (const entry of await store.trail.entries(seen, PAGE)) {
        if (isAboutEpochs(entry.text)) await proveEpochs();
        await sealer.adopt(entry.jobId);
        logger.info(summaryOf(entry), 'the audit trail has a new record');
        seen = entry.number;
      }
    }
  };
  return new Rounds(look, intervalMs, onFatal);
}

/** The fields for the log: they identify the record, without its object. */
function summaryOf({ number, text }: TrailEntry): object {
  const { act, outcome, actor } = parseAuditRecord(text) ?? {};
  return { audit_number: number, audit_digest: auditDigest(text), act, outcome, actor };
}
