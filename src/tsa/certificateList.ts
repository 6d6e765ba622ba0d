import { type Certificate, describeSubject, isSelfIssued } from '../asn1/certificate.ts';
import { OperatorError } from '../base/errors.ts';
import { type KeyName, readInstalled } from './installed.ts';
import { certificatesIn } from './pki.ts';

/** Locations of the certificates of time-stamp authorities: those of the built-in authority's keys, and the roots of others. */
export interface CertificateSources {
  certificatesDir: string;
  keys: readonly KeyName[];
  remotes: Readonly<Record<string, { rootsFile: string }>>;
}

/** A certificate and its subject, in words. */
type ListedCertificate = Certificate & { subjectName: string };

/** A certificate of a time-stamp authority, or why it cannot be read. */
export interface CertificateEntry {
  /** Name of the authority; for the built-in one, also of the key. */
  authority: string;
  role: 'time-stamping' | 'issuer' | 'root';
  found: ListedCertificate | { missing: string };
}

export type CertificateState = 'valid' | 'expired' | 'not_yet_valid' | 'missing';

/** Reads all certificates again. A missing or damaged file becomes an entry instead of an error. */
export function listCertificates({ certificatesDir, keys, remotes }: CertificateSources): CertificateEntry[] {
  const own = keys.flatMap((name) => {
    const authority = `built-in ${name.region}/${name.keyLabel}`;
    return collect({ authority, role: 'time-stamping' }, () => readInstalled(certificatesDir, name).chain);
  });
  const others = Object.entries(remotes).flatMap(([authority, { rootsFile }]) =>
    collect({ authority, role: 'root' }, () => certificatesIn(rootsFile)),
  );
  return [...own, ...others];
}

/** Whether the certificate is valid at `now`, milliseconds since the epoch. */
export function validityOf({ found }: CertificateEntry, now: number): CertificateState {
  if ('missing' in found) return 'missing';
  if (now > found.notAfter) return 'expired';
  return now < found.notBefore ? 'not_yet_valid' : 'valid';
}

/** One entry per certificate of a chain: the first has the given role, the others have the roles of issuers. */
function collect(
  { authority, role }: Omit<CertificateEntry, 'found'>,
  read: () => Certificate[],
): CertificateEntry[] {
  try {
    return read().map((certificate, index) => {
      const above = isSelfIssued(certificate) ? 'root' : 'issuer';
      const found = { ...certificate, subjectName: describeSubject(certificate) };
      return { authority, role: index === 0 ? role : above, found };
    });
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return [{ authority, role, found: { missing: error.message } }];
  }
}
