import type { X509Certificate } from 'node:crypto';
import { statSync } from 'node:fs';
import { isIP } from 'node:net';
import { toRfc3339 } from '../../base/clock.ts';
import { OperatorError } from '../../base/errors.ts';
import { daysLeft, type Urgency, type Validity } from '../../base/validity.ts';
import { certificatesInUse } from '../../config/certificatesInUse.ts';
import type { Config } from '../../config/config.ts';
import { readTls, type TlsCertificate, type TlsFiles, type TlsTable, tlsUrgencyOf } from '../../net/tls.ts';
import {
  type CertificateEntry,
  listCertificates,
  urgencyOfEntry,
  validityOf,
} from '../../tsa/certificateList.ts';
import { bad, badFrom, type Diagnosis, good, warning } from './diagnosis.ts';

const RENEW_TIMESTAMPING =
  'renew the certificate with `pdfseal hsm certify`, or with `pdfseal hsm csr` and `install-certificate`';

const REPLACE_REVOKED =
  'certify the key again, or another one, with `pdfseal hsm certify` (after a theft, only another one), and restart the daemon';

const SIGN_LIST = 'sign a new list with `pdfseal hsm sign-revocation-list`, and export the trust file again';

const RESTORE_LIST =
  'restore the file from a backup: a new list would lack the certificates that were revoked';

/** Each certificate that time-stamps depend on, with the days left. */
export function diagnoseCertificates(config: Config, now: number): Diagnosis[] {
  return judgeCertificates(presentCertificates(certificatesInUse(config), [], now), now);
}

function judge(entry: CertificateEntry, now: number): Diagnosis {
  const { authority, role, found } = entry;
  const isList = role === 'revocation-list';
  const check = isList ? `revocation list ${authority}` : `certificate ${authority} (${role})`;
  if ('missing' in found)
    return bad(
      check,
      found.missing,
      isList ? RESTORE_LIST : 'restore the file, or install another certificate',
    );
  if (found.revokedAt !== undefined) {
    const detail = `${found.subjectName} was revoked at ${toRfc3339(found.revokedAt)}: it stamps nothing`;
    return bad(check, detail, REPLACE_REVOKED);
  }
  if (isList) return judgeList(check, found, urgencyOfEntry(entry, now), now);
  const detail = `${found.subjectName}, until ${toRfc3339(found.notAfter).slice(0, 10)}: ${timeLeft(found, now)}`;
  const remedy = authority.startsWith('built-in ')
    ? RENEW_TIMESTAMPING
    : 'ask the authority for its next root, and add it to the file of roots';
  const urgency = validityOf(entry, now) === 'valid' ? urgencyOfEntry(entry, now) : 'urgent';
  return judgeUrgency(urgency, { check, detail, remedy });
}

function judgeList(
  check: string,
  { subjectName, notBefore, notAfter }: Validity & { subjectName: string },
  urgency: Urgency,
  now: number,
): Diagnosis {
  const [from, to] = [notBefore, notAfter].map((time) => `${toRfc3339(time).slice(0, 16)}Z`);
  const detail = `${subjectName}, issued ${from}, the next one by ${to}: ${timeLeft({ notAfter }, now)}`;
  return judgeUrgency(urgency, { check, detail, remedy: SIGN_LIST });
}

function timeLeft(validity: Pick<Validity, 'notAfter'>, now: number): string {
  const days = daysLeft(validity, now);
  return days < 0 ? 'expired' : `${days} days left`;
}

/** The same rule for every certificate, also for those of the API. */
function judgeUrgency(
  urgency: Urgency,
  { check, detail, remedy }: Record<'check' | 'detail' | 'remedy', string>,
): Diagnosis {
  if (urgency === 'none') return good(check, detail);
  if (urgency === 'urgent') return bad(check, detail, remedy);
  return warning(check, detail, urgency === 'soon' ? `do this soon: ${remedy}` : remedy);
}

/** A table of the configuration with the files of a listener. */
export interface Served {
  table: TlsTable;
  files: TlsFiles & { readonly keyCredential?: string };
  /** Where clients reach the listener, if the configuration says it. */
  publicUrl?: string;
}

