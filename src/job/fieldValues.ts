import { type ErrorCode, ServiceError } from '../base/errors.ts';
import { JOB_MODES, VISIBILITIES } from './job.ts';

/** Of an `Idempotency-Key` (decisions, section 1). */
export const IDEMPOTENCY_KEY_PATTERN = /^[\x21-\x7e]{8,128}$/;

/** Lengths in characters, that is Unicode code points. */
const PURPOSE_CHARACTERS_MAX = 128;
const CUSTOMER_REFERENCE_CHARACTERS_MAX = 512;
const SOURCE_URL_CHARACTERS_MAX = 2048;

type Parse<T> = (name: string, value: unknown) => T;

/** What each field of a request may be, in any of its forms. They throw ServiceError. */
export const parsers = {
  visibility: oneOf(VISIBILITIES),
  mode: oneOf(JOB_MODES),
  preserve_metadata: parseBoolean,
  purpose: opaqueText(PURPOSE_CHARACTERS_MAX),
  customer_reference: opaqueText(CUSTOMER_REFERENCE_CHARACTERS_MAX),
  checksum_sha256: hexDigest(256),
  source_url: parseSourceUrl,
  document_sha256: hexDigest(256),
  document_sha512: hexDigest(512),
  bytes: parseBytes,
  idempotency_key: parseIdempotencyKey,
  receipt: parseBoolean,
} satisfies Record<string, Parse<unknown>>;

/** A caller sent one field, or one file, more than once. */
export function duplicateField(name: string): ServiceError {
  return fault('duplicate_parameter', name, 'was sent more than once. Send it once.');
}

/** A field has a value that is not allowed; `demand` says what is: `must be UTF-8.` */
export function invalidField(name: string, demand: string): ServiceError {
  return fault('invalid_parameter', name, demand);
}

/** A name as the caller sent it, made safe to print. */
export function quote(name: string): string {
  return JSON.stringify(shorten(name));
}

export function shorten(name: string): string {
  const characters = [...name.slice(0, 200).toWellFormed()];
  return characters.length > 64 ? `${characters.slice(0, 64).join('')}…` : characters.join('');
}

function oneOf<T extends string>(allowed: readonly T[]): Parse<T> {
  return (name, value) => {
    const found = allowed.find((candidate) => candidate === value);
    return found ?? invalid(name, `must be one of: ${allowed.join(', ')}.`);
  };
}

/** `true` and `false` as multipart text spells them; everything else stays the text it is and fails as such. */
export function booleanOf(text: string): boolean | string {
  return text === 'true' || (text === 'false' ? false : text);
}

function parseBoolean(name: string, value: unknown): boolean {
  return typeof value === 'boolean' ? value : invalid(name, 'must be exactly true or false.');
}

/**
 * Text that is kept and echoed as it is: no trimming, no normalisation. U+0000 is refused because it ends the text for
 * many a receiver, lone surrogates because they have no UTF-8 form; other control characters are the caller's own affair.
 */
function opaqueText(charactersMax: number): Parse<string> {
  return (name, value) => {
    const text = parseText(name, value);
    const characters = lengthInCodePoints(text, charactersMax);
    if (characters < 1 || characters > charactersMax) {
      invalid(name, `must have 1 to ${charactersMax} characters. Shorten it, or leave the field out.`);
    }
    return text;
  };
}

function parseText(name: string, value: unknown): string {
  if (typeof value !== 'string') return invalid(name, 'must be a string.');
  if (!value.isWellFormed()) invalid(name, 'must be well-formed Unicode, without lone surrogates.');
  if (value.includes('\0')) invalid(name, 'must not contain the character U+0000.');
  return value;
}

/** Counts no further than it has to: a code point takes two UTF-16 code units at most. */
function lengthInCodePoints(text: string, enough: number): number {
  return text.length > 2 * enough ? text.length : [...text].length;
}

/** `bits`: of SHA-256 or of SHA-512. Lower case. */
function hexDigest(bits: 256 | 512): Parse<string> {
  return (name, value) =>
    typeof value === 'string' && value.length === bits / 4 && /^[0-9A-Fa-f]*$/.test(value)
      ? value.toLowerCase()
      : invalid(name, `must be the SHA-${bits} of the document: exactly ${bits / 4} hexadecimal characters.`);
}

function parseBytes(name: string, value: unknown): number {
  return Number.isSafeInteger(value) && Number(value) > 0
    ? Number(value)
    : invalid(name, 'must be the length of the document: an integer from 1 to 2^53 - 1.');
}

function parseIdempotencyKey(name: string, value: unknown): string {
  if (typeof value === 'string' && IDEMPOTENCY_KEY_PATTERN.test(value)) return value;
  throw fault('invalid_idempotency_key', name, 'must be 8 to 128 visible ASCII characters.');
}

function parseSourceUrl(name: string, value: unknown): string {
  const text = parseText(name, value);
  const url = text.length <= SOURCE_URL_CHARACTERS_MAX ? URL.parse(text) : null;
  const valid = url !== null && (url.protocol === 'https:' || url.protocol === 'http:');
  if (valid && (url.username !== '' || url.password !== ''))
    return invalid(name, 'must carry no credentials before its host.');
  return valid
    ? text
    : invalid(
        name,
        `must be an absolute http or https URL of at most ${SOURCE_URL_CHARACTERS_MAX} characters.`,
      );
}

function invalid(name: string, demand: string): never {
  throw invalidField(name, demand);
}

export function fault(code: ErrorCode, name: string, text: string): ServiceError {
  return new ServiceError(code, `${name} ${text}`, { parameter: name });
}
