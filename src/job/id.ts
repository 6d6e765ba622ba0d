import { newUuid } from '../base/uuid.ts';

/** A new job id: `job_` and a UUIDv7 (RFC 9562, section 5.7), so that neighbours in time are neighbours in the store. */
export function newJobId(): string {
  return `job_${newUuid()}`;
}
