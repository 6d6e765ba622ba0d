import { type Certificate, describeSubject, isSelfIssued } from '../asn1/certificate.ts';
import { isListOf, type RevocationList, revocationsIn } from '../asn1/revocationList.ts';
import { toHex } from '../base/bytes.ts';
import { OperatorError } from '../base/errors.ts';
import { listUrgencyOf, type Urgency, urgencyOf, type Validity } from '../base/validity.ts';
import { type KeyName, readInstalled } from './installed.ts';
import { certificatesIn } from './pki.ts';
import { readRevocationLists } from './revocationFiles.ts';

/** Locations of the certificates of time-stamp authorities: those of the built-in authority's keys, and the roots of others. */
export interface CertificateSources {
  certificatesDir: string;
  keys: readonly KeyName[];
  remotes: Readonly<Record<string, { rootsFile: string }>>;
}

/** A certificate, or a revocation list. Times are milliseconds since the epoch. */
interface Found extends Validity {
  /** The subject, in words; of a list, its issuer. */
  subjectName: string;
  /** The serial number, or the number of the list, in hex. */
  serial: string;
  /** When the certificate was revoked, if it was. */
  revokedAt?: number;
}

/** A certificate of a time-stamp authority, or a revocation list, or why it cannot be read. */
export interface CertificateEntry {
  /** Name of the authority; for the built-in one, also of the key. */
  authority: string;
  /** A `revocation-list` is that of the root; it ends when the next one is due. */
  role: 'time-stamping' | 'issuer' | 'root' | 'revocation-list';
  found: Found | { missing: string };
}

export type CertificateState = 'valid' | 'expired' | 'not_yet_valid' | 'missing' | 'revoked';

/** Reads all certificates and lists afresh. A missing or damaged file becomes an entry and is not thrown. */
export function listCertificates({ certificatesDir, keys, remotes }: CertificateSources): CertificateEntry[] {
  const named = keys.map((name) => ({ name, authority: `built-in ${name.region}/${name.keyLabel}` }));
  const lists = orMissing(() => readRevocationLists(certificatesDir));
  const usable = 'missing' in lists ? [] : lists;
  const own = named.flatMap(({ name, authority }) =>
    collect(authority, 'time-stamping', () => readInstalled(certificatesDir, name).chain, usable),
  );
  const others = Object.entries(remotes).flatMap(([authority, { rootsFile }]) =>
    collect(authority, 'root', () => certificatesIn(rootsFile)),
  );
  const [first] = named;
  if ('missing' in lists && first !== undefined)
    return [...own, { authority: first.authority, role: 'revocation-list', found: lists }, ...others];
  return [...own, ...others];
}

/** Whether the certificate is valid at `now`, milliseconds since the epoch. */
export function validityOf({ found }: CertificateEntry, now: number): CertificateState {
  if ('missing' in found) return 'missing';
  if (found.revokedAt !== undefined) return 'revoked';
  if (now > found.notAfter) return 'expired';
  return now < found.notBefore ? 'not_yet_valid' : 'valid';
}

/** How near its end a certificate or a list is; one that is missing or was revoked is urgent. */
export function urgencyOfEntry({ role, found }: CertificateEntry, now: number): Urgency {
  if ('missing' in found || found.revokedAt !== undefined) return 'urgent';
  return role === 'revocation-list' ? listUrgencyOf(found, now) : urgencyOf(found, now);
}

/** One entry per certificate of a chain: the first has the given role, the others have the roles of issuers. Then the list of the root. */
function collect(
  authority: string,
  role: CertificateEntry['role'],
  read: () => Certificate[],
  lists: readonly RevocationList[] = [],
): CertificateEntry[] {
  const chain = orMissing(read);
  if ('missing' in chain) return [{ authority, role, found: chain }];
  const revoked = revocationsIn(chain, lists);
  const root = chain.at(-1);
  return [
    ...chain.map((certificate, index): CertificateEntry => {
      const above = isSelfIssued(certificate) ? 'root' : 'issuer';
      const times = revoked
        .filter((one) => one.certificate === certificate)
        .map(({ entry }) => entry.revokedAt);
      const found = {
        notBefore: certificate.notBefore,
        notAfter: certificate.notAfter,
        subjectName: describeSubject(certificate),
        serial: toHex(certificate.serial),
        ...(times.length > 0 && { revokedAt: Math.min(...times) }),
      };
      return { authority, role: index === 0 ? role : above, found };
    }),
    ...lists
      .filter((list) => root !== undefined && isListOf(list, root))
      .map(({ issuer, number = 0n, thisUpdate, nextUpdate = Infinity }): CertificateEntry => {
        const found = {
          notBefore: thisUpdate,
          notAfter: nextUpdate,
          subjectName: issuer,
          serial: number.toString(16),
        };
        return { authority, role: 'revocation-list', found };
      }),
  ];
}

function orMissing<Value>(read: () => Value): Value | { missing: string } {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return { missing: error.message };
  }
}
