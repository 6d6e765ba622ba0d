import * as z from 'zod';
import { MANIFEST_SCHEMA } from './manifest.ts';
import { isReceiptAlgorithm, receiptDigest } from './receipt.ts';

const hex = (bytes: number) =>
  z
    .string()
    .length(bytes * 2)
    .regex(/^[0-9a-f]*$/);
const count = z.int().min(0);
const timestamp = z.iso.datetime({ precision: 3 });

/** More than any receipt has. The limits bound the work for a hostile receipt. */
const TIMESTAMPS_MAX = 4;
const CERTIFICATES_MAX = 32;

const digests = z.looseObject({ sha256: hex(32), sha512: hex(64), bytes: count });

/** The members of a manifest that verification reads. Others are allowed: only the service can write a sealed manifest. */
const manifestSchema = z.looseObject({
  schema: z.literal(MANIFEST_SCHEMA),
  job_id: z.string(),
  environment: z.string(),
  source: z.string(),
  document: digests,
  sealed_document: digests.exactOptional(),
  customer_reference: z.string().exactOptional(),
  sealed_at: timestamp,
});

const receiptSchema = z.object({
  job_id: z.string(),
  algorithm: z.string(),
  document_sha256: hex(32),
  receipt_sha512: hex(64),
  kms_key_id: z.string(),
  sealed_at: timestamp,
  customer_reference: z.string().exactOptional(),
  manifest: manifestSchema,
  evidence: z.object({
    log_origin: z.string(),
    leaf_index: count,
    tree_size: count,
    inclusion_proof: z.array(z.string().length(44)).max(63),
    checkpoint: z.string(),
    timestamps: z.array(z.object({ type: z.literal('rfc3161'), token: z.string() })).max(TIMESTAMPS_MAX),
    certificates: z.array(z.string()).max(CERTIFICATES_MAX),
  }),
});

/** The members that a receipt of any version must have to identify its version. */
const versionSchema = z.looseObject({
  algorithm: z.string(),
  manifest: z.looseObject({ schema: z.string() }),
});

/** A received manifest. Only its shape is checked. */
export type ReceivedManifest = z.infer<typeof manifestSchema>;

/** A received receipt. Only its shape is checked. */
export type ReceivedReceipt = z.infer<typeof receiptSchema>;

/** Why a file cannot be read: it is malformed, or of a later version. */
export interface Unread {
  kind: 'malformed' | 'newer';
  detail: string;
}

export type ParsedReceipt =
  | { kind: 'receipt'; receipt: ReceivedReceipt; isIntact: boolean; unknownMembers: string[] }
  | Unread;

/** Reads a receipt from an untrusted source. Any input is safe. */
export function parseReceipt(received: unknown): ParsedReceipt {
  return openReceipt(snapshot(received));
}

/** As {@link parseReceipt}, for a value that {@link snapshot} or a parser of JSON made. */
export function openReceipt(value: unknown): ParsedReceipt {
  const version = versionSchema.safeParse(value);
  if (!version.success) return { kind: 'malformed', detail: describeIssue(version.error, 'receipt') };
  const { algorithm, manifest } = version.data;
  if (!isReceiptAlgorithm(algorithm)) return { kind: 'newer', detail: `algorithm ${quote(algorithm)}` };
  if (manifest.schema !== MANIFEST_SCHEMA)
    return { kind: 'newer', detail: `schema ${quote(manifest.schema)}` };

  const shape = receiptSchema.safeParse(value);
  if (!shape.success) return { kind: 'malformed', detail: describeIssue(shape.error, 'receipt') };
  // Leaf and digest cover the received value, and not the output of the schema.
  const receipt = value as ReceivedReceipt;
  let digest: string;
  try {
    digest = receiptDigest(receipt);
  } catch {
    return { kind: 'malformed', detail: 'it has no canonical form (RFC 8785)' };
  }
  const { evidence } = shape.data;
  const unknownMembers = [
    ...extraKeys(receipt, shape.data, ''),
    ...extraKeys(receipt.evidence, evidence, 'evidence.'),
    ...receipt.evidence.timestamps.flatMap((token, i) =>
      extraKeys(token, evidence.timestamps[i] ?? {}, `timestamps[${i}].`),
    ),
  ];
  return { kind: 'receipt', receipt, isIntact: digest === receipt.receipt_sha512, unknownMembers };
}

/** A manifest from an untrusted source, with all its members; undefined if it lacks a member that verification reads. */
export function parseManifest(value: unknown): ReceivedManifest | undefined {
  return manifestSchema.safeParse(value).success ? (value as ReceivedManifest) : undefined;
}

/** Untrusted text in a printable form: quoted, shortened, on one line, with control and formatting characters escaped. */
export function quote(text: string): string {
  return escaped(JSON.stringify(shortened(text, 80)));
}

/** Like {@link quote} but without the quotes, for a sentence that contains untrusted text. */
export function printable(sentence: string): string {
  return escaped(shortened(sentence, 300));
}

function shortened(text: string, charsMax: number): string {
  return text.length > charsMax ? `${text.slice(0, charsMax - 1)}…` : text;
}

function escaped(text: string): string {
  return text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (c) => `\\u{${c.codePointAt(0)?.toString(16)}}`);
}

/** A plain copy of the data. An object with getters, or a proxy, could throw or give each check a different value. */
export function snapshot(value: unknown): unknown {
  try {
    return structuredClone(value);
  } catch {
    return undefined;
  }
}

/** The members that this program does not know, quoted, each with `prefix` before its name. */
export function extraKeys(received: object, known: object, prefix: string): string[] {
  return Object.keys(received)
    .filter((key) => !Object.hasOwn(known, key))
    .map((key) => quote(prefix + key));
}

/** The first thing that is wrong with a value that should be such a `subject`. */
export function describeIssue(error: z.ZodError, subject: string): string {
  const [issue] = error.issues;
  return issue === undefined ? 'malformed' : `${issue.path.join('.') || subject}: ${issue.message}`;
}
