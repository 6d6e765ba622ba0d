import { parseAuditRecord } from '../manifest/auditRecord.ts';
import { type TrailEntry, type TrailStore, trailEntries } from './trail.ts';

/**
 * Certificates of the built-in time-stamp authority that audit records name: SHA-256 in lower-case hex, and the number of the first record
 * that names it.
 */
export type CertificatesOnRecord = ReadonlyMap<string, number>;

/** The certificates that administrators issued or installed, according to the audit trail. */
export async function certificatesOnRecord({
  trail,
}: {
  trail: Pick<TrailStore, 'entries'>;
}): Promise<CertificatesOnRecord> {
  const found = new Map<string, number>();
  for await (const entry of trailEntries(trail)) noteCertificates(found, entry);
  return found;
}

/** Adds the certificates that a record is the first to name. */
export function noteCertificates(
  found: Map<string, number>,
  { number, text }: Pick<TrailEntry, 'number' | 'text'>,
): void {
  for (const digest of certificatesNamed(text)) if (!found.has(digest)) found.set(digest, number);
}

/** The certificates that the text of one audit record names. */
export function certificatesNamed(text: string): readonly string[] {
  if (!text.startsWith('{"act":"hsm.certify"') && !text.startsWith('{"act":"hsm.install_certificate"'))
    return [];
  const named = parseAuditRecord(text)?.object.certificates_sha256;
  return Array.isArray(named) ? named : [];
}
