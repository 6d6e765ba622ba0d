import type { Certificate } from '../asn1/certificate.ts';
import { type TokenVerdict, type VerifiedTimestamp, verifyTimestampToken } from '../asn1/token.ts';
import { bytesEqual, fromBase64 } from '../base/bytes.ts';
import { toTimestamp } from '../base/clock.ts';
import { printable, type ReceivedReceipt } from '../manifest/received.ts';
import { bearsOut, checkpointImprint, STAMPING_TOLERANCE_MS } from '../manifest/stamping.ts';
import type { TrustedAuthority, TrustFile } from '../manifest/trust.ts';
import { type Finding, failed, passed, unknown } from './finding.ts';

/** What the evidence says about the time of sealing. */
export interface Timing {
  finding: Finding;
  /**
   * When the keys must have been valid, milliseconds since the epoch: the time an authority vouches for or, where there is
   * no token at all, `sealed_at`. undefined where a token does not prove what it claims.
   */
  at: number | undefined;
}

/**
 * Every token must be over this very checkpoint, by an authority of the trust file, and bear out `sealed_at`: one that cannot be
 * verified is never passed over, or a receipt would look stamped that is not. Certificates are judged at the token's time.
 */
export function checkTimestamps(receipt: ReceivedReceipt, trust: TrustFile): Timing {
  const { timestamps, certificates } = receipt.evidence;
  if (timestamps.length === 0) {
    return { finding: checkAbsence(certificates, trust), at: Date.parse(receipt.sealed_at) };
  }
  const pool = certificates.map(fromBase64).filter((der) => der !== undefined);
  if (pool.length < certificates.length) {
    return { finding: failed('a certificate that is not Base64'), at: undefined };
  }
  const checked = timestamps.map(({ token }) => checkToken(token, receipt, pool, trust.timestampAuthorities));
  const findings = checked.map(({ finding }) => finding);
  const fault =
    findings.find(({ outcome }) => outcome === 'failed') ??
    findings.find(({ outcome }) => outcome === 'unknown');
  if (fault !== undefined) return { finding: fault, at: undefined };
  // The earliest proves the most: what exists at one time exists at all later ones.
  const at = Math.min(...checked.map(({ at = Infinity }) => at));
  return { finding: passed(findings.map(({ detail }) => detail).join('; ')), at };
}

function checkAbsence(certificates: readonly string[], trust: TrustFile): Finding {
  if (trust.timestamps === 'required') return failed('none, and the trust file requires one');
  if (certificates.length > 0) return failed('none, but certificates as if there were one');
  return passed('none; sealed_at is the service’s own word');
}

function checkToken(
  token: string,
  { sealed_at, evidence }: ReceivedReceipt,
  certificates: readonly Uint8Array[],
  authorities: readonly TrustedAuthority[],
): Timing {
  const der = fromBase64(token);
  if (der === undefined) return { finding: failed('a token that is not Base64'), at: undefined };
  const verdict = verifyTimestampToken({
    token: der,
    messageImprint: checkpointImprint(evidence.checkpoint),
    trustedRoots: authorities.map(({ root }) => root),
    certificates,
  });
  if (verdict.outcome === 'bad') return { finding: explain(verdict), at: undefined };
  const { timestamp } = verdict;
  if (!bearsOut(timestamp, Date.parse(sealed_at))) {
    const detail = `of ${toTimestamp(timestamp.genTime)}, more than ${STAMPING_TOLERANCE_MS / 60_000} minutes from sealed_at`;
    return { finding: failed(detail), at: undefined };
  }
  return { finding: passed(describe(timestamp, authorities)), at: timestamp.genTime };
}

function explain({ fault, detail }: Extract<TokenVerdict, { outcome: 'bad' }>): Finding {
  const text = printable(detail);
  if (fault === 'untrusted') return unknown(`the trust file does not know who stamped it: ${text}`);
  if (fault === 'unsupported') return unknown(`this program cannot verify it: ${text}`);
  return failed(`the token is no proof: ${text}`);
}

function describe(
  { genTime, accuracyMs, authority, chain }: VerifiedTimestamp,
  authorities: readonly TrustedAuthority[],
): string {
  const trusted = authorities.find(({ root }) => isLast(chain, root));
  const accuracy = accuracyMs === undefined ? '' : ` ± ${accuracyMs} ms`;
  return `the checkpoint existed at ${toTimestamp(genTime)}${accuracy}, says ${trusted?.name} (${printable(authority)})`;
}

function isLast(chain: readonly Uint8Array[], { der }: Certificate): boolean {
  const last = chain.at(-1);
  return last !== undefined && bytesEqual(last, der);
}
