import type { Act } from '../manifest/auditRecord.ts';

/**
 * Reserved: names of clients and organizations cannot begin with `_`, so keys cannot be issued for this one, and lists do not show its
 * jobs.
 */
export const AUDIT_CLIENT = '_audit';

/**
 * The audit trail: the acts of administrators, one record after the other. Each record is a document whose digests a job of
 * {@link AUDIT_CLIENT} seals; record and job are written in one transaction, together with the act itself if that is a write to the store.
 * `test/store/trailContract.ts` is the executable form of this contract.
 *
 * Records may be written by several processes at any time; they take turns, and numbers have no gaps.
 */
export interface TrailStore {
  /** Records an act that is not a write to the store. Returns the record's number. */
  append(act: Act): Promise<number>;

  entry(number: number): Promise<TrailEntry | undefined>;

  /** Records after that number, in their order, at most `limit`, as of now. */
  entries(after: number, limit: number): Promise<TrailEntry[]>;

  /** The number of the newest record by any process; 0 if there is none. Cheap to call. */
  newest(): Promise<number>;
}

/** The records after that number, in their order, read in pieces; including those that are written meanwhile. */
export async function* trailEntries(
  trail: Pick<TrailStore, 'entries'>,
  after = 0,
): AsyncIterable<TrailEntry> {
  for (let page = await trail.entries(after, PAGE); page.length > 0; ) {
    yield* page;
    page = await trail.entries(page.at(-1)?.number ?? 0, PAGE);
  }
}

const PAGE = 500;

/** A record, and the job that seals it. */
export interface TrailEntry {
  number: number;
  jobId: string;
  /** The document: see `manifest/auditRecord.ts`. */
  text: string;
}
