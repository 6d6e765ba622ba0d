import { bytesEqual } from '../base/bytes.ts';
import {
  type Certificate,
  describeSubject,
  isSignedBy,
  issuingFault,
  isValidAt,
  namesAsIssuer,
  UNTRUSTED_KEY,
} from './certificate.ts';
import { MalformedDer } from './der.ts';

const CHAIN_LENGTH_MAX = 8;

/**
 * Finds a chain from `leaf` to one of the trusted `roots` through certificates of the `pool`. Each certificate must be valid at `at`
 * (milliseconds since the epoch), and each issuer must be allowed to issue (RFC 5280, section 6.1). A root is trusted by its bytes; its own
 * signature does not prove anything. Each certificate is tried once, so that a hostile pool costs as little as an honest one. Returns the
 * chain, both ends included, or why there is none. `untrusted`: the certificates are sound, but do not lead to a trusted root.
 */
export function findChain(
  leaf: Certificate,
  pool: readonly Certificate[],
  roots: readonly Certificate[],
  at: number,
): { chain: Certificate[] } | { fault: string; untrusted: boolean } {
  const tried = new Set<Certificate>([leaf]);
  const faults: string[] = [];

  const climb = (path: readonly Certificate[], current: Certificate): Certificate[] | undefined => {
    if (!isValidAt(current, at)) {
      const isDate = Number.isFinite(at) && Math.abs(at) <= 8.64e15;
      const time = isDate ? new Date(at).toISOString() : 'that time';
      faults.push(`${describeSubject(current)} is not valid at ${time}`);
      return undefined;
    }
    const chain = [...path, current];
    if (roots.some(({ der }) => bytesEqual(der, current.der))) return chain;
    if (chain.length >= CHAIN_LENGTH_MAX) return undefined;
    for (const issuer of [...roots, ...pool]) {
      if (tried.has(issuer) || !namesAsIssuer(current, issuer)) continue;
      tried.add(issuer);
      const fault = whyNot(issuer, current, chain.length - 1);
      if (fault !== undefined) faults.push(fault);
      const found = fault === undefined ? climb(chain, issuer) : undefined;
      if (found !== undefined) return found;
    }
    return undefined;
  };

  const chain = climb([], leaf);
  if (chain !== undefined) return { chain };
  const [fault = `${describeSubject(leaf)}: no trusted root issued it`] = faults;
  return { fault, untrusted: faults.length === 0 };
}

/** Why `issuer` cannot have issued `subject`, apart from their names. */
function whyNot(issuer: Certificate, subject: Certificate, below: number): string | undefined {
  if (subject.scheme === undefined)
    return `${describeSubject(subject)} is signed with an algorithm that is not trusted`;
  try {
    const fault = issuingFault(issuer, below);
    if (fault !== undefined) return `${describeSubject(issuer)} ${fault}`;
    if (issuer.publicKey === undefined) return `${describeSubject(issuer)} ${UNTRUSTED_KEY}`;
  } catch (error) {
    if (!(error instanceof MalformedDer)) throw error;
    return `${describeSubject(issuer)}: ${error.message}`;
  }
  return isSignedBy(subject, issuer)
    ? undefined
    : `${describeSubject(subject)} was not signed by ${describeSubject(issuer)}`;
}
