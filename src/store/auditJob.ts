import { fromUtf8, toHex } from '../base/bytes.ts';
import type { Clock } from '../base/clock.ts';
import { sha256, sha512 } from '../base/crypto.ts';
import { randomIdBytes } from '../base/random.ts';
import { newJobId } from '../job/id.ts';
import type { ReceivedJob } from '../job/job.ts';
import { type Act, auditReference, encodeAuditRecord } from '../manifest/auditRecord.ts';
import { encodeRecord, parseRecord } from './records.ts';
import { AUDIT_CLIENT, type TrailEntry } from './trail.ts';

/** The job that seals a record: a job like any other, whose document is the record itself. */
function auditJob(number: number, text: string, acceptedAt: number): ReceivedJob {
  const bytes = fromUtf8(text);
  const document = { sha256: toHex(sha256(bytes)), sha512: toHex(sha512(bytes)), bytes: bytes.length };
  return {
    id: newJobId(),
    clientId: AUDIT_CLIENT,
    organization: AUDIT_CLIENT,
    traceId: randomIdBytes(16).toString('hex'),
    mode: 'async',
    visibility: 'private',
    customerReference: auditReference(number),
    preserveMetadata: false,
    source: 'audit',
    content: { document, scan: { verdict: 'not_scanned' } },
    capabilities: [],
    acceptedAt,
  };
}

export interface TrailRecordOptions {
  environment: string;
  clock: Clock;
}

/** The record of an act that follows the newest one, as its bytes in a store, and the job that seals it. */
export function recordAfter(
  newest: TrailEntry | undefined,
  act: Act,
  { environment, clock }: TrailRecordOptions,
): { number: number; record: Buffer; job: ReceivedJob } {
  const number = (newest?.number ?? 0) + 1;
  const atMs = clock();
  const text = encodeAuditRecord(act, { number, previous: newest?.text, atMs, environment });
  const job = auditJob(number, text, atMs);
  return { number, record: encodeRecord([job.id, text]), job };
}

export function parseTrailEntry(number: number, value: Uint8Array): TrailEntry {
  const [jobId, text] = parseRecord<[string, string]>(value, `audit record ${number}`);
  return { number, jobId, text };
}
