import { type Certificate, parseCertificate } from '../asn1/certificate.ts';
import { toBase64 } from '../base/bytes.ts';
import type { KeptTheft, RenewalRun } from '../store/renewalStore.ts';
import { bytesOf } from './renewals.ts';

/** The key of an authority was stolen: nothing that it signed from then on proves anything, whatever time is in it. */
export interface Theft {
  root: Certificate;
  /** Milliseconds since the epoch. */
  since: number;
}

/** The thefts that became known with renewals: with runs, and a draft. */
export function theftsOf(runs: readonly Pick<RenewalRun, 'thefts'>[]): Theft[] {
  const kept = lastOfEach(runs.flatMap(({ thefts = [] }) => thefts));
  return kept.map(({ root, since }) => ({ root: parseCertificate(bytesOf(root)), since }));
}

/** What was said last of each root. */
export function lastOfEach(thefts: readonly KeptTheft[]): KeptTheft[] {
  const last = new Map(thefts.map(({ root, since }) => [root, since]));
  return Array.from(last, ([root, since]) => ({ root, since }));
}

/** As a draft and a run keep it. */
export function keptTheft({ root, since }: Theft): KeptTheft {
  return { root: toBase64(root.der), since };
}
