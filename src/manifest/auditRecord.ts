import * as z from 'zod';
import { fromUtf8, toHex } from '../base/bytes.ts';
import { toRfc3339 } from '../base/clock.ts';
import { sha256 } from '../base/crypto.ts';
import { encodeCanonical, parseUniqueJson } from './jcs.ts';
import { environmentId } from './manifest.ts';

export const AUDIT_SCHEMA = 'pdfseal-audit/1';

/** The recorded actions. The names are stable: auditors search for them. */
export const ACTS = [
  'log.create',
  'key.issue',
  'key.rotate',
  'key.revoke',
  'epoch.plan',
  'epoch.cancel',
  'epoch.begin',
  'hsm.init_key',
  'hsm.destroy_key',
  'hsm.certify',
  'hsm.install_certificate',
  'hsm.revoke_certificate',
  'hsm.sign_revocation_list',
  'webhook.add',
  'webhook.change',
  'webhook.rotate',
  'webhook.enable',
  'webhook.disable',
  'webhook.remove',
  'webhook.replay',
  'drill.begin',
  'drill.end',
  'clock.accept',
  'config.reload',
  'console.invite',
  'console.login',
  'console.logout',
  'console.logout_all',
  'console.propose',
  'console.approve',
  'console.refuse',
  'console.expire',
  'document.read',
  'daemon.start',
  'daemon.stop',
  'backup.ask',
  'backup.make',
  'backup.remove',
  'restore',
  'rollback.accept',
  'signers.refuse',
  'signers.reset',
  'witness.accept',
  'witness.request',
  'index.repair',
  'jobs.take_over',
  'renewal.run',
  'store.migrate',
  'trust.export',
] as const;
export type ActName = (typeof ACTS)[number];

const whole = z.int().min(0);

/**
 * The actor, as far as the process that writes the record knows. `uid`, `pid` and `login_uid` come from the kernel; the rest was reported
 * to the process.
 */
const actorSchema = z.strictObject({
  /** The channel of the act: a command, the administration socket, a request with an API key, a person at the console, or the daemon itself. */
  via: z.enum(['command', 'administration', 'api', 'console', 'daemon']),
  uid: whole.exactOptional(),
  user: z.string().exactOptional(),
  /** The user who logged in, even after a change of user (proc(5), loginuid). */
  login_uid: whole.exactOptional(),
  sudo_user: z.string().exactOptional(),
  host: z.string().exactOptional(),
  pid: whole.exactOptional(),
  client: z.string().exactOptional(),
  /** Public name of the API key. */
  key: z.string().exactOptional(),
  /** The client certificate that identified the client, SHA-256 in lower-case hex. */
  certificate_sha256: z.string().exactOptional(),
  /** At the console: the name and the role of the session. */
  person: z.string().exactOptional(),
  role: z.string().exactOptional(),
  /** For an act at the console that needs two people: the name of the first. `person` approved it. */
  proposed_by: z.string().exactOptional(),
});
export type Actor = z.infer<typeof actorSchema>;

const reportedSchema = actorSchema.pick({ user: true, login_uid: true, sudo_user: true, host: true });

/** The person who called a command, as the command reports it in URL-encoded JSON; the process that records the act adds what the kernel reports. */
export function encodeReportedActor({ user, login_uid, sudo_user, host }: Actor): string {
  return encodeURIComponent(JSON.stringify({ user, login_uid, sudo_user, host }));
}

/** The reverse of {@link encodeReportedActor}; undefined for any other text. */
export function readReportedActor(text: string): Actor | undefined {
  try {
    return { via: 'command', ...reportedSchema.parse(JSON.parse(decodeURIComponent(text))) };
  } catch {
    return undefined;
  }
}

/** A recorded act. Its members have the names used on the wire. An unset member is absent. */
const recordSchema = z.strictObject({
  schema: z.literal(AUDIT_SCHEMA),
  /** The number of the record: from 1, without gaps. */
  number: z.int().min(1),
  at: z.iso.datetime({ precision: 3 }),
  /** `env_<name>`. */
  environment: z.string(),
  act: z.enum(ACTS),
  actor: actorSchema,
  object: z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null(), z.array(z.string())])),
  /** `begun`: a later record `concludes` the act. Without that record, the result of the act is unknown. */
  outcome: z.enum(['begun', 'done', 'failed']),
  /** The number of the record with the outcome `begun`. */
  concludes: z.int().min(1).exactOptional(),
  /** SHA-256 of the previous record, lower-case hex; absent in the first record. */
  previous: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .exactOptional(),
});

/** The objects of an act: names, ids and digests; never keys, PINs, secrets or customers' references. */
export type ActObject = Readonly<
  Record<string, string | number | boolean | null | readonly string[] | undefined>
>;

export type AuditRecord = Omit<z.infer<typeof recordSchema>, 'object'> & { object: ActObject };

/** An act to record. */
export type Act = Pick<AuditRecord, 'act' | 'actor' | 'object' | 'outcome' | 'concludes'>;

/** The position of a record in the trail. */
export interface AuditPlace {
  number: number;
  /** The text of the previous record; undefined for the first. */
  previous: string | undefined;
  atMs: number;
  environment: string;
}

/** The canonical form (RFC 8785) of a record: exactly the bytes that are sealed. */
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

/**
 * Whether a record names `previous` as the record before it; both are texts. In canonical form the members are sorted, so this one is the
 * last but one, and the record cannot end like this in any other way.
 */
export function followsRecord(text: string, previous: string): boolean {
  return text.endsWith(`,"previous":"${auditDigest(previous)}","schema":"${AUDIT_SCHEMA}"}`);
}

/** Whether the text of a record is about an act that defines epochs. `act` is the first member of the canonical form. */
export function isAboutEpochs(text: string): boolean {
  return text.startsWith('{"act":"epoch.') || text.startsWith('{"act":"log.create",');
}

/** SHA-256 of a record, lower-case hex. */
export function auditDigest(text: string): string {
  return toHex(sha256(fromUtf8(text)));
}

/** The reference in the manifest of a record's receipt. So the receipt alone shows which record existed. */
export function auditReference(number: number): string {
  return `audit/${number}`;
}

/** The number in {@link auditReference}; undefined for anything else. */
export function parseAuditReference(reference: string | undefined): number | undefined {
  const number = /^audit\/([1-9]\d{0,14})$/.exec(reference ?? '')?.[1];
  return number === undefined ? undefined : Number(number);
}

/** Parses the text of a record; undefined for a text that {@link encodeAuditRecord} cannot produce. */
export function parseAuditRecord(text: string): AuditRecord | undefined {
  try {
    const value = parseUniqueJson(text);
    const isCanonical = new TextDecoder().decode(encodeCanonical(value)) === text;
    const record = recordSchema.safeParse(value);
    return isCanonical ? record.data : undefined;
  } catch {
    return undefined;
  }
}
