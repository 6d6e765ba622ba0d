import type { Act } from '../manifest/auditRecord.ts';

/** No name of a client or an organization begins so: no key can be issued for it, and nobody's lists show its jobs. */
export const AUDIT_CLIENT = '_audit';

/**
 * What administrators did, one record after the other: the part of the store that keeps the audit trail. Each record is a document
 * whose digests a job of {@link AUDIT_CLIENT} has sealed; record and job are written in one transaction, together with the act itself
 * where that is a write to the store. `test/store/trailContract.ts` is the executable form of this contract.
 *
 * Records may be written by several processes at any time; they take turns, and numbers have no gaps.
 */
export interface TrailStore {
  /** Puts on record what is no write to the store. Returns the record's number. */
  append(act: Act): Promise<number>;

  entry(number: number): Promise<TrailEntry | undefined>;

  /** Records after that number, in their order, `limit` at most, as of now. */
  entries(after: number, limit: number): Promise<TrailEntry[]>;

  /** The number of the newest record, of whichever process; 0 when there is none. Cheap to ask. */
  newest(): Promise<number>;
}

/** A record, and the job that seals it. */
export interface TrailEntry {
  number: number;
  jobId: string;
  /** The document: see `manifest/auditRecord.ts`. */
  text: string;
}
