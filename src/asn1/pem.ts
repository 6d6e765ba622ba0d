/** The labels of RFC 7468 that this service writes. */
export type PemLabel = 'CERTIFICATE' | 'CERTIFICATE REQUEST' | 'X509 CRL';

const CERTIFICATE = /-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]*)-----END CERTIFICATE-----/g;

/** Textual encoding (RFC 7468) with lines of 64 characters. */
export function encodePem(label: PemLabel, der: Uint8Array): string {
  const base64 = Buffer.from(der)
    .toString('base64')
    .replace(/.{64}(?=.)/g, '$&\n');
  return `-----BEGIN ${label}-----\n${base64}\n-----END ${label}-----\n`;
}

/** DER of every certificate in a file: a PEM bundle with any text between, or one certificate in DER. */
export function readCertificateFile(bytes: Uint8Array): Buffer[] {
  const text = Buffer.from(bytes).toString('latin1');
  const blocks = [...text.matchAll(CERTIFICATE)].map(([, base64 = '']) => Buffer.from(base64, 'base64'));
  return blocks.length > 0 || bytes.length === 0 ? blocks : [Buffer.from(bytes)];
}

const LIST = /-----BEGIN X509 CRL-----([A-Za-z0-9+/=\s]*)-----END X509 CRL-----/;

/** DER of the revocation list in a file: the first in PEM, with any text around it, or one in DER. */
export function readListFile(bytes: Uint8Array): Buffer {
  const [, base64] = LIST.exec(Buffer.from(bytes).toString('latin1')) ?? [];
  return base64 === undefined ? Buffer.from(bytes) : Buffer.from(base64, 'base64');
}
