import { bytesEqual, toHex } from '../base/bytes.ts';
import { digestOf } from '../base/crypto.ts';
import {
  type Certificate,
  describeSubject,
  parseCertificate,
  timestampingFault,
  UNTRUSTED_KEY,
} from './certificate.ts';
import { findChain } from './chain.ts';
import {
  parseSignedData,
  readAttribute,
  readSigningCertificate,
  type SignedData,
  type SignerInfo,
} from './cms.ts';
import { contentOf, MalformedDer, readOid } from './der.ts';
import { OID } from './oid.ts';
import { verifyScheme } from './signatureAlgorithm.ts';
import { type MessageImprint, parseTstInfo, type TstInfo } from './timestampQuery.ts';

/** A parsed TimeStampToken (RFC 3161, section 2.4.2), not verified. */
export interface TimestampToken {
  info: TstInfo;
  signedData: SignedData;
}

/** Facts that a verified token proves. */
export interface VerifiedTimestamp {
  /** Milliseconds since the epoch. */
  genTime: number;
  /** Accuracy in milliseconds, plus or minus; undefined if the authority does not state it. */
  accuracyMs?: number;
  /** Lower-case hex. */
  serial: string;
  /** Dotted object identifier. */
  policy: string;
  /** Subject of the authority's certificate, in one line. */
  authority: string;
  /** DER, from the authority's certificate to the trusted root, both included. */
  chain: Uint8Array[];
  /** When the first certificate of the chain expires; milliseconds since the epoch. */
  notAfter: number;
}

/**
 * The fault of a token. Two faults do not make the token invalid: `unsupported` may be a limit of this program, and `untrusted` means that
 * the verifier does not know the authority.
 */
export type TokenFault =
  | 'malformed'
  | 'unsupported'
  | 'imprint'
  | 'nonce'
  | 'policy'
  | 'certificate'
  | 'signature'
  | 'chain'
  | 'untrusted';

export type TokenVerdict =
  | { outcome: 'good'; timestamp: VerifiedTimestamp }
  | { outcome: 'bad'; fault: TokenFault; detail: string };

export interface TokenVerification {
  /** DER, as received. */
  token: Uint8Array;
  /** The expected digest of the stamped data. */
  messageImprint: MessageImprint;
  /**
   * The roots that the verifier trusts, or trusts at a given time (milliseconds since the epoch): the chain leads to the first one
   * possible.
   */
  trustedRoots: readonly Certificate[] | ((at: number) => readonly Certificate[]);
  /** DER of certificates that may be part of the chain; the token may contain others. */
  certificates?: readonly Uint8Array[];
  /** When the certificates must be valid, milliseconds since the epoch; default: the token's own time. */
  at?: number;
  /** The nonce of the query: content octets of the INTEGER. */
  nonce?: Uint8Array;
  /** The only accepted policy. */
  policy?: string;
}

/** Longest accepted token in bytes. Most have 1 to 6 KiB. */
const TOKEN_BYTES_MAX = 65_536;

/** Reads a token. Throws MalformedDer. */
export function parseTimestampToken(der: Uint8Array): TimestampToken {
  if (der.length > TOKEN_BYTES_MAX) throw new MalformedDer('a token of more than 64 KiB');
  const signedData = parseSignedData(der);
  if (signedData.contentType !== OID.tstInfo) throw new MalformedDer('its content is not a TSTInfo');
  return { signedData, info: parseTstInfo(signedData.content) };
}

/**
 * Verifies a token completely: the stamped digest, the signature, the purpose of the signer's certificate, and the chain to a trusted root
 * (RFC 3161, section 2.2; RFC 5652, section 5.6; RFC 5816). Works offline and does not check revocation. Never throws, whatever the token
 * and the certificates contain.
 */
export function verifyTimestampToken(input: TokenVerification): TokenVerdict {
  try {
    return { outcome: 'good', timestamp: verify(input) };
  } catch (error) {
    if (error instanceof Rejected) return { outcome: 'bad', fault: error.fault, detail: error.message };
    const detail = error instanceof MalformedDer ? error.message : `cannot be read: ${String(error)}`;
    return { outcome: 'bad', fault: 'malformed', detail };
  }
}

