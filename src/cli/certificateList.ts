import { Command } from 'commander';
import { type Certificate, describeSubject } from '../asn1/certificate.ts';
import { systemClock, toTimestamp } from '../base/clock.ts';
import { OperatorError } from '../base/errors.ts';
import { type Config, loadConfig } from '../config.ts';
import { kmsKeyId } from '../manifest/receipt.ts';
import { readInstalled } from '../tsa/installed.ts';
import { readCertificateFile } from './authorityCertificates.ts';
import { configOption, jsonOption } from './options.ts';
import { EXIT, note, printJson, printTable } from './terminal.ts';

const DAY_MS = 86_400_000;

/** A certificate that time-stamps rest on, or why there is none. */
interface Entry {
  /** Name of the authority, and of the key if it is ours. */
  authority: string;
  role: 'time-stamping' | 'issuer' | 'root';
  found: Certificate | { missing: string };
}

type Validity = 'valid' | 'expired' | 'not_yet_valid' | 'missing';

export function certificatesCommand(): Command {
  return new Command('certificates')
    .summary('list the certificates and the days left')
    .description(
      'Lists every certificate that time-stamps rest on, with its validity and the days left: those of the built-in ' +
        'authority and the roots of external ones. Needs no HSM.',
    )
    .addOption(configOption())
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `
Exit status: 0 all are there and valid · 1 one is missing, expired or not yet valid

Example:
  pdfseal hsm certificates --config /etc/pdfseal/production.toml`,
    )
    .action(listCertificates);
}

function listCertificates({ config: file, json }: { config: string; json?: true }): void {
  const now = systemClock();
  const entries = entriesOf(loadConfig(file, { files: 'unused' }));
  if (json) for (const entry of entries) printJson(present(entry, now));
  else printEntries(entries, now);
  if (entries.some((entry) => validityOf(entry, now) !== 'valid')) process.exitCode = EXIT.failed;
}

function entriesOf({ timestamp, certificatesDir }: Config): Entry[] {
  const own = timestamp.keys.flatMap((name) => {
    const authority = `built-in ${kmsKeyId(name)}`;
    return collect({ authority, role: 'time-stamping' }, () => readInstalled(certificatesDir, name).chain);
  });
  const remotes = Object.entries(timestamp.remotes).flatMap(([authority, { rootsFile }]) =>
    collect({ authority, role: 'root' }, () => readCertificateFile(rootsFile)),
  );
  return [...own, ...remotes];
}

/** The first of them in the given role, those above it in theirs. */
function collect({ authority, role }: Omit<Entry, 'found'>, read: () => Certificate[]): Entry[] {
  try {
    return read().map((found, index) => {
      const above = found.x509.checkIssued(found.x509) ? 'root' : 'issuer';
      return { authority, role: index === 0 ? role : above, found };
    });
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return [{ authority, role, found: { missing: error.message } }];
  }
}

function validityOf({ found }: Entry, now: number): Validity {
  if ('missing' in found) return 'missing';
  if (now > found.notAfter) return 'expired';
  return now < found.notBefore ? 'not_yet_valid' : 'valid';
}

function daysLeft({ notAfter }: Certificate, now: number): number {
  return Math.floor((notAfter - now) / DAY_MS);
}

function printEntries(entries: Entry[], now: number): void {
  printTable(
    ['AUTHORITY', 'ROLE', 'STATE', 'NOT BEFORE', 'NOT AFTER', 'DAYS LEFT', 'SUBJECT'],
    entries.map((entry) => {
      const { authority, role, found } = entry;
      const row = [authority, role, validityOf(entry, now)];
      if ('missing' in found) return row;
      const [from, to] = [found.notBefore, found.notAfter].map((time) => toTimestamp(time).slice(0, 10));
      return [...row, from ?? '', to ?? '', String(daysLeft(found, now)), describeSubject(found)];
    }),
  );
  for (const { found } of entries) if ('missing' in found) note(`pdfseal: ${found.missing}`);
}

function present(entry: Entry, now: number) {
  const { authority, role, found } = entry;
  const state = validityOf(entry, now);
  if ('missing' in found) return { authority, role, state, detail: found.missing };
  return {
    authority,
    role,
    state,
    subject: describeSubject(found),
    serial: found.serial.toString('hex'),
    not_before: toTimestamp(found.notBefore),
    not_after: toTimestamp(found.notAfter),
    days_left: daysLeft(found, now),
  };
}
