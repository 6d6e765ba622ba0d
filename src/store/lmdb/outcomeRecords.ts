import type { Failure, Outcome } from '../../job/job.ts';
import { encodeRecord, parseRecord } from '../records.ts';
import type { Leaf } from '../store.ts';
import { counterKey, JOB_KEY_BYTES, parseCounterKey, parseJobKey } from './keyLayout.ts';

const SEALED = Buffer.from('s');
export const FAILED = Buffer.from('f');

export function encodeSealed(leafIndex: number): Buffer {
  return Buffer.concat([SEALED, counterKey(leafIndex)]);
}

export function encodeFailed(failure: Failure): Buffer {
  return Buffer.concat([FAILED, encodeRecord(failure)]);
}

export function outcomeKind(bytes: Uint8Array): Outcome['kind'] {
  return bytes[0] === SEALED[0] ? 'sealed' : 'failed';
}

export function parseOutcome(bytes: Uint8Array): Outcome {
  return outcomeKind(bytes) === 'sealed'
    ? { kind: 'sealed', leafIndex: parseCounterKey(bytes, 1) }
    : { kind: 'failed', failure: parseRecord<Failure>(bytes.subarray(1)) };
}

export function encodeLeaf(job: Uint8Array, data: Uint8Array): Buffer {
  return Buffer.concat([job, data]);
}

export function parseLeaf(bytes: Uint8Array): Leaf {
  return { jobId: parseJobKey(bytes.subarray(0, JOB_KEY_BYTES)), data: bytes.subarray(JOB_KEY_BYTES) };
}
