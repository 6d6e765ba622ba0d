import { describeSubject } from '../../asn1/certificate.ts';
import { systemClock, toTimestamp } from '../../base/clock.ts';
import { certificatesInUse } from '../../config/certificates.ts';
import type { Config } from '../../config.ts';
import {
  type CertificateEntry,
  DAYS_AHEAD_MAX,
  DAYS_URGENT_MAX,
  daysLeft,
  listCertificates,
  validityOf,
} from '../../tsa/expiry.ts';
import { bad, type Diagnosis, good, warning } from './diagnosis.ts';

/** So many days before its end, renewal is no longer to be planned but done. */
const DAYS_SOON_MAX = 30;

const RENEW = 'certify the key anew with `pdfseal hsm certify`, or `csr` and `install-certificate`';

/** Each certificate that time-stamps rest on, with the days it has left. */
export function checkCertificates(config: Config): Diagnosis[] {
  const now = systemClock();
  return listCertificates(certificatesInUse(config)).map((entry) => judge(entry, now));
}

function judge(entry: CertificateEntry, now: number): Diagnosis {
  const { authority, role, found } = entry;
  const check = `certificate ${authority} (${role})`;
  if ('missing' in found) return bad(check, found.missing, 'restore the file, or install another');
  const days = daysLeft(found, now);
  const detail = `${describeSubject(found)}, until ${toTimestamp(found.notAfter).slice(0, 10)}: ${days} days left`;
  const remedy = authority.startsWith('built-in ')
    ? RENEW
    : 'ask the authority for its next root, and name it too';
  if (validityOf(entry, now) !== 'valid' || days <= DAYS_URGENT_MAX) return bad(check, detail, remedy);
  if (days <= DAYS_SOON_MAX) return warning(check, detail, `it is time: ${remedy}`);
  return days <= DAYS_AHEAD_MAX ? warning(check, detail, remedy) : good(check, detail);
}
