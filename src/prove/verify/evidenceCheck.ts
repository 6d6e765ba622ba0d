import {
  parseEvidenceRecord,
  type RecordFault,
  type RecordLine,
  type RecordVerification,
  type RenewalKind,
  verifyEvidenceRecord,
} from '../../asn1/evidenceRecord.ts';
import { STAMPING_TOLERANCE_MS } from '../../asn1/stamping.ts';
import type { VerifiedTimestamp } from '../../asn1/timestampToken.ts';
import { assert } from '../../base/assert.ts';
import { bytesEqual, fromUtf8 } from '../../base/bytes.ts';
import { toRfc3339 } from '../../base/clock.ts';
import type { DigestName } from '../../base/crypto.ts';
import { printable } from '../../manifest/received.ts';
import { isWithin, type TrustedAuthority } from '../../manifest/trustFile.ts';
import { type Finding, failed, passed, unknown } from './finding.ts';
import { authorityOf, isLast, rootsOf } from './timestampCheck.ts';

/** Data from a receipt or a proof that its evidence record must match. */
export interface Stamped {
  /** The signed checkpoint. */
  checkpoint: string;
  /** DER. */
  certificates: readonly Uint8Array[];
  /** DER of its time-stamps: the record must begin with one of them. If empty, it may begin with any. */
  tokens: readonly Uint8Array[];
}

/** One archive time-stamp of the record, in words. */
export interface EvidenceLine extends Finding {
  kind: RenewalKind;
  /** Statement of a verified time-stamp: its time in RFC 3339, the hash function, and the authority by its name in the trust file. */
  time?: string;
  digest?: string;
  authority?: string;
}

/** The result of checking an evidence record. */
export interface EvidenceVerdict {
  finding: Finding;
  /** Why the record is not valid. */
  fault?: RecordFault;
  /** Oldest first; empty if the record cannot be read. */
  lines: EvidenceLine[];
  /** The verified time-stamps, oldest first. Only for a valid record. */
  timestamps?: VerifiedTimestamp[];
  /** RFC 3339: the time from which the record is no longer reliable, unless it is renewed before. Only for a valid record. */
  holdsUntil?: string;
}

/**
 * Judges an evidence record (RFC 4998) in DER over a signed checkpoint, as of `at`, milliseconds since the epoch. Each authority must be trusted by the trust file at the time of its time-stamp and
 * still when the next one was made; for the last one, still at `at`. Never throws, whatever the record contains.
 */
export function checkEvidenceRecord(
  { record, at }: { record: Uint8Array; at: number },
  { checkpoint, certificates, tokens }: Stamped,
  authorities: readonly TrustedAuthority[],
): EvidenceVerdict {
  const objection: RecordVerification['objection'] = (timestamp, time) => {
    if (time === timestamp.genTime) {
      const authority = authorityOf(timestamp, authorities);
      return typeof authority === 'string' ? `is ${authority}` : undefined;
    }
    return endOfTrust(timestamp, authorities, time) === undefined
      ? `at ${toRfc3339(time)}, the trust file does not trust ${printable(timestamp.authority)}`
      : undefined;
  };
  const verdict = verifyEvidenceRecord({
    record,
    data: fromUtf8(checkpoint),
    trustedRoots: rootsOf(authorities),
    certificates,
    // Tolerance for the clock difference between the authority and this machine.
    at: at + STAMPING_TOLERANCE_MS,
    objection,
  });
  const lines = verdict.lines.map((line) => explain(line, authorities));
  if (verdict.outcome !== 'good') {
    const detail = printable(verdict.detail);
    const finding = verdict.outcome === 'bad' ? failed(detail) : unknown(detail);
    return { finding, fault: verdict.fault, lines };
  }
  const first = parseEvidenceRecord(record).chains[0]?.[0]?.token;
  // Anyone can have an old checkpoint stamped today: that proves nothing about the time stated in the receipt.
  if (tokens.length > 0 && !tokens.some((token) => first && bytesEqual(first, token)))
    return {
      finding: failed('it does not begin with the time-stamp of the receipt'),
      fault: 'imprint',
      lines,
    };
  const timestamps = verdict.lines.flatMap((line) => (line.outcome === 'good' ? [line.timestamp] : []));
  const last = timestamps.at(-1);
  assert(last !== undefined, 'a good record without a time-stamp');
  const trusted = endOfTrust(last, authorities, at + STAMPING_TOLERANCE_MS) ?? Infinity;
  const holdsUntil = toRfc3339(Math.min(verdict.holdsUntil, trusted));
  const count = lines.length === 1 ? '1 time-stamp' : `${lines.length} time-stamps`;
  const detail = `${count}, the first of ${lines[0]?.time}; it proves the checkpoint until ${holdsUntil}, and longer if it is renewed before`;
  return { finding: passed(detail), lines, timestamps, holdsUntil };
}

/** When the trust file stops trusting the root of the token; undefined if it does not trust it at the given time. */
function endOfTrust(
  { chain }: VerifiedTimestamp,
  authorities: readonly TrustedAuthority[],
  at: number,
): number | undefined {
  const ends = authorities
    .filter((each) => isLast(chain, each.root) && isWithin(each, at))
    .map(({ notAfter = Infinity }) => notAfter);
  return ends.length === 0 ? undefined : Math.max(...ends);
}

const WORDS: Record<DigestName, string> = { sha256: 'SHA-256', sha384: 'SHA-384', sha512: 'SHA-512' };

/** The statement that each kind of time-stamp proves. */
const PROVES: Record<RenewalKind, (hash: string) => string> = {
  initial: () => 'the checkpoint existed',
  'time-stamp renewal': () => 'the time-stamp before existed',
  'hash renewal': (hash) => `the checkpoint and all time-stamps before existed, by their ${hash}`,
};

function explain(line: RecordLine, authorities: readonly TrustedAuthority[]): EvidenceLine {
  const { kind } = line;
  if (line.outcome !== 'good') {
    const detail = printable(line.detail);
    return { kind, ...(line.outcome === 'bad' ? failed(detail) : unknown(detail)) };
  }
  const { timestamp, digest } = line;
  const authority = authorityOf(timestamp, authorities);
  const name = typeof authority === 'string' ? '' : authority.name;
  const time = toRfc3339(timestamp.genTime);
  const detail = `at ${time}, ${PROVES[kind](WORDS[digest])}, says ${name} (${printable(timestamp.authority)})`;
  return { kind, ...passed(detail), time, digest, authority: name };
}
