import { randomBytes } from 'node:crypto';
import {
  type Certificate,
  describeSubject,
  isSelfIssued,
  parseCertificate,
  timestampingFault,
  usageFault,
} from '../asn1/certificate.ts';
import { findChain } from '../asn1/chain.ts';
import { MalformedDer } from '../asn1/der.ts';
import {
  type DistinguishedName,
  encodeRequestInfo,
  encodeRevocationTbs,
  encodeRootTbs,
  encodeSigned,
  encodeTimestampingTbs,
  type RevocationTerms,
  type SigningKey,
} from '../asn1/issue.ts';
import { readCertificateFile } from '../asn1/pem.ts';
import {
  isListOf,
  LIST_ENTRIES_MAX,
  parseAuthorityList,
  type RevocationList,
} from '../asn1/revocationList.ts';
import { readWholeFile } from '../base/atomicFile.ts';
import { toBase64 } from '../base/bytes.ts';
import { OperatorError } from '../base/errors.ts';

/** A key in the HSM, while a session is open. Its signatures are already verified. */
export interface KeyInUse {
  key: SigningKey;
  sign(message: Uint8Array): Promise<Uint8Array>;
}

export interface IssueOptions {
  subject: DistinguishedName;
  /** Milliseconds since the epoch; rounded down to whole seconds, the resolution of certificates. */
  notBefore: number;
  notAfter: number;
}

const SERIAL_BYTES = 16;

/** A self-signed root for sites without a certificate authority. The root issues only end certificates. */
export async function issueRoot(options: IssueOptions, { key, sign }: KeyInUse): Promise<Certificate> {
  const tbs = encodeRootTbs({ ...options, ...terms(options), key });
  return parseCertificate(encodeSigned(tbs, key, await sign(tbs)));
}

/** A certificate for a time-stamping key. Throws OperatorError if the issuer cannot issue one with that validity. */
export async function issueTimestampingCertificate(
  options: IssueOptions & { key: SigningKey; issuer: Certificate },
  { key: issuerKey, sign }: KeyInUse,
): Promise<Certificate> {
  const { issuer } = options;
  requireKeyOf(issuer, issuerKey);
  const period = terms(options);
  if (period.notAfter > issuer.notAfter) {
    throw new OperatorError(`the new certificate would outlive ${describeSubject(issuer)}, which issues it`);
  }
  const tbs = encodeTimestampingTbs({ ...options, ...period, issuerKey });
  const certificate = parseCertificate(encodeSigned(tbs, issuerKey, await sign(tbs)));
  const found = findChain(certificate, [], [issuer], certificate.notBefore);
  if ('fault' in found) throw new OperatorError(`the new certificate would not verify: ${found.fault}`);
  return certificate;
}

/** A revocation list of the issuer; its times are rounded down to whole seconds. Throws OperatorError if the issuer cannot sign one. */
export async function issueRevocationList(
  { issuer, ...terms }: RevocationTerms & { issuer: Certificate },
  { key: issuerKey, sign }: KeyInUse,
): Promise<RevocationList> {
  requireKeyOf(issuer, issuerKey);
  const fault = usageFault(issuer, 'cRLSign');
  if (fault !== undefined) throw new OperatorError(`${describeSubject(issuer)} ${fault}`);
  if (terms.revoked.length > LIST_ENTRIES_MAX)
    throw new OperatorError(
      `a revocation list has ${LIST_ENTRIES_MAX} certificates at most: let another root issue new certificates`,
    );
  const tbs = encodeRevocationTbs({
    ...{ issuer, issuerKey, number: terms.number },
    thisUpdate: wholeSeconds(terms.thisUpdate),
    nextUpdate: wholeSeconds(terms.nextUpdate),
    revoked: terms.revoked.map((one) => ({
      ...one,
      revokedAt: wholeSeconds(one.revokedAt),
      ...(one.invalidSince !== undefined && { invalidSince: wholeSeconds(one.invalidSince) }),
    })),
  });
  const list = parseAuthorityList(encodeSigned(tbs, issuerKey, await sign(tbs)));
  if (!isListOf(list, issuer)) throw new OperatorError('the new revocation list would not verify');
  return list;
}

function requireKeyOf(issuer: Certificate, { spki }: SigningKey): void {
  if (toBase64(issuer.spki) !== spki)
    throw new OperatorError(
      `${describeSubject(issuer)} is a certificate of another key than the one that signs`,
    );
}

/** A PKCS#10 request in DER (RFC 2986) for a time-stamping certificate from the site's own authority. */
export async function requestCertificate(
  subject: DistinguishedName,
  { key, sign }: KeyInUse,
): Promise<Uint8Array> {
  const info = encodeRequestInfo(subject, key);
  return encodeSigned(info, key, await sign(info));
}

/** The certificates in a file. Throws an OperatorError that names the file, also if it cannot be read. */
export function certificatesIn(file: string): Certificate[] {
  return readCertificates(readWholeFile(file), file);
}

/** The certificates in the text or bytes of a file. Throws an OperatorError that names the file. */
export function readCertificates(bytes: Uint8Array, file: string): Certificate[] {
  const certificates = readCertificateFile(bytes).map((der, index) => {
    try {
      return parseCertificate(der);
    } catch (cause) {
      if (!(cause instanceof MalformedDer)) throw cause;
      throw new OperatorError(`${file}: certificate ${index + 1} cannot be read: ${cause.message}`, {
        cause,
      });
    }
  });
  if (certificates.length === 0) throw new OperatorError(`${file}: there is no certificate in it`);
  return certificates;
}

/**
 * Sorts the certificates sent by an authority: the time-stamping key's own first, then its issuers, the self-signed root last. Throws an
 * OperatorError that states what is missing or wrong.
 */
export function chainForKey(
  { spki }: Pick<SigningKey, 'spki'>,
  certificates: readonly Certificate[],
  at: number,
): Certificate[] {
  const own = certificates.filter((certificate) => toBase64(certificate.spki) === spki);
  // The file may still contain an old certificate: the newest is used.
  const [leaf] = own.toSorted((a, b) => b.notBefore - a.notBefore);
  if (leaf === undefined) throw new OperatorError('none of the certificates is for this key');
  const fault = timestampingFault(leaf);
  if (fault !== undefined) throw new OperatorError(`the certificate ${describeSubject(leaf)} ${fault}`);
  const roots = certificates.filter(isSelfIssued);
  if (roots.length === 0)
    throw new OperatorError('the root is missing: add the self-signed certificate at the top');
  const found = findChain(leaf, certificates, roots, at);
  if ('fault' in found) throw new OperatorError(`the certificates do not form a chain: ${found.fault}`);
  return found.chain;
}

function wholeSeconds(epochMs: number): number {
  return Math.floor(epochMs / 1000) * 1000;
}

function terms({ notBefore, notAfter }: IssueOptions) {
  // Clear the sign bit and set the next: positive, never zero, always of the same length (RFC 5280, section 4.1.2.2).
  const serial = randomBytes(SERIAL_BYTES);
  serial[0] = ((serial[0] ?? 0) & 0x3f) | 0x40;
  return { serial, notBefore: wholeSeconds(notBefore), notAfter: wholeSeconds(notAfter) };
}
