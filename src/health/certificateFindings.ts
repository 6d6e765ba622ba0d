/** Certificates and revocation lists that end. */
import type { Urgency } from '../base/validity.ts';
import { findingOfEach, type HealthFinding } from './healthFinding.ts';
import type { PresentedCertificate } from './sections/certificatesSection.ts';

const METRIC = 'pdfseal_certificate_urgency';

function certificates(
  rule: Pick<HealthFinding, 'id' | 'severity'>,
  when: (urgency: Urgency, isTls: boolean) => boolean,
  first = '',
): HealthFinding {
  return findingOfEach('certificates', {
    ...{ ...rule, metric: METRIC, among: (all) => all, subject: nameCertificate, says: describeCertificate },
    when: (one) => when(one.urgency, isTls(one)),
    remedy: (one) => `${first}${remedyFor(one)}`,
  });
}

export const CERTIFICATE_FINDINGS: readonly HealthFinding[] = [
  certificates({ id: 'certificate_ends', severity: 'info' }, (is, isTls) => is === 'ahead' && !isTls),
  certificates(
    { id: 'certificate_ends_soon', severity: 'warning' },
    (is, isTls) => is === 'soon' && !isTls,
    'do this soon: ',
  ),
  // Those of a listener are renewed by a program, which is late by now.
  certificates(
    { id: 'tls_certificate_ends', severity: 'warning' },
    (is, isTls) => isTls && (is === 'ahead' || is === 'soon'),
  ),
  certificates({ id: 'certificate_ends_now', severity: 'critical' }, (is) => is === 'urgent'),
];

function isTls({ authority }: PresentedCertificate): boolean {
  return authority === 'http.tls' || authority === 'console.tls';
}

export function nameCertificate({ authority, role }: PresentedCertificate): string {
  return isList(role) ? `revocation list ${authority}` : `certificate ${authority} (${role})`;
}

function isList(role: PresentedCertificate['role']): boolean {
  return role === 'client-crl' || role === 'revocation-list';
}

/** Its subject, and how long it is still valid. */
export function describeCertificate(one: PresentedCertificate): string {
  const { role, state, subject, not_before: from = '', not_after: until = '', days_left: days = 0 } = one;
  if (state === 'missing') return one.detail ?? state;
  if (state === 'revoked') return `${subject} was revoked: it stamps nothing`;
  const left = state === 'not_yet_valid' ? 'not valid yet' : days < 0 ? 'expired' : `${days} days left`;
  return isList(role)
    ? `${subject}, issued ${from.slice(0, 16)}Z, the next one by ${until.slice(0, 16)}Z: ${left}`
    : `${subject}, until ${until.slice(0, 10)}: ${left}`;
}

function remedyFor(one: PresentedCertificate): string {
  if (one.state === 'missing')
    return one.role === 'revocation-list'
      ? 'restore the file from a backup: a new list would lack the certificates that were revoked'
      : 'restore the file, or install another certificate';
  if (one.state === 'revoked')
    return 'certify the key again, or another one, with `pdfseal hsm certify` (after a theft, only another one), and restart the daemon; if another key stamps, remove the table of this one';
  if (one.role === 'revocation-list')
    return 'sign a new list with `pdfseal hsm sign-revocation-list`, and export the trust file again';
  if (one.role === 'client-crl')
    return 'put the newest list of its authority into client_crl_file: after its end, no client certificate is accepted';
  if (isTls(one))
    return 'replace the files by a renewed certificate and its key: the daemon loads them within seconds';
  return one.authority.startsWith('built-in ')
    ? 'renew the certificate with `pdfseal hsm certify`, or with `pdfseal hsm csr` and `install-certificate`'
    : 'ask the authority for its next root, and add it to the file of roots';
}
