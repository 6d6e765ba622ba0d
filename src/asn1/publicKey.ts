import { type Curve, isOnCurve, type PublicKey } from '../base/crypto.ts';
import { type Element, Fields, parseDer, readOctets, readOid, readPositive, requireTag, TAG } from './der.ts';
import { OID } from './oid.ts';

/** The accepted curves, and the length of their uncompressed points in bytes. */
const CURVES: Record<string, { curve: Curve; pointBytes: number }> = {
  [OID.secp256r1]: { curve: 'P-256', pointBytes: 65 },
  [OID.secp384r1]: { curve: 'P-384', pointBytes: 97 },
  [OID.secp521r1]: { curve: 'P-521', pointBytes: 133 },
};

/** A shorter key can be broken (ETSI TS 119 312). A longer hostile key would cost a verifier seconds. */
const RSA_BITS = { min: 2048, max: 8192 };
/** OpenSSL's own limit for large keys. The usual exponent is 65537. */
const EXPONENT_BYTES_MAX = 8;

/**
 * The key of a SubjectPublicKeyInfo: ECDSA with a named curve (RFC 5480) or RSA (RFC 3279, section 2.3.1). Undefined for a key of another
 * type, for one that is too weak, and for a point that is not on its curve. Throws MalformedDer.
 */
export function readPublicKey(spki: Element): PublicKey | undefined {
  const fields = new Fields(spki);
  const algorithm = new Fields(fields.take(TAG.sequence));
  const key = readOctets(fields.take(TAG.bitString));
  fields.end();
  const type = readOid(algorithm.take(TAG.oid));
  const parameters = algorithm.takeAny();
  algorithm.end();
  if (type === OID.rsaEncryption) return readRsaKey(key);
  return type === OID.ecPublicKey && parameters !== undefined ? readEcKey(parameters, key) : undefined;
}

function readEcKey(parameters: Element, point: Uint8Array): PublicKey | undefined {
  const { curve, pointBytes } = CURVES[readOid(requireTag(parameters, TAG.oid))] ?? {};
  if (curve === undefined || point.length !== pointBytes || point[0] !== 0x04) return undefined;
  const key: PublicKey = { type: 'ec', curve, point };
  return isOnCurve(key) ? key : undefined;
}

function readRsaKey(der: Uint8Array): PublicKey | undefined {
  const fields = new Fields(parseDer(der));
  const modulus = readPositive(fields.take(TAG.integer));
  const exponent = readPositive(fields.take(TAG.integer));
  fields.end();
  const bits = modulusBits(modulus);
  const isOdd = (octets: Uint8Array) => ((octets.at(-1) ?? 0) & 1) === 1;
  const usable =
    bits >= RSA_BITS.min &&
    bits <= RSA_BITS.max &&
    isOdd(modulus) &&
    isOdd(exponent) &&
    exponent.length <= EXPONENT_BYTES_MAX &&
    !(exponent.length === 1 && exponent[0] === 1);
  return usable ? { type: 'rsa', modulus, exponent } : undefined;
}

/** Length of a number in bits, without leading zeros. */
export function modulusBits(octets: Uint8Array): number {
  return octets.length * 8 - Math.clz32(octets[0] ?? 0) + 24;
}
