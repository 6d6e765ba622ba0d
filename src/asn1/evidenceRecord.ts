import { bytesEqual, compareBytes, concatBytes } from '../base/bytes.ts';
import { type DigestName, digestOf } from '../base/crypto.ts';
import {
  type ArchiveTimestamp,
  digestOfTree,
  encodeSequence,
  readArchiveTimestamp,
  readDigest,
  UnsupportedRecord,
} from './archiveTimestamp.ts';
import { type Certificate, parseCertificate } from './certificate.ts';
import {
  constructed,
  contextTag,
  type Element,
  Fields,
  integer,
  MalformedDer,
  oid,
  parseDer,
  readInteger,
  readOid,
  sequence,
  setOf,
  TAG,
} from './der.ts';
import { rootOfReducedTree } from './hashTree.ts';
import { OID } from './oid.ts';
import { digestAlgorithm } from './signatureAlgorithm.ts';
import {
  parseTimestampToken,
  Rejected,
  type TokenFault,
  type TokenVerification,
  type VerifiedTimestamp,
  verifyTimestampToken,
} from './timestampToken.ts';

/** An EvidenceRecord (RFC 4998, section 3.1) over data that is not encrypted. */
export interface EvidenceRecord {
  /** All hash functions that the record uses. */
  digests: DigestName[];
  /** DER of certificates that the tokens need but do not contain. */
  certificates: Uint8Array[];
  /** Oldest first. Archive time-stamps of one chain use one hash function; a hash renewal begins a new chain. */
  chains: ArchiveTimestamp[][];
}

/** Longest accepted record in bytes. A renewal adds a token and the hashes of a tree: 1 to 20 KiB. */
export const RECORD_BYTES_MAX = 4_194_304;
/** Maximum number of archive time-stamps in a record: a monthly renewal for 83 years. */
export const RECORD_TIMESTAMPS_MAX = 1_000;
/** Maximum number of chains in a record, each of which covers all before it: a yearly hash renewal for 63 years. */
export const RECORD_CHAINS_MAX = 64;
/** Maximum number of certificates outside the tokens. */
export const RECORD_CERTIFICATES_MAX = 64;

/** DER of the record, which {@link parseEvidenceRecord} can read. */
export function encodeEvidenceRecord({ digests, certificates, chains }: EvidenceRecord): Uint8Array {
  const values = sequence(oid(OID.certificateValues), setOf([sequence(...certificates)]));
  return sequence(
    integer(1),
    sequence(...digests.map(digestAlgorithm)),
    certificates.length === 0 ? undefined : constructed(contextTag(0), [values]),
    encodeSequence(chains),
  );
}

/**
 * The leaf of a data object in the hash tree of a renewal that uses `digest` (RFC 4998, section 5.2), depending on the record that the data
 * object has so far. No record: the hash of the data object. The last chain uses the same hash function: the hash of the last token
 * (time-stamp renewal). Otherwise: the hash of two hashes, of the data object and of all chains (hash renewal).
 */
export function renewalLeaf(
  record: Pick<EvidenceRecord, 'chains'> | undefined,
  digest: DigestName,
  data: Uint8Array,
): Uint8Array {
  const last = record?.chains.at(-1)?.at(-1);
  if (record === undefined || last === undefined) return digestOf(digest, data);
  if (digestOfTree(last) === digest) return digestOf(digest, last.token);
  return digestOf(digest, concatBytes(renewedPair(digest, data, encodeSequence(record.chains))));
}

/** The hashes that a hash renewal covers: of the data object, and of the archiveTimeStampSequence before it. */
function renewedPair(digest: DigestName, data: Uint8Array, before: Uint8Array): Uint8Array[] {
  return [digestOf(digest, data), digestOf(digest, before)];
}

/**
 * Reads a record of any implementation, without parsing its tokens, and the DER of each chain. Throws MalformedDer for anything but DER,
 * and UnsupportedRecord.
 */
export function parseEvidenceRecord(der: Uint8Array): EvidenceRecord & { chainDers: Uint8Array[] } {
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
  if (chains.length > RECORD_CHAINS_MAX || chains.flat().length > RECORD_TIMESTAMPS_MAX)
    throw new MalformedDer(
      `more than ${RECORD_CHAINS_MAX} chains or ${RECORD_TIMESTAMPS_MAX} archive time-stamps`,
    );
  return {
    digests,
    certificates,
    chains: chains.map((chain) => chain.map(readArchiveTimestamp)),
    chainDers: chainElements.map((chain) => chain.der),
  };
}

