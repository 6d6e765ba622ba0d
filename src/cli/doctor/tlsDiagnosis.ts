import type { X509Certificate } from 'node:crypto';
import { statSync } from 'node:fs';
import { isIP } from 'node:net';
import type { AdminStatus } from '../../admin/statusSchema.ts';
import { toRfc3339 } from '../../base/clock.ts';
import { OperatorError } from '../../base/errors.ts';
import { daysLeft, urgencyOf } from '../../base/validity.ts';
import { readTls, type TlsCertificate, type TlsFiles } from '../../net/tls.ts';
import { judgeUrgency } from './certificateDiagnosis.ts';
import { bad, type Diagnosis, good, warning } from './diagnosis.ts';

/** As much of the configuration as says how the API proves itself. */
export interface TlsConfig {
  readonly http: { readonly publicUrl: string; readonly tls?: TlsFiles };
}

const RENEW =
  'put a renewed certificate, and its key, in the place of the files: they are taken up within seconds';

/** Whether the API can go on proving itself: the pair, who may read its key, its chain, its name, and each date. */
export function diagnoseTls({ http: { publicUrl, tls } }: TlsConfig, now: number): Diagnosis[] {
  if (tls === undefined) return [];
  try {
    const { chain, all } = readTls(tls);
    return [
      diagnoseKey(tls.keyFile),
      diagnoseChain(chain, tls.certificateFile),
      diagnoseName(chain[0], publicUrl),
      ...all.map((one) => diagnoseDates(one, now)),
    ];
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    const remedy =
      'the daemon goes on with the pair it has, and does not start with this one: correct the files';
    return [bad('TLS pair', error.message, remedy)];
  }
}

/** Whether the daemon that runs serves the pair of the files: one that it refused stays unseen until the next start. */
export function diagnoseServed({ http: { tls } }: TlsConfig, status: AdminStatus | undefined): Diagnosis[] {
  if (tls === undefined || status === undefined) return [];
  const served = status.certificates.find(
    ({ authority, role }) => authority === 'http.tls' && role === 'server',
  );
  const remedy = 'systemctl reload the daemon, and look into its log: a pair that does not fit is refused';
  if (served === undefined)
    return [warning('TLS served', 'the daemon serves no TLS yet', 'restart the daemon')];
  try {
    const [own] = readTls(tls).all;
    const isSame =
      own !== undefined && toRfc3339(own.notAfter) === served.not_after && own.subject === served.subject;
    if (isSame) return [good('TLS served', 'the daemon serves the certificate of the file')];
    return [
      warning(
        'TLS served',
        `the daemon serves ${served.subject} until ${served.not_after}, another than the file`,
        remedy,
      ),
    ];
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return [];
  }
}

/** What others may do was judged when it was read. */
function diagnoseKey(keyFile: string): Diagnosis {
  const { mode, uid, gid } = statSync(keyFile);
  const group = (mode & 0o040) === 0 ? '' : ` and group ${gid}`;
  const detail = `${keyFile} is the key of the certificate, readable by user ${uid}${group}`;
  if ((mode & 0o020) === 0) return good('TLS pair', detail);
  return warning('TLS pair', `${detail}, whose members may change it`, `chmod g-w ${keyFile}`);
}

function diagnoseChain(chain: readonly X509Certificate[], file: string): Diagnosis {
  const broken = chain.findIndex((one, n) => {
    const issuer = chain[n + 1];
    return issuer !== undefined && !(one.checkIssued(issuer) && one.verify(issuer.publicKey));
  });
  if (broken >= 0) {
    const detail = `certificate ${broken + 2} of ${file} did not issue the one before it: clients may find no way to their root`;
    return warning('TLS chain', detail, 'put the server’s certificate first, then each one’s issuer');
  }
  return good('TLS chain', `${chain.length} of ${chain.length} certificates follow from each other`);
}

function diagnoseName(certificate: X509Certificate, publicUrl: string): Diagnosis {
  const host = new URL(publicUrl).hostname.replace(/^\[(.*)\]$/, '$1');
  const names = isIP(host) ? certificate.checkIP(host) : certificate.checkHost(host);
  if (names !== undefined)
    return good('TLS name', `the certificate is for ${host}, as http.public_url has it`);
  const detail = `the certificate is not for ${host}, which http.public_url names (${certificate.subjectAltName ?? 'it has no names'})`;
  return warning('TLS name', detail, 'have it issued for that name too, or correct http.public_url');
}

function diagnoseDates(certificate: TlsCertificate, now: number): Diagnosis {
  const { role, subject, notBefore, notAfter } = certificate;
  const check = `certificate http.tls (${role})`;
  const detail = `${subject}, until ${toRfc3339(notAfter).slice(0, 10)}: ${daysLeft(certificate, now)} days left`;
  const urgency = now < notBefore ? 'urgent' : urgencyOf(certificate, now);
  return judgeUrgency(urgency, { check, detail, remedy: RENEW });
}
