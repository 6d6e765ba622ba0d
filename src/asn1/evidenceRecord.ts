import { concatBytes } from '../base/bytes.ts';
import { type DigestName, digestOf } from '../base/crypto.ts';
import {
  constructed,
  contentOf,
  contextTag,
  type Element,
  Fields,
  integer,
  MalformedDer,
  octetString,
  oid,
  parseDer,
  readInteger,
  readOid,
  retagged,
  sequence,
  setOf,
  TAG,
} from './der.ts';
import { OID } from './oid.ts';
import { digestAlgorithm, readDigestAlgorithm } from './signatureAlgorithm.ts';
import { parseTimestampToken } from './timestampToken.ts';

/** An ArchiveTimeStamp (RFC 4998, section 4.1). */
export interface ArchiveTimestamp {
  /** The hash function of the hash tree; undefined: that of the token's imprint. */
  digest?: DigestName;
  /** DER of the attributes, as another implementation wrote them. They prove nothing. */
  attributes?: Uint8Array;
  /** undefined: the token is over the leaf itself. */
  reducedHashTree?: Uint8Array[][];
  /** DER of the ContentInfo: a TimeStampToken (RFC 3161). */
  token: Uint8Array;
}

/** An EvidenceRecord (RFC 4998, section 3.1) over data that is not encrypted. */
export interface EvidenceRecord {
  /** All hash functions that the record uses. */
  digests: DigestName[];
  /** DER of certificates that the tokens need and do not contain. */
  certificates: Uint8Array[];
  /** Oldest first. Archive time-stamps of one chain use one hash function; a hash renewal begins a chain. */
  chains: ArchiveTimestamp[][];
}

/** A record that may be valid and that this program cannot judge, such as one with another hash function. */
export class UnsupportedRecord extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'UnsupportedRecord';
  }
}

/** Longest accepted record in bytes. A renewal adds a token and a hash tree: 3 to 20 KiB. */
export const RECORD_BYTES_MAX = 4_194_304;
/** Most archive time-stamps of a record: more than a renewal each month for 80 years. */
const TIMESTAMPS_MAX = 1_000;
/** Most certificates beside the tokens. */
const CERTIFICATES_MAX = 64;

/** DER of the record, as {@link parseEvidenceRecord} reads it. */
export function encodeEvidenceRecord({ digests, certificates, chains }: EvidenceRecord): Uint8Array {
  const values = sequence(oid(OID.certificateValues), setOf([sequence(...certificates)]));
  return sequence(
    integer(1),
    sequence(...digests.map(digestAlgorithm)),
    certificates.length === 0 ? undefined : constructed(contextTag(0), [values]),
    encodeSequence(chains),
  );
}

/** DER of the archiveTimeStampSequence with these chains: a hash renewal covers its hash (RFC 4998, section 5.2). */
export function encodeSequence(chains: EvidenceRecord['chains']): Uint8Array {
  return sequence(...chains.map((chain) => sequence(...chain.map(encodeArchiveTimestamp))));
}

function encodeArchiveTimestamp(timestamp: ArchiveTimestamp): Uint8Array {
  const { digest, attributes, reducedHashTree, token } = timestamp;
  const lists = reducedHashTree?.map((list) => sequence(...list.map(octetString)));
  return sequence(
    digest && retagged(contextTag(0), digestAlgorithm(digest)),
    attributes,
    lists && constructed(contextTag(2), lists),
    token,
  );
}

/**
 * The leaf of a data object in the hash tree of a renewal that uses `digest` (RFC 4998, section 5.2), by the record that
 * the data object has so far:
 * without a record, the hash of the data object; where the last chain uses the same hash function, the hash of the last
 * token (time-stamp renewal); else the hash of both hashes, of the data object and of all chains (hash renewal).
 */
export function renewalLeaf(
  record: Pick<EvidenceRecord, 'chains'> | undefined,
  digest: DigestName,
  data: Uint8Array,
): Uint8Array {
  const last = record?.chains.at(-1)?.at(-1);
  if (record === undefined || last === undefined) return digestOf(digest, data);
  if (digestOfTree(last) === digest) return digestOf(digest, last.token);
  const chains = digestOf(digest, encodeSequence(record.chains));
  return digestOf(digest, concatBytes([digestOf(digest, data), chains]));
}

