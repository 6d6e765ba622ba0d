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

/** A TimeStampToken (RFC 3161, section 2.4.2) as it was read, nothing of it verified. */
export interface TimestampToken {
  info: TstInfo;
  signedData: SignedData;
}

/** What a token proves, once it is verified. */
export interface VerifiedTimestamp {
  /** Milliseconds since the epoch. */
  genTime: number;
  /** Milliseconds either way; undefined where the authority does not say. */
  accuracyMs?: number;
  /** Lower-case hex. */
  serial: string;
  /** Dotted object identifier. */
  policy: string;
  /** Subject of the authority's certificate, in one line. */
  authority: string;
  /** DER, from the authority's certificate to the trusted root, both included. */
  chain: Uint8Array[];
  /** When the first certificate of the chain ends; milliseconds since the epoch. */
  notAfter: number;
}

/**
 * What is wrong with a token. Two say nothing against it: `unsupported` may be the fault of this program, and `untrusted` that of
 * the verifier, who does not know the authority.
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
  /** DER, as it came. */
  token: Uint8Array;
  /** The digest of what must have been stamped. */
  messageImprint: MessageImprint;
  /** Those the verifier trusts. */
  trustedRoots: readonly Certificate[];
  /** DER of certificates that may stand between; the token may bring its own. */
  certificates?: readonly Uint8Array[];
  /** When the certificates must be valid, milliseconds since the epoch; the token's own time if left out. */
  at?: number;
  /** Content octets of the INTEGER that was sent along. */
  nonce?: Uint8Array;
  /** The one policy that will do. */
  policy?: string;
}

/** No token this service takes is longer; most have 1 to 6 KiB. */
const TOKEN_BYTES_MAX = 65_536;

/** Reads a token. Throws MalformedDer. */
export function parseTimestampToken(der: Uint8Array): TimestampToken {
  if (der.length > TOKEN_BYTES_MAX) throw new MalformedDer('a token of more than 64 KiB');
  const signedData = parseSignedData(der);
  if (signedData.contentType !== OID.tstInfo) throw new MalformedDer('its content is no TSTInfo');
  return { signedData, info: parseTstInfo(signedData.content) };
}

/**
 * Verifies a token wholly: what it stamps, who signed it, that this certificate may, and that a trusted root stands behind it
 * (RFC 3161, section 2.2; RFC 5652, section 5.6; RFC 5816). Offline; revocation is not looked up. Never throws, whatever
 * the token and the certificates are.
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

class Rejected extends Error {
  readonly fault: TokenFault;

  constructor(fault: TokenFault, detail: string) {
    super(detail);
    this.name = 'Rejected';
    this.fault = fault;
  }
}

function verify(input: TokenVerification): VerifiedTimestamp {
  const { info, signedData } = parseTimestampToken(input.token);
  checkInfo(info, input);
  const pool = readPool([...signedData.certificates, ...(input.certificates ?? [])]);
  const certificate = signerCertificate(signedData.signer, pool);
  checkSignature(signedData, certificate);
  const fault = timestampingFault(certificate);
  if (fault !== undefined) throw new Rejected('certificate', `${describeSubject(certificate)} ${fault}`);
  const found = findChain(certificate, pool, input.trustedRoots, input.at ?? info.genTime);
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

function checkInfo(info: TstInfo, { messageImprint, nonce, policy }: TokenVerification): void {
  if (!isImprint(info.imprint, messageImprint)) {
    throw new Rejected(
      'imprint',
      `stamps something else: its message imprint is not the ${messageImprint.algorithm} digest it should be`,
    );
  }
  if (nonce !== undefined && !(info.nonce && bytesEqual(info.nonce, nonce))) {
    throw new Rejected('nonce', 'does not repeat the nonce: an answer to another query');
  }
  if (policy !== undefined && info.policy !== policy)
    throw new Rejected('policy', `issued under policy ${info.policy}`);
}

function isImprint(found: MessageImprint | undefined, expected: MessageImprint): boolean {
  return found?.algorithm === expected.algorithm && bytesEqual(found.digest, expected.digest);
}

/** Certificates that cannot be read are left out: if one was needed, the chain breaks there. */
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

/** The one certificate the signed attributes name by its digest (RFC 5816, section 2.2.1); the signer's id must agree. */
function signerCertificate(signer: SignerInfo, pool: readonly Certificate[]): Certificate {
  const name = readSigningCertificate(signer);
  if (name === undefined)
    throw new Rejected('unsupported', 'names its certificate by a hash that is not used here');
  const found = pool.find(({ der }) => bytesEqual(digestOf(name.digest, der), name.hash));
  if (found === undefined)
    throw new Rejected('certificate', 'its certificate is neither in it nor beside it');
  if (!isNamedBy(signer.id, found))
    throw new Rejected('certificate', 'names two different certificates as its own');
  return found;
}

function isNamedBy(id: SignerInfo['id'], certificate: Certificate): boolean {
  if ('issuer' in id) {
    return bytesEqual(id.issuer, certificate.issuer) && bytesEqual(id.serial, certificate.serial);
  }
  const identifier = certificate.subjectKeyIdentifier;
  return identifier !== undefined && bytesEqual(identifier, id.subjectKeyIdentifier);
}

function checkSignature({ content, contentType, signer }: SignedData, certificate: Certificate): void {
  const { digest, scheme, signedBytes, signature } = signer;
  if (digest === undefined || scheme === undefined) {
    throw new Rejected('unsupported', 'signed with an algorithm that is not used here');
  }
  if (readOid(readAttribute(signer, OID.contentType)) !== contentType) {
    throw new Rejected('signature', 'the signature is over content of another type');
  }
  const expected = digestOf(digest, content);
  if (!bytesEqual(contentOf(readAttribute(signer, OID.messageDigest)), expected)) {
    throw new Rejected('signature', 'the signature is over other content');
  }
  const { publicKey } = certificate;
  if (publicKey === undefined)
    throw new Rejected('certificate', `${describeSubject(certificate)} ${UNTRUSTED_KEY}`);
  if (!verifyScheme(scheme, publicKey, signedBytes, signature)) {
    throw new Rejected('signature', 'the signature is not its certificate’s');
  }
}
