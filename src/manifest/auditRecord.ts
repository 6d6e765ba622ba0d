import * as z from 'zod';
import { fromUtf8, toHex } from '../base/bytes.ts';
import { toRfc3339 } from '../base/clock.ts';
import { sha256 } from '../base/crypto.ts';
import { encodeCanonical, parseUniqueJson } from './jcs.ts';
import { environmentId } from './manifest.ts';

export const AUDIT_SCHEMA = 'pdfseal-audit/1';

/** What is on record, by stable names: auditors search for them. */
export const ACTS = [
  'log.create',
  'key.issue',
  'key.rotate',
  'key.revoke',
  'epoch.plan',
  'epoch.cancel',
  'hsm.init_key',
  'hsm.destroy_key',
  'hsm.certify',
  'hsm.install_certificate',
  'webhook.add',
  'webhook.change',
  'webhook.rotate',
  'webhook.enable',
  'webhook.disable',
  'webhook.remove',
  'webhook.replay',
  'drill.begin',
  'drill.end',
  'config.reload',
  'daemon.start',
  'daemon.stop',
  'backup.make',
  'backup.remove',
  'restore',
  'index.repair',
  'trust.export',
] as const;
export type ActName = (typeof ACTS)[number];

/** `begun`: a record that another one `concludes`; where none does, nobody knows how far the act came. */
export const ACT_OUTCOMES = ['begun', 'done', 'failed'] as const;

/**
 * Who acts, as the process that writes the record knows it. `uid`, `pid` and `login_uid` come from the kernel; the rest is
 * what the process was told.
 */
export interface Actor {
  /** The way of the act: a command, the administration's socket, a request with an API key, or the daemon by itself. */
  via: 'command' | 'administration' | 'api' | 'daemon';
  uid?: number;
  user?: string;
  /** Who logged in, whatever was become since (proc(5), loginuid). */
  login_uid?: number;
  sudo_user?: string;
  host?: string;
  pid?: number;
  client?: string;
  /** Public name of the API key. */
  key?: string;
}

/** What an act is about: names, ids and digests; never keys, PINs, secrets, references of customers. */
export type ActObject = Readonly<Record<string, string | number | boolean | null | readonly string[]>>;

/** An act that is about to be put on record. */
export interface Act {
  act: ActName;
  actor: Actor;
  object: ActObject;
  outcome: (typeof ACT_OUTCOMES)[number];
  /** The number of the record that says it was begun. */
  concludes?: number;
}

/** One act on record. Members are on the wire, so their names are; one that is unset is absent. */
export interface AuditRecord extends Act {
  schema: typeof AUDIT_SCHEMA;
  /** From 1 on, without gaps. */
  number: number;
  /** RFC 3339, UTC, milliseconds. */
  at: string;
  /** `env_<name>`. */
  environment: string;
  /** SHA-256 of the record before this one, lower-case hex; absent from the first. */
  previous?: string;
}

/** Where a record stands in the trail. */
export interface AuditPlace {
  number: number;
  /** The text of the record before; undefined for the first. */
  previous: string | undefined;
  atMs: number;
  environment: string;
}

/** The canonical form (RFC 8785) of a record: the document that is sealed, byte for byte. */
export function encodeAuditRecord(act: Act, { number, previous, atMs, environment }: AuditPlace): string {
  const record: AuditRecord = {
    schema: AUDIT_SCHEMA,
    number,
    at: toRfc3339(atMs),
    environment: environmentId(environment),
    ...act,
    ...(previous !== undefined && { previous: auditDigest(previous) }),
  };
  return new TextDecoder().decode(encodeCanonical(record));
}

/** SHA-256 of a record, lower-case hex. */
export function auditDigest(text: string): string {
  return toHex(sha256(fromUtf8(text)));
}

/** What the manifest of a record's receipt calls it: so a receipt alone says which record there was. */
export function auditReference(number: number): string {
  return `audit/${number}`;
}

/** The number in {@link auditReference}; undefined for anything else. */
export function parseAuditReference(reference: string | undefined): number | undefined {
  const number = /^audit\/([1-9]\d{0,14})$/.exec(reference ?? '')?.[1];
  return number === undefined ? undefined : Number(number);
}

const whole = z.int().min(0);

const recordSchema = z.object({
  schema: z.literal(AUDIT_SCHEMA),
  number: z.int().min(1),
  at: z.iso.datetime({ precision: 3 }),
  environment: z.string(),
  act: z.enum(ACTS),
  actor: z.strictObject({
    via: z.enum(['command', 'administration', 'api', 'daemon']),
    uid: whole.exactOptional(),
    user: z.string().exactOptional(),
    login_uid: whole.exactOptional(),
    sudo_user: z.string().exactOptional(),
    host: z.string().exactOptional(),
    pid: whole.exactOptional(),
    client: z.string().exactOptional(),
    key: z.string().exactOptional(),
  }),
  object: z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null(), z.array(z.string())])),
  outcome: z.enum(ACT_OUTCOMES),
  concludes: z.int().min(1).exactOptional(),
  previous: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .exactOptional(),
});

/** Reads the text of a record; undefined for anything that {@link encodeAuditRecord} does not make. */
export function parseAuditRecord(text: string): AuditRecord | undefined {
  try {
    const value = parseUniqueJson(text);
    const isCanonical = new TextDecoder().decode(encodeCanonical(value)) === text;
    const record = recordSchema.strict().safeParse(value);
    return isCanonical && record.success ? record.data : undefined;
  } catch {
    return undefined;
  }
}
