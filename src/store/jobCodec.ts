import type { Content, DocumentDigests, Job } from '../job/job.ts';
import { encodeRecord, parseRecord } from './records.ts';

/**
 * Encodes a job without the names of the fields every job has: names would be half of each record. Fields not listed here follow by name,
 * in the object at the end.
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

/** The record of a job that counts against a quota contains these bytes. Other members cannot, since strings escape their quotes. */
export const QUOTA_NAME = Buffer.from('"quota":');

/** `id`: the key of the record. */
export function parseJob(id: string, encoded: Uint8Array): Job {
  const [head, checksumSha256, content, capabilities, acceptedAt, others] = parseRecord<EncodedJob>(
    encoded,
    id,
  );
  const [clientId, organization, traceId, mode, visibility, preserveMetadata, source] = head;
  return {
    ...others, // First, so that fields with a place of their own win: a front, which may be compromised, writes such records too.
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
type FlatContent = [
  document: FlatDigests,
  scan: Content['scan'],
  sealedDocument?: FlatDigests | null,
  attachment?: Content['attachment'],
];

function flatContent({ document, scan, sealedDocument, attachment }: Content): FlatContent {
  const flat: FlatContent = [flatDigests(document), scan];
  if (sealedDocument !== undefined) flat.push(flatDigests(sealedDocument));
  else if (attachment !== undefined) flat.push(null);
  if (attachment !== undefined) flat.push(attachment);
  return flat;
}

function contentOf([document, scan, sealedDocument, attachment]: FlatContent): Content {
  return {
    document: digestsOf(document),
    scan,
    ...(sealedDocument && { sealedDocument: digestsOf(sealedDocument) }),
    ...(attachment !== undefined && { attachment }),
  };
}

function flatDigests({ sha256, sha512, bytes }: DocumentDigests): FlatDigests {
  return [sha256, sha512, bytes];
}

function digestsOf([sha256, sha512, bytes]: FlatDigests): DocumentDigests {
  return { sha256, sha512, bytes };
}
