import { z } from 'zod';
import { toRfc3339 } from '../../base/clock.ts';
import { daysLeft, URGENCIES, urgencyOf } from '../../base/validity.ts';
import type { TlsCertificate, TlsCertificates, TlsTable } from '../../net/tls.ts';
import {
  type CertificateEntry,
  type CertificateSources,
  listCertificates,
  validityOf,
} from '../../tsa/certificateList.ts';
import { epochSeconds, type StatusMetric, WIRE } from './section.ts';

const { time } = WIRE;

export const certificateSchema = z.object({
  authority: z
    .string()
    .describe('`http.tls` for those of the API itself, `console.tls` for those of the console.'),
  role: z.enum(['time-stamping', 'issuer', 'root', 'server', 'client-ca']),
  state: z.enum(['valid', 'expired', 'not_yet_valid', 'missing']),
  subject: z
    .string()
    .exactOptional()
    .describe('Absent where there is no certificate; then `detail` says why.'),
  not_after: time.exactOptional(),
  days_left: z.int().exactOptional(),
  urgency: z.enum(URGENCIES).describe('How near its end is: plan its renewal, renew it soon, renew it now.'),
  detail: z.string().exactOptional(),
});
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
    not_after: toRfc3339(found.notAfter),
    days_left: daysLeft(found, now),
    urgency: urgencyOf(found, now),
  };
}

function presentTlsCertificate(
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
    not_after: toRfc3339(notAfter),
    days_left: daysLeft(certificate, now),
    urgency: urgencyOf(certificate, now),
  };
}

export const CERTIFICATE_METRICS: StatusMetric<PresentedCertificate[]>[] = [
  {
    name: 'pdfseal_certificate_not_after_timestamp_seconds',
    help: 'When a TLS certificate or a certificate for time-stamps expires; 0 for a missing one',
    labelNames: ['authority', 'role', 'subject'],
    samples: (certificates) =>
      certificates.map(({ authority, role, subject = '', not_after }) => ({
        labels: { authority, role, subject },
        value: epochSeconds(not_after) ?? 0,
      })),
  },
  {
    name: 'pdfseal_certificate_urgency',
    help: 'How near that end is: 0 far away, 1 plan the renewal, 2 renew it soon, 3 renew it now (or it is missing)',
    labelNames: ['authority', 'role', 'subject'],
    samples: (certificates) =>
      certificates.map(({ authority, role, subject = '', urgency }) => ({
        labels: { authority, role, subject },
        value: URGENCIES.indexOf(urgency),
      })),
  },
];
