import * as z from 'zod';
import { MalformedDer } from '../asn1/der.ts';
import { parseAuthorityList, type RevocationList } from '../asn1/revocationList.ts';
import { fromBase64, toBase64 } from '../base/bytes.ts';
import { digestWithout } from './jcs.ts';
import { describeIssue, extraKeys, quote, type Unread } from './received.ts';

export const BUNDLE_SCHEMA = 'pdfseal-bundle/1';

/** Length of the longest bundle that is read, in UTF-16 code units, and in bytes. The longest evidence record takes three quarters of it. */
export const BUNDLE_LENGTH_MAX = 8_388_608;

/** More than any bundle has. The limit bounds the work for a hostile bundle. */
const LISTS_MAX = 16;

/** A receipt and what was added to its evidence since: each part also stands alone in a file of its own. */
export interface Bundle<R = unknown> {
  receipt: R;
  /** A C2SP tlog-proof without `extra`: the leaf of the receipt is under a checkpoint that witnesses have cosigned. */
  tlogProof: string;
  /** The time-stamp of the receipt with all its renewals (RFC 4998), in DER; absent if the receipt has no time-stamp. */
  evidenceRecord?: Uint8Array;
  /** Certificate revocation lists of time-stamp authorities (RFC 5280). */
  revocationLists: readonly RevocationList[];
}

const base64 = z.string().transform((text, context) => {
  const bytes = fromBase64(text);
  if (bytes !== undefined) return bytes;
  context.addIssue({ code: 'custom', message: 'is not Base64' });
  return z.NEVER;
});

const revocationList = base64.transform((der, context) => {
  try {
    return parseAuthorityList(der);
  } catch (error) {
    if (!(error instanceof MalformedDer)) throw error;
    context.addIssue({ code: 'custom', message: error.message });
    return z.NEVER;
  }
});

const bundleSchema = z.object({
  schema: z.literal(BUNDLE_SCHEMA),
  bundle_sha512: z.string(),
  receipt: z.unknown(),
  tlog_proof: z.string(),
  evidence_record: base64.exactOptional(),
  revocation_lists: z.array(revocationList).max(LISTS_MAX).exactOptional(),
});

export type ParsedBundle =
  | { kind: 'bundle'; bundle: Bundle; isIntact: boolean; unknownMembers: string[] }
  | Unread;

/** A bundle as it is written. */
export type WrittenBundle = Omit<z.input<typeof bundleSchema>, 'receipt'> & { receipt: object };

/** Builds the bundle; its members have the order of the file. */
export function assembleBundle(parts: Bundle<object>): WrittenBundle {
  const { receipt, tlogProof, evidenceRecord, revocationLists } = parts;
  const bundle: WrittenBundle = {
    schema: BUNDLE_SCHEMA,
    bundle_sha512: '',
    receipt,
    tlog_proof: tlogProof,
    ...(evidenceRecord && { evidence_record: toBase64(evidenceRecord) }),
    ...(revocationLists.length > 0 && { revocation_lists: revocationLists.map(({ der }) => toBase64(der)) }),
  };
  bundle.bundle_sha512 = bundleDigest(bundle);
  return bundle;
}

/** The text of a bundle: indented for people. The same parts have the same text. */
export function encodeBundle(bundle: WrittenBundle): string {
  return `${JSON.stringify(bundle, undefined, 2)}\n`;
}

/** `bundle_sha512`. Throws when the bundle has no canonical form. */
export function bundleDigest(bundle: object): string {
  return digestWithout('bundle_sha512', bundle);
}

/**
 * Reads a bundle from an untrusted source; undefined for what does not say of itself that it is one. Any value that `snapshot` or a parser
 * of JSON made is safe.
 */
export function parseBundle(value: unknown): ParsedBundle | undefined {
  if (!isBundle(value)) return undefined;
  if (value.schema !== BUNDLE_SCHEMA) return { kind: 'newer', detail: `schema ${quote(value.schema)}` };
  const shape = bundleSchema.safeParse(value);
  if (!shape.success) return { kind: 'malformed', detail: describeIssue(shape.error, 'bundle') };
  const { receipt, tlog_proof, evidence_record, revocation_lists = [] } = shape.data;
  return {
    kind: 'bundle',
    bundle: {
      receipt,
      tlogProof: tlog_proof,
      ...(evidence_record && { evidenceRecord: evidence_record }),
      revocationLists: revocation_lists,
    },
    isIntact: isIntact(value, shape.data.bundle_sha512),
    unknownMembers: extraKeys(value, shape.data, ''),
  };
}

/** Whether a value says of itself that it is a bundle, of this version or another. */
export function isBundle(value: unknown): value is { schema: string } {
  if (typeof value !== 'object' || value === null || !('schema' in value)) return false;
  return typeof value.schema === 'string' && value.schema.startsWith('pdfseal-bundle/');
}

function isIntact(bundle: object, digest: string): boolean {
  try {
    return bundleDigest(bundle) === digest;
  } catch {
    return false;
  }
}
