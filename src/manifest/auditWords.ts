/** Audit records in a form for people to read and search. */
import type { ActObject, Actor, AuditRecord } from './auditRecord.ts';

/** Times are milliseconds since the epoch, `until` exclusive. `act` is an act, or a group such as `key`. */
export interface RecordFilter {
  since?: number;
  until?: number;
  act?: string;
  /** A part of the text from {@link describeActor}. */
  who?: string;
}

export function fitsFilter(record: AuditRecord, { since, until, act, who }: RecordFilter): boolean {
  const at = Date.parse(record.at);
  return (
    at >= (since ?? 0) &&
    at < (until ?? Number.POSITIVE_INFINITY) &&
    (act === undefined || record.act === act || record.act.startsWith(`${act}.`)) &&
    (who === undefined || describeActor(record.actor).includes(who))
  );
}

/**
 * `alice (sudo by bob, login 1000) on host`, `invoices by key_…` (with the SHA-256 of the certificate, if one identified the client) or
 * `console alice (operator)`.
 */
export function describeActor(actor: Actor): string {
  const { via, user, uid, login_uid, sudo_user, host } = actor;
  const { client, key, certificate_sha256: certificate, person, role, proposed_by } = actor;
  if (client !== undefined) return `${client} by ${key}${certificate ? `, certificate ${certificate}` : ''}`;
  if (person !== undefined) {
    const first = proposed_by === undefined ? '' : `, proposed by ${proposed_by}`;
    return `${via} ${person} (${role})${first}`;
  }
  const more = [
    ...(sudo_user === undefined ? [] : [`sudo by ${sudo_user}`]),
    ...(login_uid === undefined ? [] : [`login ${login_uid}`]),
  ];
  const name = user ?? (uid === undefined ? 'socket' : `uid ${uid}`);
  const where = host === undefined ? '' : ` on ${host}`;
  return `${via === 'command' ? '' : `${via} `}${name}${more.length > 0 ? ` (${more.join(', ')})` : ''}${where}`;
}

/** Longer values, such as keys, do not fit into a table. */
const SHOWN_LENGTH_MAX = 100;

export function describeObject(object: ActObject): string {
  return Object.entries(object)
    .map(([name, value]) => {
      const text = Array.isArray(value) ? value.join(',') : String(value);
      return `${name}=${text.length > SHOWN_LENGTH_MAX ? `${text.slice(0, SHOWN_LENGTH_MAX)}…` : text}`;
    })
    .join(' ');
}
