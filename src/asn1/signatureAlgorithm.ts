import { type DigestName, type PublicKey, verify } from '../base/crypto.ts';
import { type Element, Fields, oid, primitive, readOid, sequence, TAG } from './der.ts';
import { OID } from './oid.ts';

export const DIGESTS = ['sha256', 'sha384', 'sha512'] as const satisfies readonly DigestName[];

export const DIGEST_BYTES: Record<DigestName, number> = { sha256: 32, sha384: 48, sha512: 64 };

/**
 * The key types with which this service signs tokens and certificates: standard tools can verify them. RSA signs with PKCS#1 v1.5, because
 * `openssl ts` does not verify RSA-PSS.
 */
export const AUTHORITY_ALGORITHMS = ['ecdsa-p256', 'ecdsa-p384', 'rsa-2048', 'rsa-3072', 'rsa-4096'] as const;
export type AuthorityAlgorithm = (typeof AUTHORITY_ALGORITHMS)[number];

/** The hash function with which a key of this service signs. */
export function signingDigest(algorithm: AuthorityAlgorithm): DigestName {
  return algorithm === 'ecdsa-p384' ? 'sha384' : 'sha256';
}

/** A signature algorithm to verify: ECDSA (RFC 5758) or RSA PKCS#1 v1.5 (RFC 5754). */
export interface SignatureScheme {
  keyType: 'ec' | 'rsa';
  digest: DigestName;
}

const SCHEMES: Record<string, SignatureScheme> = {
  [OID.ecdsaWithSHA256]: { keyType: 'ec', digest: 'sha256' },
  [OID.ecdsaWithSHA384]: { keyType: 'ec', digest: 'sha384' },
  [OID.ecdsaWithSHA512]: { keyType: 'ec', digest: 'sha512' },
  [OID.sha256WithRSAEncryption]: { keyType: 'rsa', digest: 'sha256' },
  [OID.sha384WithRSAEncryption]: { keyType: 'rsa', digest: 'sha384' },
  [OID.sha512WithRSAEncryption]: { keyType: 'rsa', digest: 'sha512' },
};

/** AlgorithmIdentifier of a hash function, without parameters (RFC 5754, section 2). */
export function digestAlgorithm(digest: DigestName): Uint8Array {
  return sequence(oid(OID[digest]));
}

/** AlgorithmIdentifier of this service's own signatures. */
export function signatureAlgorithm(algorithm: AuthorityAlgorithm): Uint8Array {
  if (algorithm === 'ecdsa-p256') return sequence(oid(OID.ecdsaWithSHA256));
  if (algorithm === 'ecdsa-p384') return sequence(oid(OID.ecdsaWithSHA384));
  return sequence(oid(OID.sha256WithRSAEncryption), primitive(TAG.null, new Uint8Array(0)));
}

/** The hash function of an AlgorithmIdentifier; undefined if it is not supported. Throws MalformedDer. */
export function readDigestAlgorithm(element: Element): DigestName | undefined {
  const found = readPlain(element);
  return DIGESTS.find((digest) => OID[digest] === found);
}

/**
 * The scheme of an AlgorithmIdentifier; undefined if it is not supported. For `rsaEncryption`, the accompanying digest algorithm gives the
 * hash function (RFC 5652, section 5.3). Throws MalformedDer.
 */
export function readSignatureAlgorithm(element: Element, digest?: DigestName): SignatureScheme | undefined {
  const found = readPlain(element);
  if (found === OID.rsaEncryption && digest !== undefined) return { keyType: 'rsa', digest };
  return found === undefined ? undefined : SCHEMES[found];
}

/** Whether the signature is valid for the key. Also false if the key is not of the scheme's type. */
export function verifyScheme(
  { keyType, digest }: SignatureScheme,
  key: PublicKey,
  message: Uint8Array,
  signature: Uint8Array,
): boolean {
  return key.type === keyType && verify(key, digest, message, signature);
}

/** The object identifier of an algorithm without parameters, or with NULL. */
function readPlain(element: Element): string | undefined {
  const fields = new Fields(element);
  const algorithm = readOid(fields.take(TAG.oid));
  const parameters = fields.takeAny();
  fields.end();
  const none = parameters === undefined || (parameters.tag === TAG.null && parameters.content.length === 0);
  return none ? algorithm : undefined;
}
