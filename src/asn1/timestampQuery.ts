import type { DigestName } from '../base/crypto.ts';
import {
  contentOf,
  contextTag,
  type Element,
  encodeUnsigned,
  Fields,
  generalizedTime,
  integer,
  MalformedDer,
  octetString,
  oid,
  parseDer,
  primitive,
  primitiveTag,
  readBoolean,
  readGeneralizedTime,
  readInteger,
  readOid,
  sequence,
  TAG,
  TRUE,
} from './der.ts';
import { DIGEST_BYTES, digestAlgorithm, readDigestAlgorithm } from './signatureAlgorithm.ts';

/** The hash of the data to stamp (RFC 3161, section 2.4.1). */
export interface MessageImprint {
  algorithm: DigestName;
  digest: Uint8Array;
}

/** A TimeStampReq (RFC 3161, section 2.4.1). */
export interface TimestampQuery {
  /** Undefined if the hash function is not accepted. */
  imprint: MessageImprint | undefined;
  /** DER of the MessageImprint in the query, to repeat in the answer. */
  imprintDer: Uint8Array;
  /** Dotted object identifier. */
  policy?: string;
  /** Content octets of the INTEGER. */
  nonce?: Uint8Array;
  certReq: boolean;
  /** Whether the query asks for extensions, none of which is supported. */
  hasExtensions: boolean;
}

/** A TSTInfo (RFC 3161, section 2.4.2): the statement of a token. */
export interface TstInfo {
  policy: string;
  imprint: MessageImprint | undefined;
  /** Content octets of the INTEGER, at most 160 bits. Unique among the tokens of one authority. */
  serial: Uint8Array;
  /** Milliseconds since the epoch. */
  genTime: number;
  /** Accuracy in milliseconds, plus or minus; undefined if the token does not state it. */
  accuracyMs?: number;
  nonce?: Uint8Array;
}

/** Maximum octets of a query's nonce; clients send 8. */
const NONCE_BYTES_MAX = 64;
/** RFC 3161, section 2.4.2. */
const SERIAL_BYTES_MAX = 21;

/** DER of a query. `nonce` has the content octets of an INTEGER. */
export function encodeQuery(query: {
  imprint: MessageImprint;
  policy?: string | undefined;
  nonce?: Uint8Array;
  certReq: boolean;
}): Uint8Array {
  const { algorithm, digest } = query.imprint;
  return sequence(
    integer(1),
    sequence(digestAlgorithm(algorithm), octetString(digest)),
    query.policy === undefined ? undefined : oid(query.policy),
    query.nonce && primitive(TAG.integer, query.nonce),
    query.certReq ? TRUE : undefined,
  );
}

/** Reads a query. Throws MalformedDer, and UnsupportedVersion if the version is not 1. */
export function parseQuery(der: Uint8Array): TimestampQuery {
  const fields = new Fields(parseDer(der));
  if (readInteger(fields.take(TAG.integer)) !== 1)
    throw new UnsupportedVersion('a query of a version other than 1');
  const imprint = fields.take(TAG.sequence);
  const policy = fields.takeIf(TAG.oid);
  const nonce = readNonce(fields.takeIf(TAG.integer));
  const certReq = fields.takeIf(TAG.boolean);
  const extensions = fields.takeIf(contextTag(0));
  fields.end();
  return {
    imprint: readImprint(imprint),
    imprintDer: imprint.der,
    ...(policy && { policy: readOid(policy) }),
    ...(nonce && { nonce }),
    certReq: certReq !== undefined && readBoolean(certReq),
    hasExtensions: extensions !== undefined,
  };
}

/** The structure has a version that this program does not support. */
export class UnsupportedVersion extends Error {
  override readonly name = 'UnsupportedVersion';
}

