import { newUuid } from '../base/uuid.ts';

/** Of an `Idempotency-Key` (decisions, section 1). */
export const IDEMPOTENCY_KEY_PATTERN = /^[\x21-\x7e]{8,128}$/;

const TIME_HEX = /^job_([0-9a-f]{12})/;

/** When a job id was made, milliseconds since the epoch; undefined for what is none. */
export function jobIdTime(jobId: string): number | undefined {
  const [, hex] = TIME_HEX.exec(jobId) ?? [];
  return hex === undefined ? undefined : Number.parseInt(hex, 16);
}

/** A new job id: `job_` and a UUIDv7 (RFC 9562, section 5.7), so that neighbours in time are neighbours in the store. */
export function newJobId(): string {
  return `job_${newUuid()}`;
}
