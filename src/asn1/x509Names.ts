/** Names and digests of certificates that Node has parsed. */
import type { X509Certificate } from 'node:crypto';

/** SHA-256 of a certificate, lower-case hex. */
export function sha256Of({ fingerprint256 }: X509Certificate): string {
  return fingerprint256.replaceAll(':', '').toLowerCase();
}

/** The issuer as RFC 4514 writes it. */
export function issuerOf({ issuer }: X509Certificate): string {
  return nameFrom(issuer);
}

/** The subject as RFC 4514 writes it (if there is one), also as OpenSSL writes it if that differs, then `DNS:…` and `URI:…`. */
export function namesIn(certificate: X509Certificate): string[] {
  const { subject = '' } = certificate;
  const subjects = new Set([nameFrom(subject), ...subjectsByOpenssl(subject)].filter(Boolean));
  return [...subjects, ...alternativeNames(certificate)];
}

/**
 * A name as RFC 4514 writes it. Node has a line for each relative name, in the order of the certificate; it escapes as the RFC does,
 * control characters included, so no value can look like a line or a name of its own.
 */
function nameFrom(lines: string): string {
  return lines.split('\n').reverse().join(',').replaceAll(' + ', '+');
}

/**
 * The same as `openssl x509 -nameopt RFC2253` writes it, which people copy: the parts of a multi-valued relative name are in the opposite
 * order, and characters beyond ASCII are bytes (except with `-esc_msb`).
 */
function subjectsByOpenssl(subject: string): string[] {
  const relative = subject.split('\n').map((name) => name.split(' + ').reverse().join('+'));
  const text = relative.reverse().join(',');
  const inBytes = (some: string) => Buffer.from(some).toString('hex').toUpperCase().replaceAll(/../g, '\\$&');
  return [text, text.replaceAll(/[^\x20-\x7e]+/g, inBytes)];
}

/**
 * The DNS names and URIs. Node quotes names with special characters: such a name could contain what looks like another, so none of the
 * certificate counts then.
 */
function alternativeNames({ subjectAltName = '' }: X509Certificate): string[] {
  if (subjectAltName.includes('"')) return [];
  return subjectAltName.split(', ').filter((name) => /^(?:DNS|URI):/.test(name));
}
