import { assert } from '../../base/assert.ts';
import { bytesEqual } from '../../base/bytes.ts';
import { sha256 } from '../../base/crypto.ts';
import type { Content, DocumentDigests, Failure, Job, Outcome } from '../../job/job.ts';
import type { Leaf } from '../store.ts';
import { counterKey, JOB_KEY_BYTES, parseCounterKey, parseJobKey } from './keyLayout.ts';

/** Enough to notice damage. It is no seal: whoever can write to the store can make a new one. */
const CHECKSUM_BYTES = 8;

/**
 * A record on disk: a checksum, which is the first 8 bytes of SHA-256 over the rest; then JSON, because JSON keeps every string code unit
 * for code unit, lone surrogates included, and V8 reads it faster than anything written in JavaScript.
 *
 * LMDB has no checksums of its own, and a manifest does not cover all of a record: it does not tell who made the job.
 */
export function encodeRecord(record: unknown): Buffer {
  const json = Buffer.from(JSON.stringify(record));
  return Buffer.concat([checksumOf(json), json]);
}

/** Throws BrokenInvariant when these are not the bytes that were written; `what` names them. */
export function parseRecord<T>(bytes: Uint8Array, what = 'a record'): T {
  const json = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).subarray(CHECKSUM_BYTES);
  const isWhole = bytesEqual(checksumOf(json), bytes.subarray(0, CHECKSUM_BYTES));
  assert(isWhole, `${what} in the store is damaged: its checksum is wrong`);
  return JSON.parse(json.toString()) as T;
}

function checksumOf(json: Uint8Array): Uint8Array {
  return sha256(json).subarray(0, CHECKSUM_BYTES);
}

/**
 * A job without the names of the fields every job has: names would be half of each record. Fields not listed here follow by name, in the
 * object at the end.
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
  checksumSha256,
  content,
  capabilities,
  acceptedAt,
  ...others
}: Job): Buffer {
  return encodeRecord([
    [clientId, organization, traceId, mode, visibility, preserveMetadata, source],
    checksumSha256 ?? null,
    content === undefined ? null : flatContent(content),
    capabilities,
    acceptedAt,
    others,
  ]);
}

type EncodedJob = [
  [string, string, string, Job['mode'], Job['visibility'], boolean, Job['source']],
  string | null,
  FlatContent | null,
  Job['capabilities'],
  number,
  Pick<Job, 'purpose' | 'customerReference' | 'quota'>,
];

export function parseJob(key: Uint8Array, encoded: Uint8Array): Job {
  const id = parseJobKey(key);
  const [head, checksumSha256, content, capabilities, acceptedAt, others] = parseRecord<EncodedJob>(
    encoded,
    id,
  );
  const [clientId, organization, traceId, mode, visibility, preserveMetadata, source] = head;
  return {
    id,
    clientId,
    organization,
    traceId,
    mode,
    visibility,
    preserveMetadata,
    source,
    ...(checksumSha256 !== null && { checksumSha256 }),
    ...(content !== null && { content: contentOf(content) }),
    capabilities,
    acceptedAt,
    ...others,
  };
}

/** The content of a `url` job has a record of its own: it comes later, and the record of a job never changes. */
export function encodeContent(content: Content): Buffer {
  return encodeRecord(flatContent(content));
}

export function parseContent(bytes: Uint8Array): Content {
  return contentOf(parseRecord<FlatContent>(bytes));
}

type FlatDigests = [sha256: string, sha512: string, bytes: number];
type FlatContent = [document: FlatDigests, scan: Content['scan'], sealedDocument?: FlatDigests];

function flatContent({ document, scan, sealedDocument }: Content): FlatContent {
  const flat: FlatContent = [flatDigests(document), scan];
  if (sealedDocument !== undefined) flat.push(flatDigests(sealedDocument));
  return flat;
}

function contentOf([document, scan, sealedDocument]: FlatContent): Content {
  return {
    document: digestsOf(document),
    scan,
    ...(sealedDocument !== undefined && { sealedDocument: digestsOf(sealedDocument) }),
  };
}

function flatDigests({ sha256, sha512, bytes }: DocumentDigests): FlatDigests {
  return [sha256, sha512, bytes];
}

function digestsOf([sha256, sha512, bytes]: FlatDigests): DocumentDigests {
  return { sha256, sha512, bytes };
}

const SEALED = Buffer.from('s');
const FAILED = Buffer.from('f');
/** Failed, and counts against no quota: so earlier versions ended blocking creates. */
const RELEASED = Buffer.from('r');

export function encodeSealed(leafIndex: number): Buffer {
  return Buffer.concat([SEALED, counterKey(leafIndex)]);
}

export function encodeFailed(failure: Failure): Buffer {
  return Buffer.concat([FAILED, encodeRecord(failure)]);
}

/** Whether these are the bytes of an outcome whose job counts against no quota. */
export function isReleased(bytes: Uint8Array): boolean {
  return bytes[0] === RELEASED[0];
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