/** Ends a verification with its fault. */
export class Rejected<Fault extends string = TokenFault> extends Error {
  override readonly name = 'Rejected';
  readonly fault: Fault;

  constructor(fault: Fault, detail: string) {
    super(detail);
    this.fault = fault;
  }
}

function verify(input: TokenVerification): VerifiedTimestamp {
  const { info, signedData } = parseTimestampToken(input.token);
  const { messageImprint, nonce, policy } = input;
  const { algorithm, digest } = messageImprint;
  if (info.imprint?.algorithm !== algorithm || !bytesEqual(info.imprint.digest, digest))
    throw new Rejected(
      'imprint',
      `stamps something else: its message imprint is not the expected ${algorithm} digest`,
    );
  if (nonce !== undefined && !(info.nonce && bytesEqual(info.nonce, nonce)))
    throw new Rejected('nonce', 'does not repeat the nonce: an answer to another query');
  if (policy !== undefined && info.policy !== policy)
    throw new Rejected('policy', `issued under policy ${info.policy}`);
  const pool = readPool([...signedData.certificates, ...(input.certificates ?? [])]);
  const certificate = signerCertificate(signedData.signer, pool);
  checkSignature(signedData, certificate);
  const fault = timestampingFault(certificate);
  if (fault !== undefined) throw new Rejected('certificate', `${describeSubject(certificate)} ${fault}`);
  const { trustedRoots, at = info.genTime } = input;
  const roots = typeof trustedRoots === 'function' ? trustedRoots(at) : trustedRoots;
  const found = findChain(certificate, pool, roots, at);
  if ('fault' in found) throw new Rejected(found.untrusted ? 'untrusted' : 'chain', found.fault);
  return {
    genTime: info.genTime,
    ...(info.accuracyMs !== undefined && { accuracyMs: info.accuracyMs }),
    serial: toHex(info.serial),
    policy: info.policy,
    authority: describeSubject(certificate),
    chain: found.chain.map(({ der }) => der),
    notAfter: Math.min(...found.chain.map(({ notAfter }) => notAfter)),
  };
}

/** Parses the certificates and skips unreadable ones. If the chain needs a skipped certificate, verification fails. */
function readPool(ders: readonly Uint8Array[]): Certificate[] {
  return ders.flatMap((der) => {
    try {
      return [parseCertificate(der)];
    } catch (error) {
      if (error instanceof MalformedDer) return [];
      throw error;
    }
  });
}

/** The certificate whose digest is in the signed attributes (RFC 5816, section 2.2.1). The signer's id must name it too. */
function signerCertificate(signer: SignerInfo, pool: readonly Certificate[]): Certificate {
  const name = readSigningCertificate(signer);
  if (name === undefined)
    throw new Rejected('unsupported', 'names its certificate by a hash that is not supported');
  const found = pool.find(({ der }) => bytesEqual(digestOf(name.digest, der), name.hash));
  if (found === undefined)
    throw new Rejected('certificate', 'its certificate is neither in the token nor beside it');
  const { id } = signer;
  const isNamed =
    'issuer' in id
      ? bytesEqual(id.issuer, found.issuer) && bytesEqual(id.serial, found.serial)
      : found.subjectKeyIdentifier && bytesEqual(found.subjectKeyIdentifier, id.subjectKeyIdentifier);
  if (!isNamed) throw new Rejected('certificate', 'names two different certificates as its own');
  return found;
}

function checkSignature({ content, contentType, signer }: SignedData, certificate: Certificate): void {
  const { digest, scheme, signedBytes, signature } = signer;
  if (digest === undefined || scheme === undefined)
    throw new Rejected('unsupported', 'signed with an algorithm that is not supported');
  if (readOid(readAttribute(signer, OID.contentType)) !== contentType)
    throw new Rejected('signature', 'the signature is over content of another type');
  if (!bytesEqual(contentOf(readAttribute(signer, OID.messageDigest)), digestOf(digest, content)))
    throw new Rejected('signature', 'the signature is over other content');
  const { publicKey } = certificate;
  if (publicKey === undefined)
    throw new Rejected('certificate', `${describeSubject(certificate)} ${UNTRUSTED_KEY}`);
  if (!verifyScheme(scheme, publicKey, signedBytes, signature))
    throw new Rejected('signature', 'the signature is not that of its certificate');
}
