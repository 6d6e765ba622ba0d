import { fromUtf8, toHex } from '../base/bytes.ts';
import { sha256, sha512 } from '../base/crypto.ts';
import { randomIdBytes } from '../base/random.ts';
import { newJobId } from '../job/id.ts';
import type { ReceivedJob } from '../job/job.ts';
import { auditReference } from '../manifest/auditRecord.ts';
import { encodeRecord, parseRecord } from './records.ts';
import { AUDIT_CLIENT, type TrailEntry } from './trail.ts';

/** The job that seals a record: a job like any other, whose document is the record itself. */
export function auditJob(number: number, text: string, acceptedAt: number): ReceivedJob {
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

/** An entry as its bytes in a store; its key is the number. */
export function encodeTrailEntry({ jobId, text }: Omit<TrailEntry, 'number'>): Buffer {
  return encodeRecord([jobId, text]);
}

export function parseTrailEntry(number: number, value: Uint8Array): TrailEntry {
  const [jobId, text] = parseRecord<[string, string]>(value, `audit record ${number}`);
  return { number, jobId, text };
}
