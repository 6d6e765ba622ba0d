import { parseAuditRecord } from '../manifest/auditRecord.ts';
import type { TrailStore } from './trail.ts';

/** Certificates of the built-in time-stamp authority that audit records name: SHA-256 in lower-case hex, and the number of the first record that does. */
export type CertificatesOnRecord = ReadonlyMap<string, number>;

/** The certificates that administrators issued or installed, by the audit trail. */
export async function certificatesOnRecord({
  trail,
}: {
  trail: Pick<TrailStore, 'entries'>;
}): Promise<CertificatesOnRecord> {
  const found = new Map<string, number>();
  for (let page = await trail.entries(0, PAGE); page.length > 0; ) {
    for (const { number, text } of page)
      for (const digest of certificatesNamed(text)) if (!found.has(digest)) found.set(digest, number);
    page = await trail.entries(page.at(-1)?.number ?? 0, PAGE);
  }
  return found;
}

const PAGE = 500;

/** The certificates that the text of one audit record names. */
export function certificatesNamed(text: string): readonly string[] {
  if (!text.startsWith('{"act":"hsm.certify"') && !text.startsWith('{"act":"hsm.install_certificate"'))
    return [];
  const named = parseAuditRecord(text)?.object.certificates_sha256;
  return Array.isArray(named) ? named : [];
}
