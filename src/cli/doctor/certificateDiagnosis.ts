import type { X509Certificate } from 'node:crypto';
import { statSync } from 'node:fs';
import { isIP } from 'node:net';
import { toRfc3339 } from '../../base/clock.ts';
import { OperatorError } from '../../base/errors.ts';
import { certificatesInUse } from '../../config/certificatesInUse.ts';
import type { Config } from '../../config/config.ts';
import { describeCertificate, nameCertificate } from '../../health/certificateFindings.ts';
import { findingsOf } from '../../health/healthFindings.ts';
import {
  type PresentedCertificate,
  presentCertificates,
  presentTlsCertificate,
} from '../../health/sections/certificatesSection.ts';
import type { AdminStatus } from '../../health/statusSchema.ts';
import { readTls, type TlsFiles, type TlsTable } from '../../web/tls.ts';
import { badFrom, type Diagnosis, diagnosisOf, good, warning } from './diagnosis.ts';

/** Each certificate that time-stamps depend on, with the days left. */
export function diagnoseCertificates(config: Config, now: number): Diagnosis[] {
  return judgeCertificates(presentCertificates(certificatesInUse(config), [], now), now);
}

export function judgeCertificates(certificates: readonly PresentedCertificate[], now: number): Diagnosis[] {
  return certificates.flatMap((one) => {
    const found = findingsOf({ certificates: [one] }, now).map(diagnosisOf);
    return found.length > 0 ? found : [good(nameCertificate(one), describeCertificate(one))];
  });
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
