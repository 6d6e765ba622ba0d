import type { Certificate } from '../../asn1/certificate.ts';
import { accuracyFault, bearsOut, checkpointImprint, STAMPING_TOLERANCE_MS } from '../../asn1/stamping.ts';
import {
  type TokenVerdict,
  type VerifiedTimestamp,
  verifyTimestampToken,
} from '../../asn1/timestampToken.ts';
import { bytesEqual, fromBase64 } from '../../base/bytes.ts';
import { toRfc3339 } from '../../base/clock.ts';
import { printable } from '../../manifest/received.ts';
import { isWithin, type TrustedAuthority, type TrustedEpoch } from '../../manifest/trustFile.ts';
import { type Finding, failed, openIn, passed, type SharedParts, unknown } from './finding.ts';

/** Evidence of the time of sealing. */
export interface Timing {
  finding: Finding;
  /** The earliest time in a verified token, milliseconds since the Unix epoch; undefined if no token verified. */
  genTime: number | undefined;
  /** The verified tokens; empty unless all tokens were verified. */
  stamps: TrustedStamp[];
}

/** A verified token, and the trusted authority that vouches for it. */
export interface TrustedStamp {
  timestamp: VerifiedTimestamp;
  /** The authority's name in the trust file. */
  name: string;
  /** Until when the certificates are valid and the trust file trusts the authority; milliseconds since the Unix epoch. */
  until: number;
}

/**
 * Every token must be over this checkpoint, come from an authority in the trust file, and agree with `sealed_at`. A token that cannot be
 * verified is never ignored: the receipt would look stamped without being so. Certificates are checked at the token's time.
 */
export function checkTimestamps(
  receipt: SharedParts,
  epoch: TrustedEpoch | undefined,
  authorities: readonly TrustedAuthority[],
): Timing {
  const { timestamps, certificates } = receipt.evidence;
  const without = (finding: Finding): Timing => ({ finding, genTime: undefined, stamps: [] });
  if (timestamps.length === 0) return without(checkAbsence(certificates, epoch));
  const pool = certificates.map(fromBase64).filter((der) => der !== undefined);
  if (pool.length < certificates.length) return without(failed('a certificate that is not Base64'));
  const checked = timestamps.map(({ token }) => checkToken(token, receipt, pool, authorities));
  const findings = checked.map(({ finding }) => finding);
  const fault = openIn(findings);
  if (fault !== undefined) return without(fault);
  const stamps = checked.flatMap(({ stamp }) => stamp ?? []);
  // The earliest time proves the most.
  const genTime = Math.min(...stamps.map(({ timestamp }) => timestamp.genTime));
  return { finding: passed(findings.map(({ detail }) => detail).join('; ')), genTime, stamps };
}

function checkAbsence(certificates: readonly string[], epoch: TrustedEpoch | undefined): Finding {
  if (epoch === undefined) return unknown('none, and there is no epoch that says whether one is needed');
  if (epoch.timestamps === 'required')
    return failed('none, and the trust file requires one in this epoch', 'timestamp_missing');
  if (certificates.length > 0) return failed('none, but certificates as if there were one');
  return passed('none; sealed_at is the service’s own word', 'own_word');
}

function checkToken(
  token: string,
  { sealed_at, evidence }: SharedParts,
  certificates: readonly Uint8Array[],
  authorities: readonly TrustedAuthority[],
): { finding: Finding; stamp?: TrustedStamp } {
  const der = fromBase64(token);
  if (der === undefined) return { finding: failed('a token that is not Base64') };
  const verdict = verifyTimestampToken({
    token: der,
    messageImprint: checkpointImprint(evidence.checkpoint),
    trustedRoots: rootsOf(authorities),
    certificates,
  });
  if (verdict.outcome === 'bad') return { finding: explain(verdict) };
  const { timestamp } = verdict;
  if (!bearsOut(timestamp, Date.parse(sealed_at))) {
    const detail = `of ${toRfc3339(timestamp.genTime)}, more than ${STAMPING_TOLERANCE_MS / 60_000} minutes from sealed_at`;
    return { finding: failed(detail) };
  }
  const authority = authorityOf(timestamp, authorities);
  if (typeof authority === 'string') return { finding: failed(authority) };
  const { name, notAfter = Infinity } = authority;
  const stamp = { timestamp, name, until: Math.min(timestamp.notAfter, notAfter) };
  const { genTime, accuracyMs } = timestamp;
  const accuracy = accuracyMs === undefined ? '' : ` ± ${accuracyMs} ms`;
  const detail = `the checkpoint existed at ${toRfc3339(genTime)}${accuracy}, says ${name} (${printable(timestamp.authority)})`;
  return { finding: passed(detail), stamp };
}

/** The authority that vouches for a verified token, or why none does, in words. */
export function authorityOf(
  timestamp: VerifiedTimestamp,
  authorities: readonly TrustedAuthority[],
): TrustedAuthority | string {
  const { genTime, chain } = timestamp;
  const valid = authorities.find((each) => isLast(chain, each.root) && isWithin(each, genTime));
  if (valid === undefined)
    return `of ${toRfc3339(genTime)}, when the trust file does not trust ${printable(timestamp.authority)}`;
  const fault = accuracyFault(timestamp, valid.accuracyMaxMs);
  return fault === undefined ? valid : `of ${toRfc3339(genTime)}, which ${fault}`;
}

/**
 * The roots, those trusted at that time first: a certificate chain can lead to either root of an authority that renewed its root with the
 * same key.
 */
export function rootsOf(authorities: readonly TrustedAuthority[]): (at: number) => Certificate[] {
  return (at) =>
    [true, false].flatMap((trusted) =>
      authorities.filter((each) => isWithin(each, at) === trusted).map(({ root }) => root),
    );
}

function explain({ fault, detail }: Extract<TokenVerdict, { outcome: 'bad' }>): Finding {
  const text = printable(detail);
  if (fault === 'untrusted')
    return unknown(`the trust file does not know who stamped it: ${text}`, 'authority_unknown');
  if (fault === 'unsupported') return unknown(`this program cannot verify it: ${text}`);
  return failed(`the token is not a proof: ${text}`);
}

/** Whether the chain ends with that root. */
export function isLast(chain: readonly Uint8Array[], { der }: Certificate): boolean {
  const last = chain.at(-1);
  return last !== undefined && bytesEqual(last, der);
}
