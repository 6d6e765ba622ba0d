import { type Certificate, describeSubject, parseCertificate } from '../../asn1/certificate.ts';
import { toBase64 } from '../../base/bytes.ts';
import { toRfc3339 } from '../../base/clock.ts';
import type { KeptTheft } from '../../store/renewalStore.ts';
import type { Store } from '../../store/store.ts';
import { bytesOf } from './renewals.ts';

/** The key of an authority was stolen: anything it signed from then on proves nothing, whatever time it states. */
export interface Theft {
  root: Certificate;
  /** Milliseconds since the epoch. */
  since: number;
  /** The renewal with which it became known; undefined if that was after the last one. */
  run?: number;
}

/**
 * The thefts that became known with these runs, or since, with the latest report for each root. A theft dated after the root's expiry was
 * taken back.
 */
export function theftsOf(told: readonly { number?: number; thefts?: readonly KeptTheft[] }[]): Theft[] {
  const last = new Map<string, Theft>();
  for (const { number: run, thefts = [] } of told)
    for (const { root, since } of thefts)
      last.set(root, { root: parseCertificate(bytesOf(root)), since, run });
  return [...last.values()].filter(({ root, since }) => since <= root.notAfter);
}

/** Includes the thefts in the draft. */
export async function knownThefts({ renewals }: Pick<Store, 'renewals'>): Promise<Theft[]> {
  const { thefts = [] } = (await renewals.draft()) ?? {};
  return theftsOf([...(await renewals.runs()), { thefts }]);
}

/** A description for people. */
export function describeTheft({ root, since, run }: Theft): string {
  const when = run === undefined ? 'after the last renewal' : `with renewal ${run}`;
  return `${describeSubject(root)} is distrusted from ${toRfc3339(since)} on, as was said ${when}`;
}

/** Remedy for a theft reported by mistake. A date in the distant future takes it back. */
export const TAKE_BACK =
  'if it was said by mistake, take it back: pdfseal renew --distrust ROOT --since 9999-12-31 --now';

/** The form stored in drafts and runs. */
export function keptTheft({ root, since }: Theft): KeptTheft {
  return { root: toBase64(root.der), since };
}
