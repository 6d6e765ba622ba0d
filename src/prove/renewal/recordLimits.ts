/**
 * Measures how close the evidence records of a log are to the limits of verifiers: a run cannot be taken back, so none may make them too
 * large.
 */
import {
  RECORD_BYTES_MAX,
  RECORD_CERTIFICATES_MAX,
  RECORD_CHAINS_MAX,
  RECORD_TIMESTAMPS_MAX,
} from '../../asn1/evidenceRecord.ts';
import { DIGEST_BYTES } from '../../asn1/signatureAlgorithm.ts';
import { toBase64 } from '../../base/bytes.ts';
import {
  pathOf,
  type RenewalRun,
  type RenewalScope,
  type RenewalToken,
  type RenewalWays,
  rangesOf,
  runsOf,
  SKIPPED,
} from '../../store/renewalStore.ts';
import type { LogStore } from '../../store/store.ts';
import { storedToken } from './renewals.ts';

/** How much of one limited quantity an evidence record has. */
export interface RecordLevel {
  what: string;
  count: number;
  /** The most that the next renewal can add. */
  next: number;
  max: number;
  remedy: string;
}

/** The longest token, its separate certificates, and the hashes of its tree. */
const RENEWAL_BYTES_MAX = 131_072;
/** A chain of 8 without the root. */
const NEW_CERTIFICATES_MAX = 7;
/** Hashes from a batch up to the root of its row, two for each level with 256 children. */
const ROW_HASHES = 16;
/** Tag and length bytes of a hash in its list, and of an archive time-stamp. */
const [HASH_HEADER_BYTES, TIMESTAMP_HEADER_BYTES] = [4, 32];

/**
 * The quantity that is nearest to its limit in the fullest evidence record, if the next run goes on as `next` describes. Undefined if
 * nothing was renewed. Hash trees are not built: their largest possible size is assumed.
 */
export async function fullestLevel(
  log: Pick<LogStore, 'batchOf'>,
  runs: readonly RenewalRun[],
  next: Pick<RenewalScope, 'digest'> & RenewalWays,
): Promise<RecordLevel | undefined> {
  const parts = new Map(runs.flatMap(({ tokens }) => tokens.map((token) => [token, partOf(token)])));
  const levels: RecordLevel[] = [];
  for (const range of rangesOf(runs)) {
    const path = pathOf(next, range);
    const own = (await log.batchOf(range.firstLeaf))?.timestamp;
    const renewed = runsOf(range, runs, path).flatMap((run) => {
      const token = run.tokens[path[run.number - 1] ?? SKIPPED];
      const part = token && parts.get(token);
      return part ? [{ run, part }] : [];
    });
    const ofRecord = [...(own ? [partOf(own)] : []), ...renewed.map(({ part }) => part)];
    const digests = [...(own ? ['sha512'] : []), ...renewed.map(({ run }) => run.digest)];
    const trees = renewed.map(({ run }) => treeBytes(run, range.firstLeaf));
    levels.push(...levelsOf(ofRecord, digests, { trees, isHashRenewal: digests.at(-1) !== next.digest }));
  }
  const shareOf = (level: RecordLevel) => (level.count + level.next) / level.max;
  return levels.toSorted((a, b) => shareOf(b) - shareOf(a))[0];
}

/** The contribution of a time-stamp to a record: bytes, and the certificates outside and inside the token. */
function partOf({ token, certificates: beside }: Pick<RenewalToken, 'token' | 'certificates'>) {
  const { der, signedData } = storedToken(token);
  const inside = signedData.certificates.map(toBase64);
  return { bytes: der.length + TIMESTAMP_HEADER_BYTES, beside, inside };
}

function treeBytes({ digest, from, rows }: RenewalRun, firstLeaf: number): number {
  const hashes = (firstLeaf < from ? 0 : ROW_HASHES) + Math.ceil(Math.log2(rows.length + 2)) + 1;
  return hashes * (DIGEST_BYTES[digest] + HASH_HEADER_BYTES);
}

function levelsOf(
  parts: readonly ReturnType<typeof partOf>[],
  digests: readonly string[],
  { trees, isHashRenewal }: { trees: readonly number[]; isHashRenewal: boolean },
): RecordLevel[] {
  const inside = new Set(parts.flatMap((one) => one.inside));
  const beside = [...new Set(parts.flatMap((one) => one.beside))].filter((one) => !inside.has(one));
  const ofCertificates = beside.map((one) => (one.length * 3) / 4);
  const lengths = [...parts.map(({ bytes }) => bytes), ...trees, ...ofCertificates];
  return [
    {
      what: 'time-stamps',
      count: parts.length,
      next: 1,
      max: RECORD_TIMESTAMPS_MAX,
      remedy: 'leave renewals to the timer, and name authorities whose certificates last longer',
    },
    {
      what: 'hash renewals',
      count: digests.filter((digest, n) => n > 0 && digest !== digests[n - 1]).length,
      next: isHashRenewal && digests.length > 0 ? 1 : 0,
      max: RECORD_CHAINS_MAX - 1,
      remedy: 'stay with the hash function of the last renewal: renewal.hash, or --hash',
    },
    {
      what: 'certificates beside its time-stamps',
      count: beside.length,
      next: NEW_CERTIFICATES_MAX,
      max: RECORD_CERTIFICATES_MAX,
      remedy: 'name an authority that puts its certificates into its time-stamps',
    },
    {
      what: 'bytes',
      count: Math.ceil(lengths.reduce((sum, one) => sum + one, 0)),
      next: RENEWAL_BYTES_MAX,
      max: RECORD_BYTES_MAX,
      remedy: 'leave renewals to the timer, and name authorities whose time-stamps are smaller',
    },
  ];
}
