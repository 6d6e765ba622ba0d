import { describeSubject } from '../../asn1/certificate.ts';
import { systemClock, toRfc3339 } from '../../base/clock.ts';
import { daysLeft, type Urgency, urgencyOf } from '../../base/validity.ts';
import { certificatesInUse } from '../../config/certificatesInUse.ts';
import type { Config } from '../../config/config.ts';
import { type CertificateEntry, listCertificates, validityOf } from '../../tsa/certificateList.ts';
import { bad, type Diagnosis, good, warning } from './diagnosis.ts';

const RENEW =
  'renew the certificate with `pdfseal hsm certify`, or with `pdfseal hsm csr` and `install-certificate`';

/** Each certificate that time-stamps depend on, with the days left. */
export function diagnoseCertificates(config: Config): Diagnosis[] {
  const now = systemClock();
  return listCertificates(certificatesInUse(config)).map((entry) => judge(entry, now));
}

function judge(entry: CertificateEntry, now: number): Diagnosis {
  const { authority, role, found } = entry;
  const check = `certificate ${authority} (${role})`;
  if ('missing' in found)
    return bad(check, found.missing, 'restore the file, or install another certificate');
  const detail = `${describeSubject(found)}, until ${toRfc3339(found.notAfter).slice(0, 10)}: ${daysLeft(found, now)} days left`;
  const remedy = authority.startsWith('built-in ')
    ? RENEW
    : 'ask the authority for its next root, and add it to the file of roots';
  const urgency = validityOf(entry, now) === 'valid' ? urgencyOf(found, now) : 'urgent';
  return judgeUrgency(urgency, { check, detail, remedy });
}

/** The same rule for every certificate, also for those of the API. */
export function judgeUrgency(
  urgency: Urgency,
  { check, detail, remedy }: Record<'check' | 'detail' | 'remedy', string>,
): Diagnosis {
  if (urgency === 'none') return good(check, detail);
  if (urgency === 'urgent') return bad(check, detail, remedy);
  return warning(check, detail, urgency === 'soon' ? `do this soon: ${remedy}` : remedy);
}
