import type { Logger } from 'pino';
import { toHex } from '../base/bytes.ts';
import { type Clock, toRfc3339 } from '../base/clock.ts';
import { daysLeft, urgencyOf } from '../base/validity.ts';
import {
  type CertificateEntry,
  type CertificateSources,
  listCertificates,
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
  const urgency = urgencyOf(found, now);
  if (urgency === 'none') return undefined;
  const subject = found.subjectName;
  const expired = validityOf(entry, now) === 'expired';
  return {
    name: `${authority} ${toHex(found.serial)} ${urgency}`,
    level: urgency === 'urgent' ? 'error' : 'warn',
    message: expired
      ? 'a certificate for time-stamps has expired: it stamps nothing more'
      : 'a certificate for time-stamps expires soon: issue a new certificate for the key, or make a new key',
    fields: {
      event: 'certificate_ends',
      authority,
      role,
      subject,
      not_after: toRfc3339(found.notAfter),
      days_left: daysLeft(found, now),
      urgency,
    },
  };
}
