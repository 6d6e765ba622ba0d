import type { DigestName } from '../base/crypto.ts';
import {
  constructed,
  contentOf,
  contextTag,
  type Element,
  Fields,
  MalformedDer,
  octetString,
  parseDer,
  retagged,
  sequence,
  TAG,
} from './der.ts';
import { digestAlgorithm, readDigestAlgorithm } from './signatureAlgorithm.ts';
import { parseTimestampToken } from './timestampToken.ts';

/** An ArchiveTimeStamp (RFC 4998, section 4.1). */
export interface ArchiveTimestamp {
  /** The hash function of the hash tree; undefined if it is that of the token's imprint. */
  digest?: DigestName;
  /** DER of the attributes, as another implementation wrote them. They do not prove anything. */
  attributes?: Uint8Array;
  /** Undefined if the token is over the leaf itself. */
  reducedHashTree?: Uint8Array[][];
  /** DER of the ContentInfo: a TimeStampToken (RFC 3161). */
  token: Uint8Array;
}

/** A record that may be valid but that this program cannot judge, such as one with another hash function. */
export class UnsupportedRecord extends Error {
  override readonly name = 'UnsupportedRecord';
}

/** DER of the archiveTimeStampSequence with these chains: a hash renewal covers its hash (RFC 4998, section 5.2). */
export function encodeSequence(chains: readonly (readonly ArchiveTimestamp[])[]): Uint8Array {
  return sequence(...chains.map((chain) => sequence(...chain.map(encodeArchiveTimestamp))));
}

function encodeArchiveTimestamp({ digest, attributes, reducedHashTree, token }: ArchiveTimestamp) {
  const lists = reducedHashTree?.map((list) => sequence(...list.map(octetString)));
  return sequence(
    digest && retagged(contextTag(0), digestAlgorithm(digest)),
    attributes,
    lists && constructed(contextTag(2), lists),
    token,
  );
}

/** Reads an ArchiveTimeStamp without parsing its token. Throws MalformedDer and UnsupportedRecord. */
export function readArchiveTimestamp(element: Element): ArchiveTimestamp {
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

/** The hash function of an AlgorithmIdentifier. Throws MalformedDer and UnsupportedRecord. */
export function readDigest(element: Element): DigestName {
  const digest = readDigestAlgorithm(element);
  if (digest === undefined) throw new UnsupportedRecord('a hash function that is not supported');
  return digest;
}

function readPartialHashTree(list: Element): Uint8Array[] {
  const hashes = new Fields(list).rest();
  if (hashes.some(({ tag }) => tag !== TAG.octetString))
    throw new MalformedDer('a hash that is not an OCTET STRING');
  return hashes.map(contentOf);
}

/** The hash function of the archive time-stamp's hash tree. Throws MalformedDer and UnsupportedRecord. */
export function digestOfTree({ digest, token }: ArchiveTimestamp): DigestName {
  const found = digest ?? parseTimestampToken(token).info.imprint?.algorithm;
  if (found === undefined) throw new UnsupportedRecord('a token over a hash that is not supported');
  return found;
}
