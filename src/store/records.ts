import type { Failure, Job, Outcome } from '../job/job.ts';
import { counterKey, JOB_KEY_BYTES, parseCounterKey, parseJobKey } from './keys.ts';
import type { Leaf } from './store.ts';

/**
 * How records look on disk: JSON, because it keeps every string code unit for code unit, lone surrogates included, and
 * V8 reads it faster than anything written in JavaScript.
 */
export function encodeRecord(record: unknown): Buffer {
  return Buffer.from(JSON.stringify(record));
}

export function parseRecord<T>(bytes: Uint8Array): T {
  return JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString()) as T;
}

/**
 * A job without the names of the fields every job has: there are millions, and names would be half of each. Fields
 * not listed here follow by name, in the object at the end.
 */
export function encodeJob({
  id: _id, // the key of the record
  clientId,
  organization,
  traceId,
  mode,
  visibility,
  preserveMetadata,
  source,
  document: { sha256, sha512, bytes },
  scan,
  capabilities,
  acceptedAt,
  ...others
}: Job): Buffer {
  return encodeRecord([
    [clientId, organization, traceId, mode, visibility, preserveMetadata, source],
    [sha256, sha512, bytes],
    scan,
    capabilities,
    acceptedAt,
    others,
  ]);
}

type EncodedJob = [
  [string, string, string, Job['mode'], Job['visibility'], boolean, Job['source']],
  [string, string, number],
  Job['scan'],
  Job['capabilities'],
  number,
  Pick<Job, 'purpose' | 'customerReference'>,
];

export function parseJob(key: Uint8Array, encoded: Uint8Array): Job {
  const [head, [sha256, sha512, bytes], scan, capabilities, acceptedAt, others] =
    parseRecord<EncodedJob>(encoded);
  const [clientId, organization, traceId, mode, visibility, preserveMetadata, source] = head;
  return {
    id: parseJobKey(key),
    clientId,
    organization,
    traceId,
    mode,
    visibility,
    preserveMetadata,
    source,
    document: { sha256, sha512, bytes },
    scan,
    capabilities,
    acceptedAt,
    ...others,
  };
}

const SEALED = Buffer.from('s');
const FAILED = Buffer.from('f');

export function encodeSealed(leafIndex: number): Buffer {
  return Buffer.concat([SEALED, counterKey(leafIndex)]);
}

export function encodeFailed(failure: Failure): Buffer {
  return Buffer.concat([FAILED, encodeRecord(failure)]);
}

export function parseOutcome(bytes: Uint8Array): Outcome {
  const content = bytes.subarray(1);
  return bytes[0] === SEALED[0]
    ? { kind: 'sealed', leafIndex: parseCounterKey(content) }
    : { kind: 'failed', failure: parseRecord<Failure>(content) };
}

export function encodeLeaf(job: Uint8Array, data: Uint8Array): Buffer {
  return Buffer.concat([job, data]);
}

export function parseLeaf(bytes: Uint8Array): Leaf {
  return { jobId: parseJobKey(bytes.subarray(0, JOB_KEY_BYTES)), data: bytes.subarray(JOB_KEY_BYTES) };
}
