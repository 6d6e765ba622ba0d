import * as z from 'zod';
import { toRfc3339 } from '../../base/clock.ts';
import { daysLeft, URGENCIES } from '../../base/validity.ts';
import {
  type CertificateEntry,
  type CertificateSources,
  listCertificates,
  urgencyOfEntry,
  validityOf,
} from '../../tsa/certificateList.ts';
import {
  TLS_ROLES,
  type TlsCertificate,
  type TlsCertificates,
  type TlsTable,
  tlsUrgencyOf,
} from '../../web/tls.ts';
import { epochSeconds, type StatusMetric, showAs, WIRE } from './section.ts';

const { time } = WIRE;

const certificateSchema = z.object({
  authority: z
    .string()
    .describe('`http.tls` for those of the API itself, `console.tls` for those of the console.'),
  role: z
    .enum(['time-stamping', 'root', 'revocation-list', ...TLS_ROLES])
    .describe(
      '`client-crl` and `revocation-list`, that of the root of a time-stamping key, are revocation lists: `not_after` is when the next one is due.',
    ),
  state: z.enum(['valid', 'expired', 'not_yet_valid', 'missing', 'revoked']),
  subject: z.string().optional().describe('Absent where there is no certificate; then `detail` says why.'),
  not_before: time.optional(),
  not_after: time.optional(),
  days_left: z.int().optional(),
  urgency: z.enum(URGENCIES).describe('How near its end is: plan its renewal, renew it soon, renew it now.'),
  detail: z.string().optional(),
});
export const certificatesSchema = z.array(certificateSchema);
export type PresentedCertificate = z.infer<typeof certificateSchema>;

export function presentCertificates(
  certificates: CertificateSources,
  tls: readonly Pick<TlsCertificates, 'table' | 'certificates'>[],
  now: number,
): PresentedCertificate[] {
  return [
    ...tls.flatMap(({ table, certificates }) =>
      certificates.map((one) => presentTlsCertificate(table, one, now)),
    ),
    ...listCertificates(certificates).map((entry) => presentCertificate(entry, now)),
  ];
}

export function presentCertificate(entry: CertificateEntry, now: number): PresentedCertificate {
  const { authority, role, found } = entry;
  const state = validityOf(entry, now);
  if ('missing' in found) return { authority, role, state, urgency: 'urgent', detail: found.missing };
  return {
    authority,
    role,
    state,
    subject: found.subjectName,
    not_before: toRfc3339(found.notBefore),
    not_after: toRfc3339(found.notAfter),
    days_left: daysLeft(found, now),
    urgency: urgencyOfEntry(entry, now),
  };
}

export function presentTlsCertificate(
  table: TlsTable,
  certificate: TlsCertificate,
  now: number,
): PresentedCertificate {
  const { role, subject, notBefore, notAfter } = certificate;
  return {
    authority: table,
    role,
    state: now > notAfter ? 'expired' : now < notBefore ? 'not_yet_valid' : 'valid',
    subject,
    not_before: toRfc3339(notBefore),
    not_after: toRfc3339(notAfter),
    days_left: daysLeft(certificate, now),
    urgency: tlsUrgencyOf(certificate, now),
  };
}

/** One value of each name. */
function ofEach(
  name: `pdfseal_certificate_${string}`,
  help: string,
  measure: (certificate: PresentedCertificate) => number,
): StatusMetric<PresentedCertificate[]> {
  const samples = (certificates: PresentedCertificate[]) =>
    mostUrgentOfNames(certificates).map((certificate) => {
      const { authority, role, subject = '' } = certificate;
      return { labels: { authority, role, subject }, value: measure(certificate) };
    });
  return { name, help, labelNames: ['authority', 'role', 'subject'], samples };
}

/** Two authorities can have one name, and a file can have two lists of one issuer. Values of the same labels would be added up. */
function mostUrgentOfNames(certificates: readonly PresentedCertificate[]): PresentedCertificate[] {
  const urgency = (one: PresentedCertificate) => URGENCIES.indexOf(one.urgency);
  const end = (one: PresentedCertificate) => epochSeconds(one.not_after) ?? 0;
  const lastWins = certificates.toSorted((a, b) => urgency(a) - urgency(b) || end(b) - end(a));
  const nameOf = ({ authority, role, subject }: PresentedCertificate) =>
    JSON.stringify([authority, role, subject]);
  return [...new Map(lastWins.map((one) => [nameOf(one), one])).values()];
}

showAs(certificatesSchema, [
  ofEach(
    'pdfseal_certificate_not_before_timestamp_seconds',
    'When a certificate or a revocation list was issued; 0 for a missing one',
    ({ not_before }) => epochSeconds(not_before) ?? 0,
  ),
  ofEach(
    'pdfseal_certificate_not_after_timestamp_seconds',
    'When a TLS certificate, a revocation list or a certificate for time-stamps expires; 0 for a missing one',
    ({ not_after }) => epochSeconds(not_after) ?? 0,
  ),
  ofEach(
    'pdfseal_certificate_urgency',
    'How near that end is: 0 far away, 1 plan the renewal, 2 renew it soon, 3 renew it now (or it is missing)',
    ({ urgency }) => URGENCIES.indexOf(urgency),
  ),
]);