/** The hash function of an archive time-stamp; undefined when it is not supported. Throws MalformedDer. */
export function digestOfTree({ digest, token }: ArchiveTimestamp): DigestName | undefined {
  return digest ?? parseTimestampToken(token).info.imprint?.algorithm;
}

/** A record as it was read. */
export interface ParsedEvidenceRecord extends EvidenceRecord {
  /** DER of each chain. */
  chainDers: Uint8Array[];
}

/**
 * Reads a record of any implementation, without a look into its tokens. Throws MalformedDer for anything but DER, and
 * UnsupportedRecord.
 */
export function parseEvidenceRecord(der: Uint8Array): ParsedEvidenceRecord {
  if (der.length > RECORD_BYTES_MAX) throw new MalformedDer('a record of more than 4 MiB');
  const fields = new Fields(parseDer(der));
  const version = readInteger(fields.take(TAG.integer));
  if (version !== 1) throw new UnsupportedRecord(`an evidence record of version ${version}`);
  const digests = new Fields(fields.take(TAG.sequence)).rest().map(readDigest);
  const certificates = readCryptoInfos(fields.takeIf(contextTag(0)));
  if (fields.takeIf(contextTag(1)) !== undefined)
    throw new UnsupportedRecord('an evidence record over encrypted data');
  const chainElements = new Fields(fields.take(TAG.sequence)).rest();
  fields.end();
  const chains = chainElements.map((chain) => new Fields(chain).rest());
  if (chains.length === 0 || chains.some(({ length }) => length === 0))
    throw new MalformedDer('no archive time-stamp, or a chain without one');
  if (chains.flat().length > TIMESTAMPS_MAX)
    throw new MalformedDer(`more than ${TIMESTAMPS_MAX} archive time-stamps`);
  return {
    digests,
    certificates,
    chains: chains.map((chain) => chain.map(readArchiveTimestamp)),
    chainDers: chainElements.map((chain) => chain.der),
  };
}

function readDigest(element: Element): DigestName {
  const digest = readDigestAlgorithm(element);
  if (digest === undefined) throw new UnsupportedRecord('a hash function that is not supported');
  return digest;
}

/** The certificates in the attribute id-aa-ets-certValues (RFC 5126, section 6.3.3); other attributes are not needed. */
function readCryptoInfos(element: Element | undefined): Uint8Array[] {
  if (element === undefined) return [];
  const certificates: Uint8Array[] = [];
  for (const attribute of new Fields(element, contextTag(0)).rest()) {
    const fields = new Fields(attribute);
    const type = readOid(fields.take(TAG.oid));
    const values = new Fields(fields.take(TAG.set), TAG.set).rest();
    fields.end();
    if (type !== OID.certificateValues) continue;
    for (const value of values) certificates.push(...new Fields(value).rest().map(({ der }) => der));
  }
  if (certificates.length > CERTIFICATES_MAX)
    throw new MalformedDer(`more than ${CERTIFICATES_MAX} certificates`);
  return certificates;
}

function readArchiveTimestamp(element: Element): ArchiveTimestamp {
  const fields = new Fields(element);
  const algorithm = fields.takeIf(contextTag(0));
  const attributes = fields.takeIf(contextTag(1));
  const tree = fields.takeIf(contextTag(2));
  const token = fields.take(TAG.sequence);
  fields.end();
  const lists = tree && new Fields(tree, contextTag(2)).rest();
  return {
    ...(algorithm && { digest: readDigest(parseDer(retagged(TAG.sequence, algorithm.der))) }),
    ...(attributes && { attributes: attributes.der }),
    ...(lists && { reducedHashTree: lists.map(readPartialHashTree) }),
    token: token.der,
  };
}

function readPartialHashTree(list: Element): Uint8Array[] {
  const hashes = new Fields(list).rest();
  if (hashes.some(({ tag }) => tag !== TAG.octetString))
    throw new MalformedDer('a hash that is not an OCTET STRING');
  return hashes.map(contentOf);
}
