import { isUtf8 } from 'node:buffer';
import { ServiceError } from '../../base/errors.ts';

/** The content of the headers of a part (RFC 7578, section 4). */
export interface Part {
  name: string;
  /** A part is a file if it has a filename or a content type that only files have; otherwise it is a text field. */
  isFile: boolean;
}

/** A field of RFC 5322, section 2.2, including its continuation lines. */
const FIELD = /^([\w!#$%&'*+.^`|~-]+):[ \t]?([^\r\n\0]*(?:\r\n[ \t][^\r\n\0]*)*)$/;
const NEXT_FIELD = /\r\n(?![ \t])/;
/** `; name=value` or `; name="quoted \"value\""`, or nothing after a semicolon (RFC 9110, section 5.6.6). */
const PARAMETER = /;[ \t]*(?:([\w!#$%&'*+.^`|~-]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s;"]*)))?[ \t]*/y;
/** Characters of a boundary (RFC 2046, section 5.1.1). */
const BOUNDARY = /^[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-]$/;
const IDENTITY_ENCODINGS = ['7bit', '8bit', 'binary'];
const UTF8_CHARSETS = ['utf-8', 'utf8', 'us-ascii'];
const FILE_TYPES = ['application/pdf', 'application/octet-stream'];
const HEADERS_MAX = 16;
const PLAIN_TEXT = parseParameters('text/plain');
/** These may each come once. */
const READ_HEADERS = ['content-disposition', 'content-transfer-encoding', 'content-type'];
/** Matches most text, which then needs no decoding. */
const PRINTABLE_ASCII = /^[\x20-\x7e]*$/;

/** The boundary of a multipart/form-data body. Throws ServiceError `malformed_multipart`. */
export function boundaryOf(contentType: string | undefined): string {
  const boundary = parseParameters(contentType ?? '')?.parameters.get('boundary');
  if (boundary === undefined) throw malformed('its Content-Type must have one boundary');
  if (!BOUNDARY.test(boundary))
    throw malformed('its boundary must be 1 to 70 characters that RFC 2046 allows');
  return boundary;
}

/**
 * Reads a part's headers: the text between its delimiter and the empty line, in latin1. Throws ServiceError `malformed_multipart`, also
 * for a line that is not a header: an ignored line could be a Content-Transfer-Encoding.
 */
export function parsePartHeaders(block: string): Part {
  const headers = fieldsOf(block);
  const disposition = parseParameters(headers.get('content-disposition') ?? '');
  const name = disposition?.parameters.get('name');
  if (disposition?.value !== 'form-data' || !name) {
    throw malformed('every part needs one header Content-Disposition: form-data; name="…"');
  }
  // RFC 7578, section 4.7, deprecates encodings; silent decoding would seal other bytes than the client sent.
  const encoding = headers.get('content-transfer-encoding')?.trim().toLowerCase() ?? 'binary';
  if (!IDENTITY_ENCODINGS.includes(encoding))
    throw malformed('a part has a Content-Transfer-Encoding; send its bytes as they are');
  const contentType = headers.get('content-type');
  const type = contentType === undefined ? PLAIN_TEXT : parseParameters(contentType);
  if (type === undefined) throw malformed('a part has an unreadable Content-Type');
  if (type.value.startsWith('multipart/'))
    throw malformed('a part may not be multipart itself (RFC 7578, section 4.3)');
  const isFile =
    disposition.parameters.has('filename') ||
    disposition.parameters.has('filename*') ||
    FILE_TYPES.includes(type.value);
  const charset = type.parameters.get('charset')?.toLowerCase() ?? 'utf-8';
  if (!isFile && !UTF8_CHARSETS.includes(charset))
    throw malformed('a part has a charset other than UTF-8; send text as UTF-8');
  const decoded = PRINTABLE_ASCII.test(name) ? name : decodeUtf8(Buffer.from(name, 'latin1'));
  if (decoded === undefined) throw malformed('the name of a part is not UTF-8');
  return { name: decoded, isFile };
}

/** Decodes bytes that must be UTF-8; undefined if they are not. Nothing is replaced or dropped, not even a BOM. */
export function decodeUtf8(bytes: Buffer): string | undefined {
  return isUtf8(bytes) ? bytes.toString() : undefined;
}

export function malformed(why: string): ServiceError {
  return new ServiceError('malformed_multipart', `The multipart/form-data body is malformed: ${why}.`);
}

/** By lower-case name. Every value is a string of bytes (latin1). */
function fieldsOf(block: string): Map<string, string> {
  const [restOfDelimiter, ...lines] = block.split(NEXT_FIELD);
  if (lines.length > HEADERS_MAX) throw malformed('a part has too many headers');
  const fields = new Map<string, string>();
  for (const line of lines) {
    const [, spelled, value] = FIELD.exec(line) ?? [];
    if (spelled === undefined || value === undefined || restOfDelimiter !== '') {
      throw malformed('a part has an unreadable header');
    }
    const name = spelled.toLowerCase();
    if (fields.has(name) && READ_HEADERS.includes(name))
      throw malformed(`a part has more than one ${name} header`);
    fields.set(name, value.replaceAll('\r\n', ''));
  }
  return fields;
}

/** Splits `value; name=value; …`, with names in lower case. Undefined if the text does not parse or repeats a name. */
function parseParameters(text: string): { value: string; parameters: Map<string, string> } | undefined {
  const end = text.indexOf(';');
  const value = (end === -1 ? text : text.slice(0, end)).trim().toLowerCase();
  const parameters = new Map<string, string>();
  PARAMETER.lastIndex = value === '' || end === -1 ? text.length : end;
  while (PARAMETER.lastIndex < text.length) {
    const match = PARAMETER.exec(text);
    if (match === null) return undefined;
    const [, name, quoted, token] = match;
    if (name === undefined) continue;
    if (parameters.has(name.toLowerCase())) return undefined;
    parameters.set(name.toLowerCase(), quoted?.replaceAll(/\\(.)/g, '$1') ?? token ?? '');
  }
  return { value, parameters };
}
