import type { Logger } from 'pino';
import { type Clock, toRfc3339 } from '../base/clock.ts';
import { daysLeft } from '../base/validity.ts';
import {
  type CertificateEntry,
  type CertificateSources,
  listCertificates,
  urgencyOfEntry,
  validityOf,
} from './certificateList.ts';

export interface ExpiryOptions {
  /** The certificates in use. */
  sources: CertificateSources;
  clock: Clock;
  logger: Logger;
  /** How often the certificates are checked. */
  intervalMs?: number;
}

const INTERVAL_MS = 3_600_000;

/** Warns of certificates that expire soon: at once, and then once a day for each. Returns a function that ends the warnings. */
export function startExpiryWarnings({ intervalMs = INTERVAL_MS, ...options }: ExpiryOptions): () => void {
  const look = expiryWarnings(options);
  look();
  const timer = setInterval(look, intervalMs).unref();
  return () => clearInterval(timer);
}

/** Returns a function that logs the warnings not yet logged today. */
export function expiryWarnings({ sources, clock, logger }: Omit<ExpiryOptions, 'intervalMs'>): () => void {
  /** The day of the last warning, by the warning's name. */
  let saidOn = new Map<string, string>();
  return () => {
    const now = clock();
    const today = toRfc3339(now).slice(0, 10);
    const saidToday = new Map<string, string>();
    for (const entry of listCertificates(sources)) {
      const warning = warningOf(entry, now);
      if (warning === undefined) continue;
      const { name, level, message, fields } = warning;
      saidToday.set(name, today);
      if (saidOn.get(name) !== today) logger[level](fields, message);
    }
    saidOn = saidToday;
  };
}

interface Warning {
  /** Identifies the warning. */
  name: string;
  level: 'warn' | 'error';
  message: string;
  fields: object;
}

function warningOf(entry: CertificateEntry, now: number): Warning | undefined {
  const { authority, role, found } = entry;
  if ('missing' in found) {
    const fields = { event: 'certificate_ends', authority, role, detail: found.missing };
    const message = 'a certificate for time-stamps cannot be read';
    return { name: `${authority} ${role}`, level: 'error', message, fields };
  }
  const urgency = urgencyOfEntry(entry, now);
  if (urgency === 'none') return undefined;
  return {
    name: `${authority} ${found.serial} ${urgency}`,
    level: urgency === 'urgent' ? 'error' : 'warn',
    message: messageOf(entry, now),
    fields: {
      event: 'certificate_ends',
      authority,
      role,
      subject: found.subjectName,
      not_after: toRfc3339(found.notAfter),
      days_left: daysLeft(found, now),
      urgency,
    },
  };
}

function messageOf(entry: CertificateEntry, now: number): string {
  const state = validityOf(entry, now);
  if (entry.role === 'revocation-list')
    return 'the revocation list of a root for time-stamps has expired or expires soon: sign a new one with `pdfseal hsm sign-revocation-list`';
  if (state === 'revoked')
    return 'a certificate for time-stamps was revoked: it stamps nothing more. Certify another key, and restart the daemon';
  return state === 'expired'
    ? 'a certificate for time-stamps has expired: it stamps nothing more'
    : 'a certificate for time-stamps expires soon: issue a new certificate for the key, or make a new key';
}