/** DER of a TSTInfo with accuracy, without ordering and extensions (ETSI EN 319 422, clause 5.2). */
export function encodeTstInfo(info: {
  policy: string;
  imprintDer: Uint8Array;
  serial: Uint8Array;
  genTime: number;
  accuracyMs: number;
  nonce?: Uint8Array | undefined;
}): Uint8Array {
  const [seconds, millis] = [Math.floor(info.accuracyMs / 1000), info.accuracyMs % 1000];
  return sequence(
    integer(1),
    oid(info.policy),
    info.imprintDer,
    primitive(TAG.integer, info.serial),
    generalizedTime(info.genTime),
    sequence(
      seconds === 0 ? undefined : integer(seconds),
      millis === 0 ? undefined : primitive(primitiveTag(0), encodeUnsigned(millis)),
    ),
    info.nonce && primitive(TAG.integer, info.nonce),
  );
}

/** Reads a TSTInfo of any authority. Throws MalformedDer, also for a critical extension, because none is supported. */
export function parseTstInfo(der: Uint8Array): TstInfo {
  const fields = new Fields(parseDer(der));
  if (readInteger(fields.take(TAG.integer)) !== 1)
    throw new MalformedDer('a TSTInfo of a version other than 1');
  const policy = readOid(fields.take(TAG.oid));
  const imprint = readImprint(fields.take(TAG.sequence));
  const serial = contentOf(fields.take(TAG.integer));
  if (serial.length === 0 || serial.length > SERIAL_BYTES_MAX)
    throw new MalformedDer('a serial number out of range');
  const genTime = readGeneralizedTime(fields.take(TAG.generalizedTime));
  const accuracy = fields.takeIf(TAG.sequence);
  const ordering = fields.takeIf(TAG.boolean);
  if (ordering !== undefined) readBoolean(ordering);
  const nonce = readNonce(fields.takeIf(TAG.integer));
  // The authority's name is ignored: the certificate identifies the authority.
  fields.takeIf(contextTag(0));
  refuseCritical(fields.takeIf(contextTag(1)));
  fields.end();
  return {
    policy,
    imprint,
    serial,
    genTime,
    ...(accuracy && { accuracyMs: readAccuracy(accuracy) }),
    ...(nonce && { nonce }),
  };
}

function readImprint(element: Element): MessageImprint | undefined {
  const fields = new Fields(element);
  const algorithm = readDigestAlgorithm(fields.take(TAG.sequence));
  const digest = contentOf(fields.take(TAG.octetString));
  fields.end();
  if (algorithm === undefined) return undefined;
  if (digest.length !== DIGEST_BYTES[algorithm])
    throw new MalformedDer(`a ${algorithm} digest of the wrong length`);
  return { algorithm, digest };
}

function readNonce(element: Element | undefined): Uint8Array | undefined {
  const nonce = element && contentOf(element);
  if (nonce?.length === 0 || (nonce?.length ?? 0) > NONCE_BYTES_MAX)
    throw new MalformedDer('a nonce out of range');
  return nonce;
}

/** Accuracy ::= SEQUENCE { seconds INTEGER OPTIONAL, millis [0] INTEGER (1..999) OPTIONAL, micros [1] … } */
function readAccuracy(element: Element): number {
  const fields = new Fields(element);
  const seconds = fields.takeIf(TAG.integer);
  const millis = fields.takeIf(primitiveTag(0));
  const micros = fields.takeIf(primitiveTag(1));
  fields.end();
  const read = (part: Element | undefined) => (part === undefined ? 0 : readInteger(part));
  return read(seconds) * 1000 + read(millis) + read(micros) / 1000;
}

function refuseCritical(extensions: Element | undefined): void {
  if (extensions === undefined) return;
  for (const extension of new Fields(extensions, contextTag(1)).rest()) {
    const fields = new Fields(extension);
    fields.take(TAG.oid);
    const critical = fields.takeIf(TAG.boolean);
    if (critical !== undefined && readBoolean(critical))
      throw new MalformedDer('a critical extension of the TSTInfo');
  }
}