/** The certificates in the attribute id-aa-ets-certValues (RFC 5126, section 6.3.3); other attributes are not needed. */
function readCryptoInfos(element: Element | undefined): Uint8Array[] {
  if (element === undefined) return [];
  const values = new Fields(element, contextTag(0)).rest().flatMap((attribute) => {
    const fields = new Fields(attribute);
    const type = readOid(fields.take(TAG.oid));
    const found = new Fields(fields.take(TAG.set), TAG.set).rest();
    fields.end();
    return type === OID.certificateValues ? found : [];
  });
  const certificates = values.flatMap((value) => new Fields(value).rest());
  if (certificates.length > RECORD_CERTIFICATES_MAX)
    throw new MalformedDer(`more than ${RECORD_CERTIFICATES_MAX} certificates`);
  return certificates.map(({ der }) => der);
}

/**
 * Whether the first archive time-stamp of a record covers some data: assigns records to data objects. It does not prove anything. For a
 * record that cannot be read, always false.
 */
export function beginsOver(record: Uint8Array): (data: Uint8Array) => boolean {
  try {
    const first = parseEvidenceRecord(record).chains[0]?.[0];
    const imprint = first && parseTimestampToken(first.token).info.imprint;
    if (first === undefined || imprint === undefined) return () => false;
    const [digest, tree] = [digestOfTree(first), first.reducedHashTree];
    return (data) => {
      const leaf = digestOf(digest, data);
      const root = tree === undefined ? leaf : rootOfReducedTree(digest, tree, leaf);
      return root !== undefined && bytesEqual(root, imprint.digest);
    };
  } catch (error) {
    if (error instanceof MalformedDer || error instanceof UnsupportedRecord) return () => false;
    throw error;
  }
}

/** Why an archive time-stamp was made. */
export type RenewalKind = 'initial' | 'time-stamp renewal' | 'hash renewal';

/**
 * The fault of an archive time-stamp: that of its token, or `order`: not later than the one before; `digest`: a hash function not listed in
 * its chain or record; `authority`: the verifier objects to it; `gap`: no longer valid when the next one was made; `expired`: the last one,
 * and no longer valid; `future`: later than the verification.
 */
export type RecordFault = TokenFault | 'order' | 'digest' | 'authority' | 'gap' | 'expired' | 'future';

/** Neither valid nor invalid: something needed for verification is missing, or the validity has ended. */
const UNDECIDED: readonly RecordFault[] = ['untrusted', 'unsupported', 'expired', 'future'];

interface Refusal {
  outcome: 'bad' | 'unknown';
  fault: RecordFault;
  detail: string;
}

/** The statement that an archive time-stamp proves, or why it does not prove anything. */
export type RecordLine = { kind: RenewalKind } & (
  | { outcome: 'good'; digest: DigestName; timestamp: VerifiedTimestamp }
  | Refusal
);

/** `lines`: the archive time-stamps, oldest first; `holdsUntil`: when the last one expires, milliseconds since the epoch. */
export type RecordVerdict =
  | { outcome: 'good'; lines: RecordLine[]; holdsUntil: number }
  | (Refusal & { lines: RecordLine[] });

export interface RecordVerification {
  /** DER, as received. */
  record: Uint8Array;
  /** The data object: for a receipt, the signed checkpoint in UTF-8. */
  data: Uint8Array;
  /** The roots that the verifier trusts, parsed or in DER; or trusts at a given time, see {@link verifyTimestampToken}. */
  trustedRoots: readonly (Certificate | Uint8Array)[] | ((at: number) => readonly Certificate[]);
  /** DER of certificates that may be part of a token's chain; the record and the token may contain others. */
  certificates?: readonly Uint8Array[];
  /** The time of verification, milliseconds since the epoch: the last token must be valid then. */
  at: number;
  /** Why the verifier does not accept a verified token at that time; undefined if it does. */
  objection?: (timestamp: VerifiedTimestamp, at: number) => string | undefined;
}

/**
 * Verifies a record (RFC 4998, sections 4.3 and 5.3): each chain must cover the data object and all chains before it, each other archive
 * time-stamp must cover the token before it, and each token must have been valid when the next one was made, the last one at the time of
 * verification. Works offline and does not check revocation. Never throws because of the record; throws MalformedDer for a trusted root
 * that is not a certificate.
 */
export function verifyEvidenceRecord(input: RecordVerification): RecordVerdict {
  const trustedRoots =
    typeof input.trustedRoots === 'function'
      ? input.trustedRoots
      : input.trustedRoots.map((root) => (root instanceof Uint8Array ? parseCertificate(root) : root));
  let lines: RecordLine[];
  try {
    lines = verifyLines({ ...input, trustedRoots });
  } catch (error) {
    return { ...refusalOf(error), lines: [] };
  }
  const refused =
    lines.find(({ outcome }) => outcome === 'bad') ?? lines.find((one) => one.outcome !== 'good');
  if (refused !== undefined && refused.outcome !== 'good') {
    const { outcome, fault } = refused;
    const detail = `archive time-stamp ${lines.indexOf(refused) + 1} of ${lines.length} ${refused.detail}`;
    return { outcome, fault, detail, lines };
  }
  const last = lines.at(-1);
  const holdsUntil = last?.outcome === 'good' ? last.timestamp.notAfter : -Infinity;
  return { outcome: 'good', lines, holdsUntil };
}

