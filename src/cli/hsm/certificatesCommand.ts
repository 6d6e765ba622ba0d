import { Command } from 'commander';
import { presentCertificate } from '../../admin/status/certificatesSection.ts';
import { toHex } from '../../base/bytes.ts';
import { systemClock, toRfc3339 } from '../../base/clock.ts';
import { daysLeft } from '../../base/validity.ts';
import { type Config, loadConfig } from '../../config/config.ts';
import { type CertificateEntry, listCertificates, validityOf } from '../../tsa/certificateList.ts';
import { EXIT } from '../exit.ts';
import { explain } from '../help.ts';
import { configOption } from '../options.ts';
import { isJson, note, printJson, printTable } from '../terminal.ts';

export function certificatesCommand(): Command {
  return explain(
    new Command('certificates')
      .summary('list the certificates and the days left')
      .description(
        'Lists every certificate that time-stamps depend on, with its validity and the days left: certificates of the built-in ' +
          'authority, and roots of external authorities. Needs no HSM.',
      )
      .addOption(configOption())
      .action(printCertificates),
    {
      exit: {
        0: 'all certificates exist and are valid',
        1: 'a certificate is missing, expired or not yet valid',
      },
      examples: ['pdfseal hsm certificates --config /etc/pdfseal/production.toml'],
    },
  );
}

function printCertificates({ config: file }: { config: string }): void {
  const now = systemClock();
  const entries = entriesOf(loadConfig(file, { files: 'unused' }));
  if (isJson()) for (const entry of entries) printJson(present(entry, now));
  else printEntries(entries, now);
  if (entries.some((entry) => validityOf(entry, now) !== 'valid')) process.exitCode = EXIT.failed;
}

function entriesOf({ timestamp, certificatesDir }: Config): CertificateEntry[] {
  return listCertificates({ ...timestamp, certificatesDir });
}

function printEntries(entries: CertificateEntry[], now: number): void {
  printTable(
    ['AUTHORITY', 'ROLE', 'STATE', 'NOT BEFORE', 'NOT AFTER', 'DAYS LEFT', 'SUBJECT'],
    entries.map((entry) => {
      const { authority, role, found } = entry;
      const row = [authority, role, validityOf(entry, now)];
      if ('missing' in found) return row;
      const [from, to] = [found.notBefore, found.notAfter].map((time) => toRfc3339(time).slice(0, 10));
      return [...row, from ?? '', to ?? '', String(daysLeft(found, now)), found.subjectName];
    }),
  );
  for (const { found } of entries) if ('missing' in found) note(`pdfseal: ${found.missing}`);
}

function present(entry: CertificateEntry, now: number) {
  const presented = presentCertificate(entry, now);
  if ('missing' in entry.found) return presented;
  const { serial, notBefore } = entry.found;
  return { ...presented, serial: toHex(serial), not_before: toRfc3339(notBefore) };
}
