import * as z from 'zod';
import { type ErrorCode, ServiceError } from '../base/errors.ts';
import { IDEMPOTENCY_KEY_PATTERN } from './id.ts';
import { JOB_ID_PATTERN, JOB_MODES, SEALED_PDF_FORMS, VISIBILITIES } from './job.ts';

/** Members of many bodies: of answers, of messages to webhook endpoints, and of the administration. */
export const time = z.iso.datetime().meta({ examples: ['2026-01-02T03:04:05.678Z'] });
export const jobId = z.string().regex(JOB_ID_PATTERN);

const HEX_DIGEST = { 256: /^[0-9A-Fa-f]{64}$/, 512: /^[0-9A-Fa-f]{128}$/ };

const IDEMPOTENCY_KEY_DEMAND = 'must be 8 to 128 visible ASCII characters.';

/**
 * The permitted values of each field of a create, in any form of the request. `openapi.json` uses the same schemas, so lengths count
 * Unicode code points, as in JSON Schema. Each message follows the name of its field.
 */
export const fieldSchemas = {
  visibility: oneOf(VISIBILITIES).describe(
    'Who may see the job: `private` the creating client, `organization` every client of its organization, `partner` also the organizations it lists as partners.',
  ),
  mode: oneOf(JOB_MODES).describe('`blocking` keeps the connection open until the job is completed.'),
  preserve_metadata: trueOrFalse().describe(
    'In compliance mode, the service also makes a copy of the document without XMP metadata, unless this is true.',
  ),
  sealed_pdf: oneOf(SEALED_PDF_FORMS).describe(
    '`attach`: the service also makes a sealed PDF, which is the document with its receipt as an attached file. In a form, this field must precede `file`.',
  ),
  purpose: opaqueText(128).describe('Free-form label for quotas, analytics and support.'),
  customer_reference: opaqueText(512).describe(
    'Opaque value, echoed verbatim in the receipt and in webhooks.',
  ),
  checksum_sha256: hexDigest(256).describe(
    'The declared SHA-256 of the document. If the document differs, the error is `checksum_mismatch`.',
  ),
  source_url: sourceUrl(2048),
  document_sha256: hexDigest(256),
  document_sha512: hexDigest(512),
  bytes: byteCount().describe('Length of the document.'),
  idempotency_key: z
    .string(IDEMPOTENCY_KEY_DEMAND)
    .regex(IDEMPOTENCY_KEY_PATTERN, IDEMPOTENCY_KEY_DEMAND)
    .describe(
      'The same as the Idempotency-Key header of a single create by digests; both share the same keys. If every line has a key, you can repeat an interrupted batch as a whole.',
    ),
  receipt: trueOrFalse().describe('Whether the answer of a `blocking` line carries the receipt.'),
};
export type FieldName = keyof typeof fieldSchemas;
export type FieldValues = { [Name in FieldName]?: z.infer<(typeof fieldSchemas)[Name]> };

/** Parses the value of a field. Throws ServiceError that names the field and its permitted values. */
export function parseField<Name extends FieldName>(
  name: Name,
  value: unknown,
): z.infer<(typeof fieldSchemas)[Name]> {
  const code = name === 'idempotency_key' ? 'invalid_idempotency_key' : 'invalid_parameter';
  return readValue(name, fieldSchemas[name], value, code) as z.infer<(typeof fieldSchemas)[Name]>;
}

/** Parses a value by its schema, whose messages follow the name. Throws ServiceError. */
export function readValue<Schema extends z.ZodType>(
  name: string,
  schema: Schema,
  value: unknown,
  code: ErrorCode = 'invalid_parameter',
): z.output<Schema> {
  const { success, data, error } = schema.safeParse(value);
  if (success) return data;
  throw faultIn(name, code, error.issues[0]?.message ?? 'is not valid.');
}

/** The error if the caller sent one field, or one file, more than once. */
export function duplicateField(name: string): ServiceError {
  return faultIn(name, 'duplicate_parameter', 'was sent more than once. Send it once.');
}

/** The error for a field with a value that is not allowed; `demand` says what is allowed: `must be UTF-8.` */
export function invalidField(name: string, demand: string): ServiceError {
  return faultIn(name, 'invalid_parameter', demand);
}

export function missingField(name: string): ServiceError {
  return faultIn(name, 'missing_parameter', 'is required. Add it.');
}

/** The error for an unknown field, whose name may be any text; `names` are the fields of this request. */
export function unknownField(name: string, names: readonly string[]): ServiceError {
  const message = `${quoteName(name)} is not a field of this request. Remove it, or correct it to one of: ${names.join(', ')}.`;
  return new ServiceError('unknown_parameter', message, { parameter: shorten(name) });
}

/** A name as the caller sent it, quoted so that it can be printed safely. */
export function quoteName(name: string): string {
  return JSON.stringify(shorten(name));
}

function shorten(name: string): string {
  const characters = [...name.slice(0, 200).toWellFormed()];
  return characters.length > 64 ? `${characters.slice(0, 64).join('')}…` : characters.join('');
}

function faultIn(name: string, code: ErrorCode, text: string): ServiceError {
  return new ServiceError(code, `${name} ${text}`, { parameter: name });
}

function oneOf<const T extends readonly string[]>(allowed: T) {
  return z.enum(allowed, `must be one of: ${allowed.join(', ')}.`);
}

function trueOrFalse() {
  return z.boolean('must be exactly true or false.');
}

/** Text without U+0000, which ends the text for many receivers, and without lone surrogates, which have no UTF-8 form. */
function wellFormedText() {
  return z
    .string('must be a string.')
    .refine((text) => text.isWellFormed(), 'must be well-formed Unicode, without lone surrogates.')
    .refine((text) => !text.includes('\0'), 'must not contain the character U+0000.');
}

/** Text that is stored and echoed unchanged, without trimming or normalisation. It may contain control characters. */
function opaqueText(charactersMax: number) {
  return wellFormedText()
    .refine(
      (text) => hasCharacters(text, charactersMax),
      `must have 1 to ${charactersMax} characters. Shorten the value, or omit the field.`,
    )
    .meta({ minLength: 1, maxLength: charactersMax });
}

/** Counts no further than necessary: a code point takes at most two UTF-16 code units. */
function hasCharacters(text: string, charactersMax: number): boolean {
  return text !== '' && text.length <= 2 * charactersMax && [...text].length <= charactersMax;
}

/** A digest of the document, in lower case. */
function hexDigest(bits: 256 | 512) {
  const demand = `must be the SHA-${bits} of the document: exactly ${bits / 4} hexadecimal characters.`;
  return z.string(demand).regex(HEX_DIGEST[bits], demand).toLowerCase();
}

function byteCount() {
  const demand = 'must be the length of the document: an integer from 1 to 2^53 - 1.';
  return z.int(demand).min(1, demand).meta({ maximum: Number.MAX_SAFE_INTEGER });
}

function sourceUrl(charactersMax: number) {
  const isWeb = (text: string) => ['https:', 'http:'].includes(URL.parse(text)?.protocol ?? '');
  const isOpen = ({ username, password }: URL) => username === '' && password === '';
  return wellFormedText()
    .refine((text) => text.length <= charactersMax && isWeb(text), {
      error: `must be an absolute http or https URL of at most ${charactersMax} characters.`,
      abort: true,
    })
    .refine((text) => isOpen(new URL(text)), 'must not contain credentials before its host.')
    .meta({ format: 'uri', maxLength: charactersMax });
}
