import * as z from 'zod';
import { toHex } from '../base/bytes.ts';
import { sha256 } from '../base/crypto.ts';
import { ServiceError } from '../base/errors.ts';
import {
  duplicateField,
  type FieldName,
  type FieldValues,
  fieldSchemas,
  invalidField,
  missingField,
  parseField,
  unknownField,
} from './fieldValues.ts';
import type { DocumentDigests, JobMode, SealedPdfForm, Visibility } from './job.ts';

/** The request of a create: every field is parsed and within its bounds (sections 2.3 and 2.4 of the contract). */
export interface CreateRequest {
  visibility: Visibility;
  mode: JobMode;
  preserveMetadata: boolean;
  /** Absent if no sealed PDF is wanted. */
  sealedPdf?: SealedPdfForm;
  purpose?: string;
  customerReference?: string;
  /** The declared fingerprint, lower-case hex. */
  checksumSha256?: string;
}

/** A create by reference: both fields are required. */
export interface JsonCreateRequest extends CreateRequest {
  sourceUrl: string;
  checksumSha256: string;
}

/** A create by digests: the document stays with the caller. */
export interface DigestCreateRequest extends CreateRequest {
  document: DocumentDigests;
}

/** One of many creates by digests in one request. Its members replace the headers of a single create. */
export interface BulkLine {
  request: DigestCreateRequest;
  idempotencyKey?: string;
  /** Whether the answer must contain the receipt. */
  receipt: boolean;
}

const common = {
  visibility: fieldSchemas.visibility,
  mode: fieldSchemas.mode.default('async'),
  purpose: fieldSchemas.purpose.optional(),
  customer_reference: fieldSchemas.customer_reference.optional(),
};
const ofDocument = {
  ...common,
  preserve_metadata: fieldSchemas.preserve_metadata.default(false),
  sealed_pdf: fieldSchemas.sealed_pdf.default('none'),
  checksum_sha256: fieldSchemas.checksum_sha256.optional(),
};
/** The service never receives this document, so it can make neither a copy nor a sealed PDF. */
const ofDigests = {
  ...common,
  document_sha256: fieldSchemas.document_sha256,
  document_sha512: fieldSchemas.document_sha512,
  bytes: fieldSchemas.bytes,
};

/** The fields of each form of a create. The key is the name of the form in `openapi.json`. */
export const CREATE_FORMS = {
  CreateByQuery: z.strictObject(ofDocument),
  // Generated clients send the fields in this order, and `file` must follow `sealed_pdf`.
  CreateByUpload: z.strictObject({
    ...ofDocument,
    file: z.string().meta({ format: 'binary', contentMediaType: 'application/pdf' }),
  }),
  CreateBySource: z
    .strictObject({
      ...ofDocument,
      checksum_sha256: fieldSchemas.checksum_sha256,
      source_url: fieldSchemas.source_url,
    })
    .describe(
      'A hosted document. The administrator must allow its origin; otherwise the error is `source_not_allowed`. The service sends HEAD to the server before it accepts the job, and fetches the document afterwards.',
    ),
  CreateByDigest: z
    .strictObject(ofDigests)
    .describe(
      'The document stays with the caller. Its receipt says `source: "digest"` and `scan.verdict: "not_scanned"`; the service makes no copy without metadata.',
    ),
  BatchLine: z.strictObject({
    ...ofDigests,
    idempotency_key: fieldSchemas.idempotency_key.optional(),
    receipt: fieldSchemas.receipt.default(false),
  }),
};

/** Collects the text fields of a multipart form as they arrive. */
export class FormFields {
  readonly #values: FieldValues = {};
  readonly #onPurpose: ((purpose: string) => void) | undefined;

  /** Calls `onPurpose` as soon as the purpose is known; `onPurpose` may throw to refuse it. */
  constructor(onPurpose?: (purpose: string) => void) {
    this.#onPurpose = onPurpose;
  }

