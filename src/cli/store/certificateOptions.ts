import { X509Certificate } from 'node:crypto';
import { InvalidArgumentError } from 'commander';
import { sha256Of } from '../../asn1/x509Names.ts';
import { systemClock, toRfc3339 } from '../../base/clock.ts';
import { OperatorError } from '../../base/errors.ts';
import type { Config } from '../../config/config.ts';
import { readTextFile } from '../files.ts';

const FILE_BYTES_MAX = 1 << 20;

/** The SHA-256 of the first certificate in a PEM file, lower-case hex. Throws OperatorError. */
export function readBinding(file: string, config: Config): string {
  requireClientCa(config);
  const certificate = parse(file, readTextFile(file, FILE_BYTES_MAX));
  const end = certificate.validToDate.getTime();
  if (end <= systemClock())
    throw new OperatorError(`the certificate in ${file} expired at ${toRfc3339(end)}; name the present one`);
  return sha256Of(certificate);
}

/** Throws OperatorError if clients cannot present a certificate. */
export function requireClientCa({ file, http }: Config): void {
  if (http.tls?.clientCaFile !== undefined) return;
  throw new OperatorError(
    `${file} has no http.tls.client_ca_file, so no client can present a certificate; set that key and restart pdfseald first`,
  );
}

function parse(file: string, pem: string): X509Certificate {
  try {
    return new X509Certificate(pem);
  } catch (cause) {
    throw new OperatorError(`${file} has no certificate in PEM`, { cause });
  }
}

const NAME_FORMS =
  'a subject as `openssl x509 -noout -subject -nameopt RFC2253` prints it (CN=invoices,O=Example), DNS:<name> or URI:<uri>';

/**
 * Argument parser: a name as the daemon reads it from a certificate. It must be written exactly so: patterns and other spellings are not
 * accepted.
 */
export function parseCertificateName(text: string): string {
  const isAlternative = /^(?:DNS:[A-Za-z0-9*._-]+|URI:[A-Za-z][!#-&(-+\--[\]-~]+)$/.test(text);
  if (isAlternative) return text;
  const name = decodeUtf8Escapes(text);
  // RFC 4514 escapes a space at the start or the end of a value, and allows none next to separators.
  const isLoose = /(?:^|[^\\])[,+=] |[^\\] (?:[,+=]|$)/.test(name.replace(/\\ /g, '\\20'));
  if (/^[A-Za-z0-9.]+=/.test(name) && !isLoose && !/\p{Cc}/u.test(name)) return name;
  throw new InvalidArgumentError(`Expected ${NAME_FORMS}, without spaces at commas and equals signs.`);
}

/** OpenSSL prints characters beyond ASCII as `\C3\A4`; the daemon reads the characters. Control characters stay escaped. */
function decodeUtf8Escapes(text: string): string {
  return text.replace(/(?:\\[89A-Fa-f][0-9A-Fa-f])+/g, (escapes) =>
    Buffer.from(escapes.replaceAll('\\', ''), 'hex').toString('utf8'),
  );
}
