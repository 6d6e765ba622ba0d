import { systemClock } from '../../base/clock.ts';
import { ownProcess } from '../../base/env.ts';
import { loadConfig } from '../../config/config.ts';
import { presentCertificate } from '../../health/sections/certificatesSection.ts';
import { type CertificateEntry, listCertificates } from '../../tsa/certificateList.ts';
import { command } from '../command.ts';
import { EXIT } from '../exit.ts';
import { CONFIG } from '../options.ts';
import { isJson, note, printRows } from '../terminal.ts';

export const certificatesCommand = command('certificates', {
  summary: 'list the certificates and the days left',
  description:
    'Lists every certificate that time-stamps depend on, with its validity and the days left: certificates of the built-in ' +
    'authority with the revocation lists of their roots, and roots of external authorities. Needs no HSM.',
  options: [CONFIG],
  exit: {
    0: 'all certificates and lists exist and are valid',
    1: 'one is missing, expired or not yet valid, or a certificate was revoked',
  },
  examples: ['pdfseal hsm certificates --config /etc/pdfseal/production.toml'],
  run({ config: file }) {
    const { timestamp, certificatesDir } = loadConfig(file, { files: 'unused' });
    const now = systemClock();
    const rows = listCertificates({ ...timestamp, certificatesDir }).map((entry) => present(entry, now));
    printRows(rows, {
      AUTHORITY: ({ authority }) => authority,
      ROLE: ({ role }) => role,
      STATE: ({ state }) => state,
      'NOT BEFORE': ({ not_before: from = '' }) => from.slice(0, 10),
      'NOT AFTER': ({ not_after: to = '' }) => to.slice(0, 10),
      'DAYS LEFT': ({ days_left: days = '' }) => String(days),
      SUBJECT: ({ subject = '' }) => subject,
    });
    if (!isJson()) for (const { detail } of rows) if (detail !== undefined) note(`pdfseal: ${detail}`);
    if (rows.some(({ state }) => state !== 'valid')) ownProcess().exitCode = EXIT.failed;
  },
});

function present(entry: CertificateEntry, now: number) {
  const presented = presentCertificate(entry, now);
  return 'missing' in entry.found ? presented : { ...presented, serial: entry.found.serial };
}
