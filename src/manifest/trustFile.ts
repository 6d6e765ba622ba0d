import * as z from 'zod';
import { type Certificate, parseCertificate } from '../asn1/certificate.ts';
import { MalformedDer } from '../asn1/der.ts';
import { isListOf, parseAuthorityList, type RevocationList } from '../asn1/revocationList.ts';
import { fromBase64, toBase64, toHex } from '../base/bytes.ts';
import { toRfc3339 } from '../base/clock.ts';
import { OperatorError } from '../base/errors.ts';
import { encodeQuorum, parseQuorum, type QuorumPolicy, quorumFault } from '../log/quorum.ts';
import { encodeVkey, type LogKey, noteKeyId, parseVkey } from '../log/verifierKey.ts';
import { parseWitnessPolicy, WitnessPolicyError } from '../log/witnessPolicy.ts';
import { parseUniqueJson } from './jcs.ts';

const TRUST_SCHEMA = 'pdfseal-trust/1';

/** The trust of a verifier. The administrator exports it once; each verifier pins it. */
export interface TrustFile {
  /** The trusted time-stamp authorities. An authority can have several roots. */
  timestampAuthorities: TrustedAuthority[];
  /** Revocation lists of their roots; absent: none. */
  revocationLists?: RevocationList[];
  logs: TrustedLog[];
}

export interface TrustedAuthority extends Validity {
  /** The authority's name in verdicts. */
  name: string;
  /** The root of the authority's tokens. */
  root: Certificate;
  /** Tokens must state this accuracy or a better one; if absent, they may state any accuracy within {@link ACCURACY_MAX_MS}, or none. */
  accuracyMaxMs?: number;
}

export interface TrustedLog {
  origin: string;
  /** The environment of this log's receipts, as on the wire: `env_<name>`. */
  environment: string;
  /** In chronological order, without overlaps. */
  epochs: TrustedEpoch[];
  /** The text of a C2SP tlog-policy, for {@link parseWitnessPolicy}: the witnesses trusted to have seen the log. */
  witnessPolicy?: string;
}

/** The rule for receipts with a `sealed_at` in the epoch. */
export interface TrustedEpoch extends Validity {
  notBefore: number;
  /** The keys that must sign a checkpoint. */
  quorum: QuorumPolicy;
  /** Whether a receipt without a time-stamp is accepted. */
  timestamps: 'required' | 'none';
  keys: LogKey[];
}

/** Milliseconds since the Unix epoch, both inclusive. An absent limit is open. */
interface Validity {
  notBefore?: number;
  notAfter?: number;
}

const validityShape = {
  not_before: z.iso.datetime().exactOptional(),
  not_after: z.iso.datetime().exactOptional(),
};

const keySchema = z.strictObject({
  vkey: z.string(),
  region: z.string().min(1),
  key_label: z.string().min(1),
  /** Set if the private key is in a file instead of an HSM. */
  software: z.literal(true).exactOptional(),
});

const epochSchema = z.strictObject({
  ...validityShape,
  not_before: z.iso.datetime(),
  quorum: z.union([z.number(), z.string()]),
  timestamps: z.enum(['required', 'none']),
  keys: z.array(keySchema).min(1),
});

const logSchema = z.strictObject({
  origin: z.string().min(1),
  environment: z.string().regex(/^env_[a-z][a-z0-9-]{0,31}$/),
  epochs: z.array(epochSchema).min(1),
  witness_policy: z.string().exactOptional(),
});

const authoritySchema = z.strictObject({
  name: z.string().min(1),
  root: z.string(),
  accuracy_max_ms: z.int().min(1).exactOptional(),
  ...validityShape,
});

const trustSchema = z.strictObject({
  schema: z.literal(TRUST_SCHEMA),
  timestamp_authorities: z.array(authoritySchema).default([]),
  revocation_lists: z.array(z.string()).exactOptional(),
  logs: z.array(logSchema).min(1),
});