function refusalOf(error: unknown): Refusal {
  if (error instanceof Rejected) {
    const outcome = UNDECIDED.includes(error.fault) ? 'unknown' : 'bad';
    return { outcome, fault: error.fault, detail: error.message };
  }
  if (error instanceof UnsupportedRecord)
    return { outcome: 'unknown', fault: 'unsupported', detail: error.message };
  const detail = error instanceof MalformedDer ? error.message : `cannot be read: ${String(error)}`;
  return { outcome: 'bad', fault: 'malformed', detail };
}

type Prepared = RecordVerification & Pick<TokenVerification, 'trustedRoots'>;

/** An archive time-stamp, and the conditions it must meet. */
interface Link {
  kind: RenewalKind;
  archived: ArchiveTimestamp;
  /** The hash function of its chain. */
  digest: DigestName;
  /** The data it must cover: a description for people, and the possible leaves. */
  covered: string;
  leaves: Uint8Array[];
}

function verifyLines(input: Prepared): RecordLine[] {
  const record = parseEvidenceRecord(input.record);
  const links = linksOf(record, input.data);
  const times = links.map(({ archived }) => parseTimestampToken(archived.token).info.genTime);
  const certificates = [...record.certificates, ...(input.certificates ?? [])];
  return links.map((link, index) => {
    const { kind, digest } = link;
    try {
      if (!record.digests.includes(digest))
        throw new Rejected<RecordFault>('digest', `uses ${digest}, which the record does not declare`);
      if (index > 0 && !((times[index] ?? 0) > (times[index - 1] ?? 0)))
        throw new Rejected<RecordFault>('order', 'is not later than the one before');
      const timestamp = verifyLink(link, { ...input, certificates }, times[index + 1]);
      return { kind, outcome: 'good', digest, timestamp };
    } catch (error) {
      return { kind, ...refusalOf(error) };
    }
  });
}

function linksOf({ chains, chainDers }: ReturnType<typeof parseEvidenceRecord>, data: Uint8Array): Link[] {
  return chains.flatMap((chain, number) => {
    const [first] = chain;
    if (first === undefined) return [];
    const digest = digestOfTree(first);
    return chain.map((archived, index): Link => {
      const before = chain[index - 1];
      const link = (kind: RenewalKind, covered: string, ...leaves: Uint8Array[]): Link => ({
        kind,
        archived,
        digest,
        covered,
        leaves: leaves.map((leaf) => digestOf(digest, leaf)),
      });
      if (before) return link('time-stamp renewal', 'the time-stamp before it', before.token);
      if (number === 0) return link('initial', 'the data', data);
      const pair = renewedPair(digest, data, sequence(...chainDers.slice(0, number)));
      // The RFC defines the pair in this order; some implementations sort it, as they sort all nodes.
      const pairs = [pair, pair.toSorted(compareBytes)].map(concatBytes);
      return link('hash renewal', 'the data and the chains before it', ...pairs);
    });
  });
}

/** Verifies the token at `next`, the time of the next token; the last token is verified at the time of verification. */
function verifyLink(link: Link, input: Prepared, next: number | undefined): VerifiedTimestamp {
  const { archived, digest, covered, leaves } = link;
  const { reducedHashTree: tree, token } = archived;
  if (digestOfTree(archived) !== digest)
    throw new Rejected<RecordFault>('digest', 'has another hash function than its chain');
  const { imprint, genTime } = parseTimestampToken(token).info;
  const roots = leaves.map((leaf) => (tree === undefined ? leaf : rootOfReducedTree(digest, tree, leaf)));
  const root = roots.find((one) => one !== undefined && imprint && bytesEqual(one, imprint.digest));
  if (root === undefined) throw new Rejected<RecordFault>('imprint', `does not cover ${covered}`);
  const verifyAt = (at: number): VerifiedTimestamp => {
    const messageImprint = { algorithm: digest, digest: root };
    const verdict = verifyTimestampToken({ ...input, token, messageImprint, at });
    if (verdict.outcome === 'bad') throw new Rejected<RecordFault>(verdict.fault, verdict.detail);
    const objection = input.objection?.(verdict.timestamp, at);
    if (objection !== undefined) throw new Rejected<RecordFault>('authority', objection);
    return verdict.timestamp;
  };
  verifyAt(genTime);
  if (next === undefined && genTime > input.at)
    throw new Rejected<RecordFault>('future', 'is of a later time than now');
  try {
    return verifyAt(next ?? input.at);
  } catch (error) {
    if (!(error instanceof Rejected)) throw error;
    throw next === undefined
      ? new Rejected<RecordFault>('expired', `is no longer valid: ${error.message}`)
      : new Rejected<RecordFault>('gap', `was no longer valid when the next one was made: ${error.message}`);
  }
}
