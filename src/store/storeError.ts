import type { QuotaWindow } from '../job/job.ts';

/** A reason why a store does not do what a request needs. */
export type StoreRefusal =
  /** The disk of the store, or of its database, lacks space for a request's write. Nothing of it was written. */
  | { code: 'disk_full' }
  /**
   * The database of a front does not answer in time. The front's write may have taken place, and no caller is informed that it did. The
   * front continues: it holds nothing that depends on it, and its next read is a barrier of its own.
   */
  | { code: 'database_away' }
  | { code: 'too_many_lists' }
  | { code: 'backlog_full' }
  /** Another job that did not fail has the idempotency key. */
  | { code: 'key_taken' }
  | { code: 'quota_used_up'; quota: QuotaWindow };

const MESSAGES: Record<StoreRefusal['code'], string> = {
  disk_full: 'the disk of the store is full',
  database_away: 'the database does not answer in time',
  too_many_lists: 'the database is too busy to list the jobs',
  backlog_full: 'as many messages wait for the endpoint as are kept',
  key_taken: 'another job has the Idempotency-Key',
  quota_used_up: 'the quota is used up',
};

/** An expected refusal by a store. `storeAnswers.ts` has the words for callers. */
export class StoreError extends Error {
  readonly code: StoreRefusal['code'];
  readonly refusal: StoreRefusal;

  constructor(refusal: StoreRefusal, cause?: unknown) {
    super(MESSAGES[refusal.code], cause === undefined ? undefined : { cause });
    this.name = 'StoreError';
    this.code = refusal.code;
    this.refusal = refusal;
  }
}

/** Jobs that conflict with jobs that another node accepted meanwhile: by id, with the refusal of each. */
export type JobConflicts = ReadonlyMap<string, StoreError>;

export function isRefusedAs(code: StoreRefusal['code'], error: unknown): error is StoreError {
  return error instanceof StoreError && error.code === code;
}
