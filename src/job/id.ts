import { newUuid } from '../base/uuid.ts';

/** Form of an `Idempotency-Key` (decisions, section 1). */
export const IDEMPOTENCY_KEY_PATTERN = /^[\x21-\x7e]{8,128}$/;

const TIME_HEX = /^job_([0-9a-f]{12})/;

/** When a job id was created, milliseconds since the epoch; undefined if the text is not a job id. */
export function jobIdTime(jobId: string): number | undefined {
  const [, hex] = TIME_HEX.exec(jobId) ?? [];
  return hex === undefined ? undefined : Number.parseInt(hex, 16);
}

/** A new job id: `job_` and a UUIDv7 (RFC 9562, section 5.7). Jobs that are close in time are thus close in the store. */
export function newJobId(): string {
  return `job_${newUuid()}`;
}
