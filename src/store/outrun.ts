import { BrokenInvariant } from '../base/assert.ts';
import type { ServiceError } from '../base/errors.ts';
import { StorageFull } from './storageFull.ts';

/**
 * Jobs that conflict with jobs that another node accepted meanwhile. Nothing was written. On a node that is alone with its store this is a
 * broken invariant: there, keys are reserved and quotas counted before.
 */
export class Outrun extends BrokenInvariant {
  /** The error for the caller of each, by id. */
  readonly refused: ReadonlyMap<string, ServiceError>;

  constructor(refused: ReadonlyMap<string, ServiceError>) {
    super(Array.from(refused, ([jobId, { message }]) => `${jobId}: ${message}`).join('; '));
    this.refused = refused;
  }
}

/** The error for the caller of that job, which was not accepted; throws an error that leaves this unknown. */
export function refusalOf(error: unknown, jobId: string): ServiceError {
  if (error instanceof StorageFull) return error;
  const refusal = error instanceof Outrun ? error.refused.get(jobId) : undefined;
  if (refusal === undefined) throw error;
  return refusal;
}
