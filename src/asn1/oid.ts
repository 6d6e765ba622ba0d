import { fromBinary, toBinary } from '../base/bytes.ts';
import { remember } from '../base/remember.ts';

/** Object identifiers, under the names from their standards. */
export const OID = {
  sha256: '2.16.840.1.101.3.4.2.1',
  sha384: '2.16.840.1.101.3.4.2.2',
  sha512: '2.16.840.1.101.3.4.2.3',
  // RFC 5480
  ecPublicKey: '1.2.840.10045.2.1',
  secp256r1: '1.2.840.10045.3.1.7',
  secp384r1: '1.3.132.0.34',
  secp521r1: '1.3.132.0.35',
  // RFC 5754 and RFC 5758
  rsaEncryption: '1.2.840.113549.1.1.1',
  sha256WithRSAEncryption: '1.2.840.113549.1.1.11',
  sha384WithRSAEncryption: '1.2.840.113549.1.1.12',
  sha512WithRSAEncryption: '1.2.840.113549.1.1.13',
  ecdsaWithSHA256: '1.2.840.10045.4.3.2',
  ecdsaWithSHA384: '1.2.840.10045.4.3.3',
  ecdsaWithSHA512: '1.2.840.10045.4.3.4',
  // RFC 5652 and RFC 5035
  signedData: '1.2.840.113549.1.7.2',
  contentType: '1.2.840.113549.1.9.3',
  messageDigest: '1.2.840.113549.1.9.4',
  extensionRequest: '1.2.840.113549.1.9.14',
  signingCertificate: '1.2.840.113549.1.9.16.2.12',
  signingCertificateV2: '1.2.840.113549.1.9.16.2.47',
  // RFC 5126
  certificateValues: '1.2.840.113549.1.9.16.2.23',
  // RFC 3161
  tstInfo: '1.2.840.113549.1.9.16.1.4',
  // RFC 5280
  subjectKeyIdentifier: '2.5.29.14',
  keyUsage: '2.5.29.15',
  basicConstraints: '2.5.29.19',
  cRLNumber: '2.5.29.20',
  cRLReason: '2.5.29.21',
  invalidityDate: '2.5.29.24',
  deltaCRLIndicator: '2.5.29.27',
  issuingDistributionPoint: '2.5.29.28',
  certificateIssuer: '2.5.29.29',
  certificatePolicies: '2.5.29.32',
  authorityKeyIdentifier: '2.5.29.35',
  extKeyUsage: '2.5.29.37',
  anyExtendedKeyUsage: '2.5.29.37.0',
  timeStamping: '1.3.6.1.5.5.7.3.8',
  // X.520
  commonName: '2.5.4.3',
  countryName: '2.5.4.6',
  organizationName: '2.5.4.10',
  organizationalUnitName: '2.5.4.11',
  serialNumber: '2.5.4.5',
  localityName: '2.5.4.7',
  stateOrProvinceName: '2.5.4.8',
  organizationIdentifier: '2.5.4.97',
} as const;

/** More than all structures of this service contain. */
export const OIDS_MAX = 256;

/** Longest accepted object identifier, in content octets. */
const CONTENT_BYTES_MAX = 64;

/** Whether the text is an object identifier in dotted form, such as `2.25.` followed by a UUID as a number. */
export function isOid(text: string): boolean {
  if (!/^(?:[01]\.(?:[1-3]?\d)|2\.(?:0|[1-9]\d{0,38}))(?:\.(?:0|[1-9]\d{0,38})){1,30}$/.test(text))
    return false;
  return encodeOid(text).length <= CONTENT_BYTES_MAX;
}

/** Content octets (X.690, section 8.19). Arcs can have any size: `2.25` needs 128 bits. */
export function encodeOid(dotted: string): Uint8Array {
  const [root = 0n, second = 0n, ...arcs] = dotted.split('.').map(BigInt);
  return Uint8Array.from([root * 40n + second, ...arcs].flatMap(base128));
}

/** The dotted form; undefined for an invalid object identifier. */
export function decodeOid(content: Uint8Array): string | undefined {
  return content.length > CONTENT_BYTES_MAX ? undefined : decode(toBinary(content));
}

const decode = remember(OIDS_MAX, (binary) => {
  const numbers: bigint[] = [];
  let number = 0n;
  let begun = false;
  for (const octet of fromBinary(binary)) {
    // With a leading 0x80, one object identifier could have many encodings.
    if (!begun && octet === 0x80) return undefined;
    number = (number << 7n) | BigInt(octet & 0x7f);
    begun = octet >= 0x80;
    if (begun) continue;
    numbers.push(number);
    number = 0n;
  }
  const [first, ...arcs] = numbers;
  if (begun || first === undefined) return undefined;
  const root = first < 80n ? first / 40n : 2n;
  return [root, first - root * 40n, ...arcs].join('.');
});

function base128(number: bigint): number[] {
  const octets = [Number(number & 0x7fn)];
  for (let rest = number >> 7n; rest > 0n; rest >>= 7n) octets.unshift(Number(rest & 0x7fn) | 0x80);
  return octets;
}
