import { toHex } from '../base/bytes.ts';
import { sha256 } from '../base/crypto.ts';
import { ServiceError } from '../base/errors.ts';
import { booleanOf, duplicateField, fault, invalidField, parsers, quote, shorten } from './fieldValues.ts';
import type { DocumentDigests, JobMode, Visibility } from './job.ts';

/** What a create asks for, every field parsed and within its bounds (sections 2.3 and 2.4 of the contract). */
export interface CreateRequest {
  visibility: Visibility;
  mode: JobMode;
  preserveMetadata: boolean;
  purpose?: string;
  customerReference?: string;
  /** The declared fingerprint, lower-case hex. */
  checksumSha256?: string;
}

/** A create by reference: both fields are required there. */
export interface JsonCreateRequest extends CreateRequest {
  sourceUrl: string;
  checksumSha256: string;
}

/** A create for a document that stays with the caller. */
export interface DigestCreateRequest extends CreateRequest {
  document: DocumentDigests;
}

/** A line of a batch: a create by digests, with what is a header elsewhere. */
export interface BatchLine {
  request: DigestCreateRequest;
  idempotencyKey?: string;
  /** Whether the answer is to carry the receipt. */
  receipt: boolean;
}

type FieldName = keyof typeof parsers;
const COMMON_NAMES = ['visibility', 'mode', 'purpose', 'customer_reference'] as const;
const DOCUMENT_NAMES = [...COMMON_NAMES, 'preserve_metadata', 'checksum_sha256'] as const;
const MULTIPART_NAMES = ['file', ...DOCUMENT_NAMES];
const SOURCE_NAMES = [...DOCUMENT_NAMES, 'source_url'];
/** Of a document that is never here no copy can be made, with metadata or without. */
const DIGEST_NAMES = [...COMMON_NAMES, 'document_sha256', 'document_sha512', 'bytes'];
const LINE_NAMES = [...DIGEST_NAMES, 'idempotency_key', 'receipt'];

type Values = { [Name in FieldName]?: ReturnType<(typeof parsers)[Name]> };

/** Collects the text fields of a multipart create as they arrive. */
export class CreateFields {
  readonly #values: Values = {};
  readonly #onPurpose: ((purpose: string) => void) | undefined;

  /** `onPurpose` is told as soon as the purpose is known, and may throw to refuse it. */
  constructor(onPurpose?: (purpose: string) => void) {
    this.#onPurpose = onPurpose;
  }

  /** Throws what {@link add} would throw for the name alone, before its value is known. */
  expect(name: string): void {
    this.#requireNew(name);
  }

