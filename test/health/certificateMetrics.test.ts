/** What the metrics say of certificates and revocation lists that have the same name. */
import t from 'tap';
import {
  certificatesSchema,
  type PresentedCertificate,
} from '../../src/health/sections/certificatesSection.ts';
import { metricsOf } from '../../src/health/sections/section.ts';

const LIST: PresentedCertificate = {
  ...{ authority: 'console.tls', role: 'client-crl', state: 'expired', subject: 'CN=people' },
  ...{ not_before: '2026-01-01T00:00:00.000Z', not_after: '2026-01-08T00:00:00.000Z', urgency: 'urgent' },
};

function valuesOf(certificates: PresentedCertificate[]): (number | undefined)[][] {
  return metricsOf(certificatesSchema).map(({ samples }) => samples(certificates).map(({ value }) => value));
}

t.test('for one name the most urgent certificate counts, and values are not added up', async (t) => {
  const older = { ...LIST, not_before: '2025-12-01T00:00:00.000Z', not_after: '2026-01-01T00:00:00.000Z' };
  const fresh: PresentedCertificate = {
    ...{ ...LIST, not_before: '2026-01-06T00:00:00.000Z', not_after: '2026-02-08T00:00:00.000Z' },
    ...{ state: 'valid', urgency: 'none' },
  };
  const alone = valuesOf([older]);
  t.match(alone, [[Date.parse(older.not_before) / 1000], [Date.parse(older.not_after) / 1000], [3]]);
  for (const all of [
    [LIST, older],
    [older, LIST],
    [older, fresh, LIST],
    [fresh, LIST, older],
  ])
    t.strictSame(valuesOf(all), alone);
  const other = { ...fresh, subject: 'CN=others' };
  t.strictSame(valuesOf([other, older]).at(-1)?.toSorted(), [0, 3], 'each name has its own');
});
