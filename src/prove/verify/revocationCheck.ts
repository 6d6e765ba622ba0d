/** Whether certificates of time-stamps were revoked, by the revocation lists at hand, and what this leaves of the time (RFC 3161, section 4). */
import { type Certificate, describeSubject, parseCertificate } from '../../asn1/certificate.ts';
import {
  isListOf,
  type Revocation,
  type RevocationList,
  type RevocationReason,
  revocationsIn,
} from '../../asn1/revocationList.ts';
import type { VerifiedTimestamp } from '../../asn1/timestampToken.ts';
import { toBase64 } from '../../base/bytes.ts';
import { toRfc3339 } from '../../base/clock.ts';
import type { Bundle } from '../../manifest/bundle.ts';
import { printable } from '../../manifest/received.ts';
import type { TrustFile } from '../../manifest/trustFile.ts';
import { type Finding, notShown, passed, unknown } from './finding.ts';
import type { TrustedStamp } from './timestampCheck.ts';

/** With these reasons, nobody else had the key: what it stamped before the revocation counts (RFC 3161, section 4). */
const HARMLESS: readonly (RevocationReason | undefined)[] = [
  'unspecified',
  'affiliationChanged',
  'superseded',
  'cessationOfOperation',
];

/** The standing of one time-stamp according to the lists, also in words. `since`: revoked, but what it shows still counts. */
type Standing = { detail: string } & (
  | { kind: 'good' | 'since' | 'not_shown' }
  /** `before`: what another key stamped earlier than this still counts, milliseconds since the epoch. `spki`: the revoked key. */
  | { kind: 'revoked'; before: number; spki: string }
);

/** The lists of a trust file and of a bundle: each counts only if a trusted root signed it. */
export function listsOf({ revocationLists = [] }: TrustFile, bundle?: Bundle): RevocationList[] {
  return [...revocationLists, ...(bundle?.revocationLists ?? [])];
}

/**
 * The finding on the time-stamps of a receipt, or undefined if it has none. Only a list of a trusted root counts: of each root, the newest
 * list says what is not revoked, but what any of its lists says is revoked. One time-stamp that counts is enough. A good evidence record
 * stands beside the receipt's own time-stamps, of which only those that hold at `at` count then.
 */
export function checkRevocation(
  stamps: readonly TrustedStamp[],
  lists: readonly RevocationList[],
  evidence?: { record: readonly VerifiedTimestamp[]; at: number },
): Finding | undefined {
  const all = stamps
    .filter(({ until }) => evidence === undefined || until >= evidence.at)
    .map(({ name, timestamp }) => ({ name, ...standingOf(timestamp, lists) }));
  if (evidence) all.push({ name: 'the evidence record', ...standingOfRecord(evidence.record, lists) });
  if (all.length === 0) return undefined;
  const kinds = new Set(all.map(({ kind }) => kind));
  const detail = all
    .map((one) => (all.length === 1 ? one.detail : `${printable(one.name)}: ${one.detail}`))
    .join('; ');
  if (kinds.has('good')) return passed(detail);
  if (kinds.has('since')) return passed(detail, 'revoked_since');
  if (kinds.has('not_shown')) return notShown(detail, 'revocation_not_shown');
  return unknown(`${detail}: this does not show the time`, 'revoked');
}

/** The time-stamps that the lists leave; all, if they leave none. */
export function unrevoked(stamps: readonly TrustedStamp[], lists: readonly RevocationList[]): TrustedStamp[] {
  const left = stamps.filter(({ timestamp }) => standingOf(timestamp, lists).kind !== 'revoked');
  return left.length === 0 ? [...stamps] : left;
}

function standingOf({ chain, genTime }: VerifiedTimestamp, lists: readonly RevocationList[]): Standing {
  const certificates = chain.map(parseCertificate);
  const listed = revocationsIn(certificates, lists);
  const [wrong] = listed
    .filter(({ entry }) => !(HARMLESS.includes(entry.reason) && genTime < beginOf(entry)))
    .sort((one, other) => beginOf(one.entry) - beginOf(other.entry));
  if (wrong !== undefined) {
    const { certificate, entry } = wrong;
    const spki = toBase64(certificate.spki);
    return { kind: 'revoked', before: beginOf(entry), spki, detail: describe(certificate, entry) };
  }
  const [harmless] = listed;
  if (harmless !== undefined) {
    const detail = `${describe(harmless.certificate, harmless.entry)}, after the time-stamp`;
    return { kind: 'since', detail };
  }
  // The root says nothing of certificates that another authority issued.
  const [root, ...more] = certificates.slice(1);
  const ofRoot = root === undefined || more.length > 0 ? [] : lists.filter((list) => isListOf(list, root));
  const [newest] = ofRoot.toSorted((one, other) => {
    const [a = 0n, b = 0n] = [one.number, other.number];
    return a === b ? other.thisUpdate - one.thisUpdate : a < b ? 1 : -1;
  });
  if (newest === undefined) return { kind: 'not_shown', detail: 'there is no revocation list of its issuer' };
  const asOf = toRfc3339(newest.thisUpdate);
  return newest.thisUpdate >= genTime
    ? { kind: 'good', detail: `not revoked, as of ${asOf}` }
    : { kind: 'not_shown', detail: `the revocation list of its issuer is older, of ${asOf}` };
}

/**
 * The standing of an evidence record according to the lists: a revoked time-stamp counts if a later one, which counts, covered it before the revocation, and
 * was not made with the same key. It is enough that bytes existed, so those in between may be of anybody.
 */
function standingOfRecord(record: readonly VerifiedTimestamp[], lists: readonly RevocationList[]): Standing {
  const standings = record.map((timestamp) => standingOf(timestamp, lists));
  const keys = record.map(({ chain }) => new Set(chain.map((der) => toBase64(parseCertificate(der).spki))));
  const counts: boolean[] = [];
  let rescue: string | undefined;
  for (let index = record.length - 1; index >= 0; index--) {
    const standing = standings[index];
    if (standing?.kind !== 'revoked') {
      counts[index] = true;
      continue;
    }
    const later = record.findIndex(
      ({ genTime }, n) =>
        n > index && counts[n] === true && genTime < standing.before && keys[n]?.has(standing.spki) === false,
    );
    const found = record[later];
    if (found === undefined) return standing;
    counts[index] = true;
    rescue = `${standing.detail}, and another key renewed the time-stamp before, at ${toRfc3339(found.genTime)}`;
  }
  if (rescue !== undefined) return { kind: 'since', detail: rescue };
  const order = ['not_shown', 'since', 'good'];
  const [weakest] = standings.toSorted((one, other) => order.indexOf(one.kind) - order.indexOf(other.kind));
  return weakest ?? { kind: 'not_shown', detail: 'it has no time-stamp' };
}

/** From when on the key, or the certificate, is not to be relied on. */
function beginOf({ revokedAt, invalidSince = revokedAt }: Revocation): number {
  return Math.min(revokedAt, invalidSince);
}

function describe(certificate: Certificate, { revokedAt, reason, invalidSince }: Revocation): string {
  const why = reason ?? 'without a reason';
  const since = invalidSince === undefined ? '' : `, invalid since ${toRfc3339(invalidSince)}`;
  return `${printable(describeSubject(certificate))} was revoked at ${toRfc3339(revokedAt)} (${why}${since})`;
}