  /** Throws ServiceError at once for an unknown name, a repeated one, or a value out of bounds. */
  add(name: string, text: string): void {
    this.#requireNew(name);
    set(this.#values, name, name === 'preserve_metadata' ? booleanOf(text) : text);
    if (name === 'purpose') this.#onPurpose?.(text);
  }

  /** Set when `source_url` came as a field. The multipart form has no place for it (decisions, section 1). */
  get sourceUrl(): string | undefined {
    return this.#values.source_url;
  }

  /** Undefined while it has not come. */
  get preserveMetadata(): boolean | undefined {
    return this.#values.preserve_metadata;
  }

  /** After the last field; throws ServiceError `missing_parameter`. */
  finish(): CreateRequest {
    return requestOf(this.#values);
  }

  /** A source_url has no place here, but is told so by {@link sourceUrl}'s reader. */
  #requireNew(name: string): asserts name is FieldName {
    requireNew(this.#values, name, MULTIPART_NAMES, [...DOCUMENT_NAMES, 'source_url']);
  }
}

/** Parses the query of a create whose body is the document; throws ServiceError. */
export function parseQueryCreate(querystring: string): CreateRequest {
  const values: Values = {};
  for (const [name, text] of pairsOf(querystring)) {
    requireNew(values, name, DOCUMENT_NAMES);
    set(values, name, name === 'preserve_metadata' ? booleanOf(text) : text);
  }
  return requestOf(values);
}

/** Names and values of a query. Taken no more leniently than fields of a form: what cannot be read is refused, not replaced. */
function pairsOf(querystring: string): URLSearchParams {
  if (!isPercentEncoded(querystring)) {
    const message = 'The query must be percent-encoded UTF-8, as encodeURIComponent makes it.';
    throw new ServiceError('invalid_request', message);
  }
  return new URLSearchParams(querystring);
}

function isPercentEncoded(querystring: string): boolean {
  if (!/^[\x21-\x7e]*$/.test(querystring)) return false;
  try {
    decodeURIComponent(querystring);
    return true;
  } catch {
    return false;
  }
}

/** Parses a JSON create by reference whole; throws ServiceError. */
export function parseJsonCreate(body: unknown): JsonCreateRequest {
  const values = valuesOf(body, SOURCE_NAMES);
  const sourceUrl = values.source_url ?? missing('source_url');
  const checksumSha256 = values.checksum_sha256 ?? missing('checksum_sha256');
  return { ...requestOf(values), sourceUrl, checksumSha256 };
}

/** Parses a create by digests whole; throws ServiceError. */
export function parseDigestCreate(body: unknown): DigestCreateRequest {
  return digestRequestOf(valuesOf(body, DIGEST_NAMES));
}

/** Parses what is in a line of a batch; throws ServiceError. */
export function parseBatchLine(line: unknown): BatchLine {
  const values = valuesOf(line, LINE_NAMES);
  const request = digestRequestOf(values);
  if (values.receipt && request.mode === 'async')
    throw invalidField('receipt', 'needs the mode blocking: another job has none yet when it is answered.');
  return {
    request,
    ...(values.idempotency_key !== undefined && { idempotencyKey: values.idempotency_key }),
    receipt: values.receipt ?? false,
  };
}

function valuesOf(body: unknown, names: readonly string[]): Values {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw new ServiceError(
      'malformed_json',
      'The JSON must be an object with the fields of the create request.',
    );
  }
  const values: Values = {};
  for (const [name, value] of Object.entries(body)) {
    requireNew(values, name, names);
    set(values, name, value);
  }
  return values;
}

/**
 * Tells whether two creates are the same request: SHA-256, lower-case hex, over the parsed fields and the document's
 * digest in canonical JSON (fixed order, absent fields left out). The raw body will not do: multipart boundaries change.
 */
export function fingerprint(
  request: CreateRequest | JsonCreateRequest | DigestCreateRequest,
  documentSha256: string,
): string {
  const canonical = JSON.stringify({
    bytes: 'document' in request ? request.document.bytes : undefined,
    checksum_sha256: request.checksumSha256,
    customer_reference: request.customerReference,
    document_sha256: documentSha256,
    document_sha512: 'document' in request ? request.document.sha512 : undefined,
    mode: request.mode,
    preserve_metadata: request.preserveMetadata,
    purpose: request.purpose,
    source_url: 'sourceUrl' in request ? request.sourceUrl : undefined,
    visibility: request.visibility,
  });
  return toHex(sha256(Buffer.from(canonical)));
}

function requestOf(values: Values): CreateRequest {
  return {
    visibility: values.visibility ?? missing('visibility'),
    mode: values.mode ?? 'async',
    preserveMetadata: values.preserve_metadata ?? false,
    ...(values.purpose !== undefined && { purpose: values.purpose }),
    ...(values.customer_reference !== undefined && { customerReference: values.customer_reference }),
    ...(values.checksum_sha256 !== undefined && { checksumSha256: values.checksum_sha256 }),
  };
}

/** A document that is not here has nothing removed from it. */
function digestRequestOf(values: Values): DigestCreateRequest {
  return {
    ...requestOf(values),
    preserveMetadata: true,
    document: {
      sha256: values.document_sha256 ?? missing('document_sha256'),
      sha512: values.document_sha512 ?? missing('document_sha512'),
      bytes: values.bytes ?? missing('bytes'),
    },
  };
}

function set(values: Values, name: FieldName, value: unknown): void {
  Object.assign(values, { [name]: parsers[name](name, value) });
}

/** `names` are shown to the caller, `accepted` are those that have a place among the values. */
function requireNew(
  values: Values,
  name: string,
  names: readonly string[],
  accepted = names,
): asserts name is FieldName {
  if (!isFieldName(name) || !accepted.includes(name)) throw unknownField(name, names);
  if (values[name] !== undefined) throw duplicateField(name);
}

function isFieldName(name: string): name is FieldName {
  return Object.hasOwn(parsers, name);
}

function unknownField(name: string, names: readonly string[]): ServiceError {
  const message = `${quote(name)} is not a field of this request. Remove it, or correct it to one of: ${names.join(', ')}.`;
  return new ServiceError('unknown_parameter', message, { parameter: shorten(name) });
}

function missing(name: FieldName): never {
  throw fault('missing_parameter', name, 'is required. Add it.');
}