/** Every listener that uses TLS. */
export function servedWithTls({ http, console }: Pick<Config, 'http' | 'console'>): Served[] {
  return [
    ...(http.tls ? [{ table: 'http.tls' as const, files: http.tls, publicUrl: http.publicUrl }] : []),
    ...(console?.tls ? [{ table: 'console.tls' as const, files: console.tls }] : []),
  ];
}

/** The TLS pair of a listener: the permissions of the key, the chain, the name, and the dates. */
export function diagnoseTls({ table, files, publicUrl }: Served, now: number): Diagnosis[] {
  try {
    const { chain, all } = readTls(table, files);
    return [
      diagnoseKey(files.keyFile),
      diagnoseChain(chain, files.certificateFile),
      ...(publicUrl === undefined ? [] : [diagnoseName(chain[0], publicUrl)]),
      ...judgeCertificates(
        all.map((one) => presentTlsCertificate(table, one, now)),
        now,
      ),
    ];
  } catch (error) {
    const remedy = 'correct the files: a running daemon keeps its old pair, but does not start with this one';
    return [badFrom('TLS pair', error, remedy)];
  }
}

/** Whether the running daemon serves the pair in the files: it keeps an old pair if it refused the new one. */
export function* diagnoseServed(
  { table, files }: Served,
  status: AdminStatus | undefined,
): Iterable<Diagnosis> {
  if (status === undefined) return;
  const served = status.certificates.find(({ authority, role }) => authority === table && role === 'server');
  if (served === undefined)
    return yield warning('TLS served', `the daemon does not serve ${table} yet`, 'restart the daemon');
  try {
    const [own] = readTls(table, files).all;
    const isSame =
      own !== undefined && toRfc3339(own.notAfter) === served.not_after && own.subject === served.subject;
    yield isSame
      ? good('TLS served', `the daemon serves the certificate of the file (${table})`)
      : warning(
          'TLS served',
          `the daemon serves ${served.subject} until ${served.not_after}, not the certificate of the file`,
          'reload the daemon (systemctl reload), and read its log: it refuses a pair that does not match',
        );
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
  }
}

/** `readTls` has refused a key that other users can read. */
function diagnoseKey(keyFile: string): Diagnosis {
  const { mode, uid, gid } = statSync(keyFile);
  const group = (mode & 0o040) === 0 ? '' : ` and group ${gid}`;
  const detail = `${keyFile} is the key of the certificate, readable by user ${uid}${group}`;
  if ((mode & 0o020) === 0) return good('TLS pair', detail);
  return warning('TLS pair', `${detail}, whose members can change it`, `chmod g-w ${keyFile}`);
}

function diagnoseChain(chain: readonly X509Certificate[], file: string): Diagnosis {
  const broken = chain.findIndex((one, n) => {
    const issuer = chain[n + 1];
    return issuer !== undefined && !(one.checkIssued(issuer) && one.verify(issuer.publicKey));
  });
  if (broken >= 0) {
    const detail = `certificate ${broken + 2} of ${file} did not issue the certificate before it: clients may not find a path to their root`;
    return warning(
      'TLS chain',
      detail,
      'put the server’s certificate first, then the issuer of each certificate after it',
    );
  }
  return good('TLS chain', `${chain.length} of ${chain.length} certificates follow from each other`);
}

function diagnoseName(certificate: X509Certificate, publicUrl: string): Diagnosis {
  const host = new URL(publicUrl).hostname.replace(/^\[(.*)\]$/, '$1');
  const names = isIP(host) ? certificate.checkIP(host) : certificate.checkHost(host);
  if (names !== undefined)
    return good('TLS name', `the certificate is for ${host}, the host of http.public_url`);
  const detail = `the certificate is not for ${host}, the host of http.public_url (${certificate.subjectAltName ?? 'it has no names'})`;
  return warning(
    'TLS name',
    detail,
    'have a certificate issued for that name too, or correct http.public_url',
  );
}
