// Determines how long the time-stamps of renewals can be trusted, and the resulting paths of records.
import { parseCertificate } from '../../asn1/certificate.ts';
import type { SignerInfo } from '../../asn1/cms.ts';
import { type VerifiedTimestamp, verifyTimestampToken } from '../../asn1/timestampToken.ts';
import type { Clock } from '../../base/clock.ts';
import type { DigestName } from '../../base/crypto.ts';
import type { TrustedAuthority } from '../../manifest/trustFile.ts';
import type { LeafRange, RenewalRun, RenewalToken } from '../../store/renewalStore.ts';
import { isLast, rootsOf } from '../verify/timestampCheck.ts';
import { bestPath, type TokenStanding } from './renewalPath.ts';
import { bytesOf, DamagedTimestamp, type PathOf, storedToken } from './renewals.ts';
import { type Theft, theftsOf } from './thefts.ts';

/** Opens a stored token and verifies it over whatever it covers. Without `timestamp`, it proves nothing under these roots. */
export function openToken(
  token: string,
  certificates: readonly string[],
  authorities: readonly TrustedAuthority[],
): { digest: DigestName; signer: SignerInfo; timestamp?: VerifiedTimestamp } {
  const { der, info, signedData } = storedToken(token);
  if (info.imprint === undefined) throw new DamagedTimestamp();
  const verdict = verifyTimestampToken({
    token: der,
    messageImprint: info.imprint,
    trustedRoots: rootsOf(authorities),
    certificates: certificates.map(bytesOf),
  });
  const { algorithm: digest } = info.imprint;
  const opened = { digest, signer: signedData.signer };
  return verdict.outcome === 'good' ? { ...opened, timestamp: verdict.timestamp } : opened;
}

/**
 * How long the tokens of renewals can be trusted under these roots; after a theft of a root's key, only until the theft. A token for which
 * no root vouches stays trusted until the first of its own certificates expires: the current configuration lacks the root, but the next one
 * may have it. Each token is verified once.
 */
export function tokenStandings(
  authorities: readonly TrustedAuthority[],
  thefts: readonly Theft[] = [],
): (token: RenewalToken) => TokenStanding {
  // The configuration may no longer name the authority.
  const known = [...authorities, ...thefts.map(({ root }) => ({ name: 'distrusted', root }))];
  const standings = new Map<string, TokenStanding>();
  return (one) => {
    const standing = standings.get(one.token) ?? standingOf(one, known, thefts);
    standings.set(one.token, standing);
    return standing;
  };
}

function standingOf(
  { token, certificates }: RenewalToken,
  authorities: readonly TrustedAuthority[],
  thefts: readonly Theft[],
): TokenStanding {
  const { genTime } = storedToken(token).info;
  const { timestamp } = openToken(token, certificates, authorities);
  if (timestamp === undefined) {
    const ends = certificates.map((one) => parseCertificate(bytesOf(one)).notAfter);
    return { genTime, until: Math.min(...ends), doubt: 'unknown' };
  }
  const { chain, notAfter } = timestamp;
  const theft = thefts.find(({ root, since }) => since <= notAfter && isLast(chain, root));
  return theft ? { genTime, until: theft.since - 1, doubt: 'stolen' } : { genTime, until: notAfter };
}

/** The paths of records at a time, milliseconds since the epoch: see {@link bestPath}. */
export function pathsAt(
  runs: readonly RenewalRun[],
  authorities: readonly TrustedAuthority[],
  at: number,
): (range: LeafRange) => number[] {
  const standingOf = tokenStandings(authorities, theftsOf(runs));
  return (range) => bestPath(range, runs, standingOf, at);
}

/** The path of a record at the current time: the one that the next run would take. */
export function pathsNow(authorities: () => readonly TrustedAuthority[], clock: Clock): PathOf {
  let known: { length: number; standingOf: ReturnType<typeof tokenStandings> } | undefined;
  return (batch, runs) => {
    if (known?.length !== runs.length)
      known = { length: runs.length, standingOf: tokenStandings(authorities(), theftsOf(runs)) };
    return bestPath(batch, runs, known.standingOf, clock());
  };
}