/** The epoch of a receipt that was sealed `at`, milliseconds since the Unix epoch. */
export function epochOf({ epochs }: TrustedLog, at: number): TrustedEpoch | undefined {
  return epochs.find((epoch) => isWithin(epoch, at));
}

export function isWithin({ notBefore = -Infinity, notAfter = Infinity }: Validity, at: number): boolean {
  return notBefore <= at && at <= notAfter;
}

/** Reads a trust file strictly. Throws an OperatorError that names the invalid member. */
export function parseTrust(text: string): TrustFile {
  let json: unknown;
  try {
    json = parseUniqueJson(text);
  } catch (cause) {
    throw new OperatorError('trust file: not JSON, or an object has a member twice', { cause });
  }
  const parsed = trustSchema.safeParse(json);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw mistake(issue?.path.join('.') || 'file', issue?.message ?? 'malformed');
  }
  const { timestamp_authorities: authorities, revocation_lists: lists, logs } = parsed.data;
  const required = logs.some(({ epochs }) => epochs.some(({ timestamps }) => timestamps === 'required'));
  if (required && authorities.length === 0)
    throw mistake('timestamps', 'required, but timestamp_authorities names no authority');
  const origins = logs.map(({ origin }) => origin);
  requireDistinct('logs', origins);
  const timestampAuthorities = authorities.map(readAuthority);
  return {
    timestampAuthorities,
    ...(lists && { revocationLists: lists.map((one, index) => readList(one, index, timestampAuthorities)) }),
    logs: logs.map(readLog),
  };
}

/** The text of the trust file. Throws OperatorError for content that {@link parseTrust} refuses. */
export function encodeTrust({ timestampAuthorities, revocationLists, logs }: TrustFile): string {
  const wire: z.infer<typeof trustSchema> = {
    schema: TRUST_SCHEMA,
    timestamp_authorities: timestampAuthorities.map(({ name, root, accuracyMaxMs, ...validity }) => ({
      name,
      root: toBase64(root.der),
      ...(accuracyMaxMs !== undefined && { accuracy_max_ms: accuracyMaxMs }),
      ...writeValidity(validity),
    })),
    ...(revocationLists && { revocation_lists: revocationLists.map(({ der }) => toBase64(der)) }),
    logs: logs.map(writeLog),
  };
  const text = `${JSON.stringify(wire, undefined, 2)}\n`;
  parseTrust(text);
  return text;
}

/** Reads an authority from a trust file, or from an epoch of the store. Throws OperatorError. */
export function readAuthority(wire: z.infer<typeof authoritySchema>): TrustedAuthority {
  const { name, root, accuracy_max_ms: accuracyMaxMs, ...validity } = wire;
  const der = fromBase64(root);
  if (der === undefined) throw mistake(`root of ${name}`, 'is not Base64');
  try {
    return {
      name,
      root: parseCertificate(der),
      ...(accuracyMaxMs !== undefined && { accuracyMaxMs }),
      ...readValidity(validity, name),
    };
  } catch (cause) {
    if (!(cause instanceof MalformedDer)) throw cause;
    throw mistake(`root of ${name}`, `is not a certificate: ${cause.message}`);
  }
}

/** A list that none of the roots signed could say anything. */
function readList(base64: string, index: number, authorities: readonly TrustedAuthority[]): RevocationList {
  const where = `revocation_lists.${index}`;
  const der = fromBase64(base64);
  if (der === undefined) throw mistake(where, 'is not Base64');
  try {
    const list = parseAuthorityList(der);
    if (authorities.some(({ root }) => isListOf(list, root))) return list;
  } catch (cause) {
    if (!(cause instanceof MalformedDer)) throw cause;
    throw mistake(where, `cannot be used: ${cause.message}`);
  }
  throw mistake(where, 'is signed by none of the roots in timestamp_authorities');
}