  /** Call this before the value is known. Throws ServiceError for an unknown name and for a repeated name. */
  expect(name: string): asserts name is FieldName {
    requireNew(this.#values, name, CREATE_FORMS.CreateByUpload, 'source_url');
  }

  /** Throws the errors of {@link expect}, and ServiceError for a value out of bounds. */
  add(name: string, text: string): void {
    this.expect(name);
    setText(this.#values, name, text);
    if (name === 'purpose') this.#onPurpose?.(text);
  }

  /** Set if `source_url` came as a field, which this form does not support. */
  get sourceUrl(): string | undefined {
    return this.#values.source_url;
  }

  /** Undefined until the field has arrived. */
  get preserveMetadata(): boolean | undefined {
    return this.#values.preserve_metadata;
  }

  /** Undefined until the field has arrived. */
  get sealedPdf(): SealedPdfForm | undefined {
    return formOf(this.#values);
  }

  /** Call this after the last field. Throws ServiceError `missing_parameter`. */
  finish(): CreateRequest {
    return requestOf(this.#values);
  }
}

/**
 * Parses the query of a create whose body is the document. The rules are as strict as for form fields: unreadable bytes are refused, not
 * replaced. Throws ServiceError.
 */
export function parseQueryCreate(querystring: string): CreateRequest {
  if (!isPercentEncoded(querystring)) {
    const message = 'The query must be percent-encoded UTF-8, as encodeURIComponent produces it.';
    throw new ServiceError('invalid_request', message);
  }
  const values: FieldValues = {};
  for (const [name, text] of new URLSearchParams(querystring)) {
    requireNew(values, name, CREATE_FORMS.CreateByQuery);
    setText(values, name, text);
  }
  return requestOf(values);
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

/** Parses a complete create by reference in JSON. Throws ServiceError. */
export function parseJsonCreate(body: unknown): JsonCreateRequest {
  const values = valuesOf(body, CREATE_FORMS.CreateBySource);
  const sourceUrl = values.source_url ?? missing('source_url');
  const checksumSha256 = values.checksum_sha256 ?? missing('checksum_sha256');
  return { ...requestOf(values), sourceUrl, checksumSha256 };
}

/** Parses a complete create by digests. Throws ServiceError. */
export function parseDigestCreate(body: unknown): DigestCreateRequest {
  return digestRequestOf(valuesOf(body, CREATE_FORMS.CreateByDigest));
}

/** Parses one of many creates by digests. Throws ServiceError. */
export function parseBulkLine(line: unknown): BulkLine {
  const values = valuesOf(line, CREATE_FORMS.BatchLine);
  const request = digestRequestOf(values);
  if (values.receipt && request.mode === 'async')
    throw invalidField(
      'receipt',
      'requires the mode blocking: other modes answer before the receipt exists.',
    );
  return {
    request,
    idempotencyKey: values.idempotency_key,
    receipt: values.receipt ?? false,
  };
}

function valuesOf(body: unknown, form: z.ZodObject): FieldValues {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw new ServiceError(
      'malformed_json',
      'The JSON must be an object with the fields of the create request.',
    );
  }
  const values: FieldValues = {};
  for (const [name, value] of Object.entries(body)) {
    requireNew(values, name, form);
    set(values, name, value);
  }
  return values;
}

/**
 * Identifies equal creates: SHA-256, lower-case hex, over the parsed fields and the document's digest in canonical JSON (fixed order,
 * absent fields left out). The raw body does not identify a create, because multipart boundaries change.
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
    sealed_pdf: request.sealedPdf,
    source_url: 'sourceUrl' in request ? request.sourceUrl : undefined,
    visibility: request.visibility,
  });
  return toHex(sha256(Buffer.from(canonical)));
}

function requestOf(values: FieldValues): CreateRequest {
  return {
    visibility: values.visibility ?? missing('visibility'),
    mode: values.mode ?? 'async',
    preserveMetadata: values.preserve_metadata ?? false,
    sealedPdf: formOf(values),
    purpose: values.purpose,
    customerReference: values.customer_reference,
    checksumSha256: values.checksum_sha256,
  };
}

function formOf({ sealed_pdf: form }: FieldValues): SealedPdfForm | undefined {
  return form === 'none' ? undefined : form;
}

/** The service cannot remove metadata from a document that it does not have. */
function digestRequestOf(values: FieldValues): DigestCreateRequest {
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

/** Converts `true` and `false` of a form to booleans. Other text stays unchanged, and is rejected for a boolean field. */
function setText(values: FieldValues, name: FieldName, text: string): void {
  const isBoolean = name === 'preserve_metadata' && (text === 'true' || text === 'false');
  set(values, name, isBoolean ? text === 'true' : text);
}

function set(values: Record<string, unknown>, name: FieldName, value: unknown): void {
  values[name] = parseField(name, value);
}

/** The error names the fields of the form; `alsoTaken` is an additional accepted field. */
function requireNew(
  values: FieldValues,
  name: string,
  { shape }: z.ZodObject,
  alsoTaken?: FieldName,
): asserts name is FieldName {
  const isTaken = name === alsoTaken || (name !== 'file' && Object.hasOwn(shape, name));
  if (!isTaken) throw unknownField(name, Object.keys(shape));
  if (values[name as FieldName] !== undefined) throw duplicateField(name);
}

function missing(name: FieldName): never {
  throw missingField(name);
}
