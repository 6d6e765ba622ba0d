/** Signs the revocation lists of the roots in the HSM, which the folder of certificates keeps. */
import { existsSync } from 'node:fs';
import { type Certificate, describeSubject, isSignedBy, namesAsIssuer } from '../../asn1/certificate.ts';
import { encodePem } from '../../asn1/pem.ts';
import {
  isListOf,
  issuedAs,
  type Revocation,
  type RevocationList,
  type RevocationReason,
  revocationsIn,
} from '../../asn1/revocationList.ts';
import { writeFileAtomically } from '../../base/atomicFile.ts';
import { bytesEqual, toBase64 } from '../../base/bytes.ts';
import { toRfc3339 } from '../../base/clock.ts';
import { OperatorError } from '../../base/errors.ts';
import type { Config } from '../../config/config.ts';
import { kmsKeyId } from '../../log/verifierKey.ts';
import { parseAuditRecord } from '../../manifest/auditRecord.ts';
import { storeExists } from '../../store/engines.ts';
import { trailEntries } from '../../store/trail.ts';
import { type CertifiedKey, certificateFiles } from '../../tsa/installed.ts';
import { issueRevocationList } from '../../tsa/pki.ts';
import { readRevocationFile, readRevocationLists, revocationFile } from '../../tsa/revocationFiles.ts';
import { withStore } from '../withStore.ts';
import { isReadable, type OwnRoot, readCertificatesFrom } from './authorityCertificates.ts';
import { useAuthorityKey } from './hsmKeys.ts';

export function isIssuedBy(certificate: Certificate, root: Certificate): boolean {
  return (
    !bytesEqual(certificate.der, root.der) &&
    namesAsIssuer(certificate, root) &&
    isSignedBy(certificate, root)
  );
}

/** Throws OperatorError for a key of which a list says that it is compromised: a new certificate would not help against the thief. */
export function requireUncompromised({ certificatesDir }: Config, { spki, ...name }: CertifiedKey): void {
  const lists = readRevocationLists(certificatesDir);
  const certificates = certificateFiles(certificatesDir).filter(isReadable).flatMap(readCertificatesFrom);
  const stolen = certificates
    .filter((one) => toBase64(one.spki) === spki)
    .some((one) =>
      certificates.some((root) =>
        revocationsIn([one, root], lists).some(({ entry }) => entry.reason === 'keyCompromise'),
      ),
    );
  if (stolen)
    throw new OperatorError(
      `${kmsKeyId(name)} was revoked as compromised, so it gets no new certificate: create another key with \`pdfseal hsm init-key\``,
    );
}

/** A certificate that comes on a list. */
export interface Revoked {
  certificate: Certificate;
  reason: RevocationReason;
  /** Milliseconds since the epoch. */
  invalidSince?: number;
}

/** The state that a list must continue, as it was before the key signed. */
export interface ListBefore {
  file: string;
  list: RevocationList | undefined;
}

/** The list of a root. Throws OperatorError if the file is not that list, or if it is gone and the audit trail knows that it was there. */
export async function listBefore(config: Config, { token, certificate }: OwnRoot): Promise<ListBefore> {
  const file = revocationFile(config.certificatesDir, token);
  const remedy = 'restore the file from a backup, or from revocation_lists of a trust file';
  if (existsSync(file)) {
    const list = readRevocationFile(file);
    if (isListOf(list, certificate)) return { file, list };
    throw new OperatorError(`${file} is not a list that ${describeSubject(certificate)} signed`, { remedy });
  }
  const onRecord = await revocationsOnRecord(config, kmsKeyId(token));
  if (onRecord === 0) return { file, list: undefined };
  throw new OperatorError(
    `${file} is missing, and the audit trail has ${onRecord} revocations of that root: a new list would lack them`,
    { remedy },
  );
}

async function revocationsOnRecord({ store, file }: Config, root: string): Promise<number> {
  if (!(await storeExists(store))) return 0;
  return withStore(file, 'read', async ({ trail }) => {
    let count = 0;
    for await (const { text } of trailEntries(trail)) {
      if (!text.startsWith('{"act":"hsm.revoke_certificate"')) continue;
      const record = parseAuditRecord(text);
      if (record?.object.root === root && record.outcome === 'done') count += 1;
    }
    return count;
  });
}

/**
 * The entries with these certificates among them. None is lost; a compromised key replaces another reason, and the earliest time since when
 * it is suspected stays. Throws OperatorError if nothing changes.
 */
export function withRevoked(
  list: RevocationList | undefined,
  added: readonly Revoked[],
  now: number,
): Revocation[] {
  const entries = new Map(list?.revoked);
  let known: Revocation | undefined;
  let changes = 0;
  for (const { certificate, reason, invalidSince = Infinity } of added) {
    const name = issuedAs(certificate.der);
    const before = entries.get(name);
    const since = Math.min(invalidSince, before?.invalidSince ?? Infinity);
    const isGraver = reason === 'keyCompromise' && before?.reason !== reason;
    const isEarlier = before?.reason === reason && since < (before.invalidSince ?? Infinity);
    if (before !== undefined && !isGraver && !isEarlier) {
      known = before;
      continue;
    }
    changes += 1;
    entries.set(name, {
      serial: certificate.serial,
      revokedAt: before?.revokedAt ?? now,
      reason,
      ...(since < Infinity && { invalidSince: since }),
    });
  }
  if (known !== undefined && changes === 0)
    throw new OperatorError(
      `the certificate is on the list already: revoked at ${toRfc3339(known.revokedAt)} (${known.reason ?? 'without a reason'}). Only --reason key-compromise, or an earlier --invalid-since, changes that`,
    );
  return [...entries.values()];
}

/** Signs the next list of the root and writes it. Throws OperatorError, and then the old list stays. */
export async function signList(
  { token, certificate }: OwnRoot,
  { file, list: before }: ListBefore,
  { revoked, validityMs, now }: { revoked: readonly Revocation[]; validityMs: number; now: number },
): Promise<RevocationList> {
  if (before !== undefined && before.thisUpdate > now)
    throw new OperatorError(
      `${file} is of ${toRfc3339(before.thisUpdate)}, later than the clock of this machine: set the clock right first`,
    );
  // The time keeps it growing even after a list was lost.
  const number = Math.max(Number(before?.number ?? 0n) + 1, Math.floor(now / 1000));
  const terms = { issuer: certificate, number, thisUpdate: now, nextUpdate: now + validityMs, revoked };
  const list = await useAuthorityKey(token, (key) => issueRevocationList(terms, key));
  const present = existsSync(file) ? readRevocationFile(file) : undefined;
  if (present?.number !== before?.number)
    throw new OperatorError(`${file} was changed meanwhile, so nothing was written: repeat the command`);
  writeFileAtomically(file, encodePem('X509 CRL', list.der));
  return list;
}
