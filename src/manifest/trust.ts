import { z } from 'zod';
import { type Certificate, parseCertificate } from '../asn1/certificate.ts';
import { MalformedDer } from '../asn1/der.ts';
import { fromBase64, toBase64 } from '../base/bytes.ts';
import { toTimestamp } from '../base/clock.ts';
import { OperatorError } from '../base/errors.ts';
import { encodeVkey, type LogKey, noteKeyId, parseVkey } from '../log/keys.ts';
import { parseUniqueJson } from './jcs.ts';
import { kmsKeyId } from './receipt.ts';

const TRUST_SCHEMA = 'pdfseal-trust/1';

/** What a verifier trusts: exported once by the administrator, pinned by whoever verifies. */
export interface TrustFile {
  /** Whether a receipt without a time-stamp is good. */
  timestamps: 'required' | 'optional';
  /** Who may stamp; one authority may have several roots. */
  timestampAuthorities: TrustedAuthority[];
  logs: TrustedLog[];
}

export interface TrustedAuthority {
  /** How verdicts call it. */
  name: string;
  /** The certificate its tokens chain up to. */
  root: Certificate;
}

export interface TrustedLog {
  origin: string;
  /** The environment whose receipts this log may carry, as on the wire: `env_<name>`. */
  environment: string;
  /** How many different keys must have signed a checkpoint, 1 to `keys.length`. */
  quorum: number;
  keys: TrustedKey[];
}

/** A key, and when what it sealed counts: milliseconds since the epoch, both inclusive; open where absent. */
export interface TrustedKey extends LogKey {
  notBefore?: number;
  notAfter?: number;
}

const keySchema = z.strictObject({
  vkey: z.string(),
  region: z.string().min(1),
  key_label: z.string().min(1),
  not_before: z.iso.datetime().exactOptional(),
  not_after: z.iso.datetime().exactOptional(),
});

const logSchema = z.strictObject({
  origin: z.string().min(1),
  environment: z.string().regex(/^env_[a-z][a-z0-9-]{0,31}$/),
  quorum: z.int().min(1),
  keys: z.array(keySchema).min(1),
});

const authoritySchema = z.strictObject({ name: z.string().min(1), root: z.string() });

const trustSchema = z.strictObject({
  schema: z.literal(TRUST_SCHEMA),
  timestamps: z.enum(['required', 'optional']).default('optional'),
  timestamp_authorities: z.array(authoritySchema).default([]),
  logs: z.array(logSchema).min(1),
});

/** Reads a trust file strictly. Throws OperatorError that names the member at fault. */
export function parseTrust(text: string): TrustFile {
  const parsed = trustSchema.safeParse(parseJson(text));
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw mistake(issue?.path.join('.') || 'file', issue?.message ?? 'malformed');
  }
  const { timestamps, timestamp_authorities: authorities, logs } = parsed.data;
  if (timestamps === 'required' && authorities.length === 0)
    throw mistake('timestamps', 'required, but timestamp_authorities names nobody who could give one');
  requireDistinct(
    'logs',
    logs.map((log) => log.origin),
  );
  return {
    timestamps,
    timestampAuthorities: authorities.map(readAuthority),
    logs: logs.map(readLog),
  };
}

/** The trust file's text. Throws OperatorError for what {@link parseTrust} would refuse. */
export function encodeTrust({ timestamps, timestampAuthorities, logs }: TrustFile): string {
  const wire: z.infer<typeof trustSchema> = {
    schema: TRUST_SCHEMA,
    timestamps,
    timestamp_authorities: timestampAuthorities.map(({ name, root }) => ({ name, root: toBase64(root.der) })),
    logs: logs.map(writeLog),
  };
  const text = `${JSON.stringify(wire, undefined, 2)}\n`;
  parseTrust(text);
  return text;
}

function readAuthority({ name, root }: z.infer<typeof authoritySchema>): TrustedAuthority {
  const der = fromBase64(root);
  if (der === undefined) throw mistake(`root of ${name}`, 'is not Base64');
  try {
    return { name, root: parseCertificate(der) };
  } catch (cause) {
    if (!(cause instanceof MalformedDer)) throw cause;
    throw mistake(`root of ${name}`, `is no certificate: ${cause.message}`);
  }
}

function readLog({ origin, environment, quorum, keys }: z.infer<typeof logSchema>): TrustedLog {
  const trusted = keys.map((key) => readKey(origin, key));
  // One key under two names would fill a quorum alone; two keys of one id could not be told apart in a note.
  requireDistinct(
    `keys of ${origin}`,
    trusted.map((key) => noteKeyId(origin, key).toString('hex')),
  );
  if (quorum > keys.length)
    throw mistake(`quorum of ${origin}`, `${quorum} of ${keys.length} keys can never sign`);
  return { origin, environment, quorum, keys: trusted };
}

function readKey(origin: string, wire: z.infer<typeof keySchema>): TrustedKey {
  const vkey = parseVkey(wire.vkey);
  if (vkey === undefined) throw mistake(`vkey ${wire.vkey}`, 'is not an Ed25519 or ECDSA P-256 verifier key');
  if (vkey.name !== origin)
    throw mistake(`vkey ${wire.vkey}`, `must have the log's origin as its name, ${origin}`);
  const key: TrustedKey = {
    region: wire.region,
    keyLabel: wire.key_label,
    algorithm: vkey.algorithm,
    spki: vkey.spki,
    ...(wire.not_before !== undefined && { notBefore: Date.parse(wire.not_before) }),
    ...(wire.not_after !== undefined && { notAfter: Date.parse(wire.not_after) }),
  };
  if ((key.notBefore ?? -Infinity) > (key.notAfter ?? Infinity)) {
    throw mistake(`key ${kmsKeyId(key)}`, 'not_before is later than not_after');
  }
  return key;
}

function writeLog({ origin, environment, quorum, keys }: TrustedLog): z.infer<typeof logSchema> {
  return { origin, environment, quorum, keys: keys.map((key) => writeKey(origin, key)) };
}

function writeKey(origin: string, key: TrustedKey): z.infer<typeof keySchema> {
  return {
    vkey: encodeVkey(origin, key),
    region: key.region,
    key_label: key.keyLabel,
    ...(key.notBefore !== undefined && { not_before: toTimestamp(key.notBefore) }),
    ...(key.notAfter !== undefined && { not_after: toTimestamp(key.notAfter) }),
  };
}

function parseJson(text: string): unknown {
  try {
    return parseUniqueJson(text);
  } catch (cause) {
    throw new OperatorError('trust file: it is not JSON, or an object in it names a member twice', { cause });
  }
}

function requireDistinct(what: string, names: readonly string[]): void {
  if (new Set(names).size < names.length) throw mistake(what, 'the same one is listed twice');
}

function mistake(where: string, what: string): OperatorError {
  return new OperatorError(`trust file: ${where}: ${what}`);
}
