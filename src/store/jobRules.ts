import { assert } from '../base/assert.ts';
import { type Content, documentSha256, isReceived, type JobRecord } from '../job/job.ts';
import { type JobQuery, maySee, type NewJob, type SealedBatch, type StoredCopy } from './store.ts';

/** Maximum number of jobs examined for one page of a list, which takes some milliseconds. */
export const CANDIDATES_MAX = 1000;

/** Leeway between the time in a job's id and its `acceptedAt`. */
export const ID_SKEW_MS = 3_600_000;

/** Throws BrokenInvariant unless the job has either its content or its source URL, and a copy if its content says so. */
export function assertAcceptable({ job, acceptance: { sourceUrl, copy } }: NewJob): void {
  const hasEither = isReceived(job) !== (sourceUrl !== undefined);
  assert(hasEither, `${job.id} must have either its content or the URL it comes from`);
  assertCopied(job.id, job.content, copy);
}

/** Throws BrokenInvariant unless the batch has its leaves, each of another job. */
export function assertWholeBatch({ firstLeaf, treeSize, leaves }: SealedBatch): void {
  assert(treeSize - firstLeaf === leaves.length, 'the batch has not as many leaves as it says');
  assert(leaves.length > 0, 'the batch is empty');
  assert(new Set(leaves.map(({ jobId }) => jobId)).size === leaves.length, 'the batch has a job twice');
}

/** Throws BrokenInvariant unless there is a copy exactly if the content says so: the manifest names its digests, or a sealed PDF begins with it. */
export function assertCopied(
  jobId: string,
  content: Content | undefined,
  copy: StoredCopy | undefined,
): void {
  const isKept = content?.sealedDocument !== undefined || content?.attachment !== undefined;
  assert(
    isKept === (copy !== undefined),
    `${jobId} must have a copy of its document and the use of it, or neither`,
  );
}

/** Every filter except the one by outcome. */
export function matches(query: JobQuery, { job }: JobRecord): boolean {
  return (
    maySee(query.viewer, job) &&
    isOrUnset(query.documentSha256, documentSha256(job)) &&
    isOrUnset(query.customerReference, job.customerReference) &&
    isOrUnset(query.purpose, job.purpose) &&
    isOrUnset(query.visibility, job.visibility) &&
    job.acceptedAt >= (query.createdFrom ?? 0) &&
    job.acceptedAt < (query.createdTo ?? Number.POSITIVE_INFINITY)
  );
}

/** Bytes in the record of every job that {@link matches}: a record is JSON, and need not be decoded to be searched. */
export function markersOf({ documentSha256, customerReference, purpose, visibility }: JobQuery): Buffer[] {
  return [documentSha256, customerReference, purpose, visibility].flatMap((value) =>
    value === undefined ? [] : [Buffer.from(JSON.stringify(value))],
  );
}

export function isOrUnset<T>(wanted: T | undefined, actual: T): boolean {
  return wanted === undefined || wanted === actual;
}
