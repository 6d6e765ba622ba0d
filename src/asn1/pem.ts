/** The labels of RFC 7468 that this service writes. */
export type PemLabel = 'CERTIFICATE' | 'CERTIFICATE REQUEST' | 'X509 CRL';

/** Textual encoding (RFC 7468) with lines of 64 characters. */
export function encodePem(label: PemLabel, der: Uint8Array): string {
  const base64 = Buffer.from(der)
    .toString('base64')
    .replace(/.{64}(?=.)/g, '$&\n');
  return `-----BEGIN ${label}-----\n${base64}\n-----END ${label}-----\n`;
}

const BLOCK = /-----BEGIN ([A-Z0-9 ]{1,40})-----([A-Za-z0-9+/=\s]*)-----END ([A-Z0-9 ]{1,40})-----/g;

/** DER of every block with this label, in the order of the text. */
export function pemBlocks(label: PemLabel, text: Uint8Array): Buffer[] {
  const found = [...Buffer.from(text).toString('latin1').matchAll(BLOCK)];
  return found
    .filter(([, begin, , end]) => begin === label && end === label)
    .map(([, , base64 = '']) => Buffer.from(base64, 'base64'));
}

/** DER of every certificate in a file: a PEM bundle with any text between, or one certificate in DER. */
export function readCertificateFile(bytes: Uint8Array): Buffer[] {
  const blocks = pemBlocks('CERTIFICATE', bytes);
  return blocks.length > 0 || bytes.length === 0 ? blocks : [Buffer.from(bytes)];
}

/** DER of the revocation list in a file: the first in PEM, with any text around it, or one in DER. */
export function readListFile(bytes: Uint8Array): Buffer {
  return pemBlocks('X509 CRL', bytes)[0] ?? Buffer.from(bytes);
}