function readLog(wire: z.infer<typeof logSchema>): TrustedLog {
  const { origin, environment, epochs, witness_policy: witnessPolicy } = wire;
  const read = epochs.map((epoch) => readEpoch(origin, epoch));
  for (const [index, { notBefore }] of read.entries()) {
    const end = index === 0 ? -Infinity : (read[index - 1]?.notAfter ?? Infinity);
    if (notBefore <= end)
      throw mistake(`epochs of ${origin}`, 'each must begin after the not_after of the one before');
  }
  if (witnessPolicy === undefined) return { origin, environment, epochs: read };
  try {
    parseWitnessPolicy(witnessPolicy, origin);
  } catch (cause) {
    if (!(cause instanceof WitnessPolicyError)) throw cause;
    throw mistake(`witness_policy of ${origin}`, cause.message);
  }
  return { origin, environment, epochs: read, witnessPolicy };
}

function readEpoch(
  origin: string,
  { quorum, timestamps, keys, ...validity }: z.infer<typeof epochSchema>,
): TrustedEpoch {
  const where = `epoch of ${origin} from ${validity.not_before}`;
  const trusted = keys.map((key) => readKey(origin, key));
  // One key with two names could meet a quorum alone. In a note, two keys with the same id cannot be distinguished.
  const ids = trusted.map((key) => toHex(noteKeyId(origin, key)));
  requireDistinct(`keys of ${origin}`, ids);
  const policy = parseQuorum(quorum);
  if (policy === undefined)
    throw mistake(
      `quorum, ${where}`,
      'must be such as 2, "2 of eu, us, ap" or "2 classical and 1 post-quantum"',
    );
  const fault = quorumFault(policy, trusted);
  if (fault !== undefined) throw mistake(`quorum, ${where}`, fault);
  return {
    ...readValidity(validity, where),
    notBefore: Date.parse(validity.not_before),
    quorum: policy,
    timestamps,
    keys: trusted,
  };
}

function readKey(origin: string, wire: z.infer<typeof keySchema>): LogKey {
  const vkey = parseVkey(wire.vkey);
  if (vkey === undefined)
    throw mistake(`vkey ${wire.vkey}`, 'is not an Ed25519, ECDSA P-256 or ML-DSA-44 verifier key');
  if (vkey.name !== origin)
    throw mistake(`vkey ${wire.vkey}`, `must have the log's origin as its name, ${origin}`);
  const { region, key_label: keyLabel, software } = wire;
  return { region, keyLabel, algorithm: vkey.algorithm, spki: vkey.spki, ...(software && { software }) };
}

type WireValidity = z.infer<z.ZodObject<typeof validityShape>>;

function readValidity({ not_before, not_after }: WireValidity, where: string): Validity {
  const validity = {
    ...(not_before !== undefined && { notBefore: Date.parse(not_before) }),
    ...(not_after !== undefined && { notAfter: Date.parse(not_after) }),
  };
  if ((validity.notBefore ?? -Infinity) > (validity.notAfter ?? Infinity))
    throw mistake(where, 'not_before is later than not_after');
  return validity;
}

function writeLog({ origin, environment, epochs, witnessPolicy }: TrustedLog): z.infer<typeof logSchema> {
  return {
    origin,
    environment,
    epochs: epochs.map(({ quorum, timestamps, keys, ...validity }) => ({
      ...writeValidity(validity),
      not_before: toRfc3339(validity.notBefore),
      quorum: encodeQuorum(quorum),
      timestamps,
      keys: keys.map((key) => ({
        vkey: encodeVkey(origin, key),
        region: key.region,
        key_label: key.keyLabel,
        ...(key.software && { software: key.software }),
      })),
    })),
    ...(witnessPolicy !== undefined && { witness_policy: witnessPolicy }),
  };
}

function writeValidity({ notBefore, notAfter }: Validity): WireValidity {
  return {
    ...(notBefore !== undefined && { not_before: toRfc3339(notBefore) }),
    ...(notAfter !== undefined && { not_after: toRfc3339(notAfter) }),
  };
}

function requireDistinct(what: string, names: readonly string[]): void {
  if (new Set(names).size < names.length) throw mistake(what, 'the same one is listed twice');
}

function mistake(where: string, what: string): OperatorError {
  return new OperatorError(`trust file: ${where}: ${what}`);
}
