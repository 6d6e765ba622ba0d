import { parseCertificate } from '../../asn1/certificate.ts';
import { toRfc3339 } from '../../base/clock.ts';
import type { DigestName, PublicKey } from '../../base/crypto.ts';
import type { TrustedAuthority } from '../../manifest/trustFile.ts';
import {
  type LeafRange,
  pathOf,
  type RenewalRun,
  rangesOf,
  runsOf,
  type SurveyGroup,
} from '../../store/renewalStore.ts';
import type { Batch, Store } from '../../store/store.ts';
import { authorityOf } from '../verify/timestampCheck.ts';
import { waysNow } from './renewalPath.ts';
import { openToken, pathsAt } from './renewalStandings.ts';
import { batchesOf } from './renewals.ts';

/**
 * The algorithms and certificates that a time-stamp depends on. `signatures` has the algorithms apart from its digest, such as `ecdsa-p256`
 * and `sha256`, in alphabetical order.
 */
export type Strength = Pick<SurveyGroup, 'digest' | 'signatures' | 'notAfter'>;

/** Time-stamps of the same kind that the next run renews. */
export interface StandingTimestamps extends Strength {
  /** The run that they belong to; undefined for those made when checkpoints were sealed. */
  run?: number;
  authority?: string;
  /** Number of checkpoints; undefined for a run. */
  batches?: number;
  /** The index in the log of the first leaf of the first checkpoint in this group. */
  leaf: number;
  due: Due | undefined;
}

/** When something expires, and when it must be renewed: milliseconds since the epoch. */
export interface Due {
  at: number;
  renewAt: number;
  /** In plain words, to follow "because". */
  reason: string;
  /** The algorithm that expires; undefined if a certificate does. */
  algorithm?: string;
  /** The hash function, if it is what expires: only a renewal with another one helps. */
  ofDigest?: DigestName;
}

/** How long before its expiry a time-stamp is renewed: time enough to notice a failed renewal, and to remove the cause. */
export const RENEW_BEFORE_MS = 180 * 86_400_000;

/** Why the next run is due at that time, in words; undefined if it is not due yet. */
export function reasonToRenew(
  standing: readonly StandingTimestamps[],
  { digest, former, at }: { digest: DigestName; former: DigestName; at: number },
): string | undefined {
  if (digest !== former && firstOf(standing)) return `${digest} replaces ${former}`;
  const first = firstOf(standing.filter(({ due }) => due && due.renewAt <= at));
  if (first === undefined) return undefined;
  if (first.at === 0) return 'a time-stamp is from an authority that the configuration does not name';
  return first.at <= at
    ? 'a time-stamp has ended'
    : `a time-stamp ends within ${RENEW_BEFORE_MS / 86_400_000} days`;
}

/** The earliest expiry. */
export function firstOf(standing: readonly StandingTimestamps[]): Due | undefined {
  return standing.flatMap(({ due }) => due ?? []).toSorted((a, b) => a.at - b.at)[0];
}

/** The earliest expiry, ignoring time-stamps that wait to be renewed together with later ones: these must not raise an alarm. */
export function firstToAnnounce(standing: readonly StandingTimestamps[], at: number): Due | undefined {
  const waits = ({ at: end, renewAt }: Due) => renewAt > Math.max(at, end - RENEW_BEFORE_MS);
  return firstOf(standing.filter(({ due }) => due && !waits(due)));
}

/** Whether no valid time-stamp proves the time of sealing any more: its own expired without having been renewed. */
export function isUnproven({ run, notAfter }: StandingTimestamps, at: number): boolean {
  return run === undefined && notAfter !== null && notAfter < at;
}

/** More kinds of certificates than an installation ever has. */
const KINDS_MAX = 1000;
/** The survey is saved each time that so many more batches were read. */
const KEEP_BATCHES = 65_536;

/** How long evidence may depend on an algorithm. */
export interface Sunset {
  /** As in {@link Strength}. An RSA key length also covers all shorter ones. */
  algorithm: string;
  /** Milliseconds since the epoch. */
  untilMs: number;
  /** The source of the date. */
  source: string;
}

/** The conditions that determine how long a time-stamp is valid. */
export interface Terms {
  authorities: readonly TrustedAuthority[];
  sunsets: readonly Sunset[];
  /** The time of the survey, milliseconds since the epoch. */
  at: number;
}

/**
 * Checkpoints sealed shortly before an expiry are renewed together after so long: nightly renewals would put too many time-stamps into
 * records.
 */
const TOGETHER_MS = 30 * 86_400_000;
/** An algorithm that had already expired at the time of sealing is relied on until the regular renewal. */
const FRESH_MS = RENEW_BEFORE_MS + TOGETHER_MS;

/**
 * When a time-stamp expires; undefined if there is none. `sealedAt`: of a checkpoint, milliseconds since the epoch. The time-stamps of 30
 * days are renewed together, if they are valid for as long again: even if each has a certificate that expires soon, or is over a SHA-512
 * that is about to expire.
 */
export function dueOf(
  { digest, notAfter, signatures }: Strength,
  sunsets: readonly Sunset[],
  sealedAt = -Infinity,
): Due | undefined {
  if (signatures.length === 0) return undefined;
  if (notAfter === null) return { at: 0, renewAt: 0, reason: 'no root in the trust file vouches for it' };
  const due: Omit<Due, 'renewAt'> = { at: notAfter, reason: 'the first of its certificates ends then' };
  const first = sunsets
    .filter(({ algorithm }) => [digest, ...signatures].some((used) => isOf(used, algorithm)))
    .map(({ algorithm, untilMs, source }) => ({
      at: Math.max(untilMs, sealedAt + FRESH_MS),
      reason:
        untilMs < sealedAt + FRESH_MS
          ? `${algorithm} may be relied on until ${toRfc3339(untilMs).slice(0, 'yyyy-mm-dd'.length)} (${source}), and what is sealed with it nevertheless is renewed each 30 days`
          : `${algorithm} may be relied on until then (${source})`,
      algorithm,
      ...(digest === algorithm && { ofDigest: digest }),
    }))
    .reduce((first, one) => (one.at < first.at ? one : first), due);
  const together = Math.min(sealedAt + TOGETHER_MS, (sealedAt + first.at) / 2);
  return { ...first, renewAt: Math.max(first.at - RENEW_BEFORE_MS, together) };
}

function isOf(used: string, algorithm: string): boolean {
  const [bits, bitsMax] = [used, algorithm].map((name) => /^rsa-(\d+)$/.exec(name)?.[1]);
  return bits !== undefined && bitsMax !== undefined ? Number(bits) <= Number(bitsMax) : used === algorithm;
}

/**
 * Surveys the time-stamps that the next run renews: those of the newest run, and of the batches sealed since. Continues where the last
 * survey ended, and saves its result. If runs have lapsed, also includes those runs, and what the next run returns to without them.
 */
export async function surveyTimestamps(
  store: Pick<Store, 'log' | 'renewals'>,
  { authorities, sunsets, at }: Terms,
  onLeaves: (leaves: number) => void = () => {},
): Promise<StandingTimestamps[]> {
  const runs = await store.renewals.runs();
  const from = runs.at(-1)?.to ?? 0;
  const to = (await store.log.head())?.treeSize ?? 0;
  const kept = await store.renewals.survey();
  // A root that was missing in the last survey may be trusted now.
  const isGood = kept?.groups.every(
    ({ notAfter, signatures }) => notAfter !== null || signatures.length === 0,
  );
  const survey = kept?.from === from && kept.to <= to && isGood ? kept : { from, to: from, groups: [] };
  const strengthOfBatch = byCertificates(authorities);
  const groups = new Map(survey.groups.map((group) => [keyOf(group), group]));
  const keep = (until: number): Promise<void> =>
    store.renewals.keepSurvey({ from, to: until, groups: [...groups.values()] });
  let seen = 0;
  for await (const batch of batchesOf(store, survey.to, to)) {
    addTo(groups, batch, strengthOfBatch(batch));
    onLeaves(batch.treeSize);
    seen += 1;
    if (seen % KEEP_BATCHES === 0) await keep(batch.treeSize);
  }
  if (seen > 0 || survey !== kept) await keep(to);
  const { renewed, alone } = renewedBy(runs, pathsAt(runs, authorities, at));
  const former = new Map<string, SurveyGroup>();
  for (const range of alone)
    for await (const batch of batchesOf(store, range.firstLeaf, range.treeSize))
      addTo(former, batch, strengthOfBatch(batch));
  const ofRuns = renewed.flatMap(({ number, tokens }) =>
    tokens.map(({ token, certificates, authority }): StandingTimestamps => {
      const strength = strengthOf(token, certificates, authorities);
      return { ...strength, run: number, authority, leaf: 0, due: dueOf(strength, sunsets) };
    }),
  );
  const ofBatches = [...former.values(), ...groups.values()].map(async (group) => ({
    ...group,
    due: dueOf(group, sunsets, (await store.log.batchOf(group.leaf))?.sealedAt),
  }));
  return [...ofRuns, ...(await Promise.all(ofBatches))];
}

/**
 * The part of earlier runs' coverage that the next run renews: runs, including those that it leaves out, and batches that stand alone
 * without them.
 */
function renewedBy(
  runs: readonly RenewalRun[],
  pathAt: (range: LeafRange) => number[],
): { renewed: RenewalRun[]; alone: LeafRange[] } {
  const renewed = new Set<RenewalRun>();
  const alone: LeafRange[] = [];
  const now = waysNow(runs);
  for (const range of rangesOf(runs)) {
    const found = runsOf(range, runs, pathAt(range));
    const last = found.at(-1);
    if (last === undefined) alone.push(range);
    const leftOut = runsOf(range, runs, pathOf(now, range)).filter((run) => !found.includes(run));
    for (const run of last ? [last, ...leftOut] : leftOut) renewed.add(run);
  }
  return { renewed: [...renewed].toSorted((a, b) => a.number - b.number), alone };
}

function addTo(groups: Map<string, SurveyGroup>, { firstLeaf }: Batch, strength: Strength): void {
  const key = keyOf(strength);
  const group = groups.get(key) ?? { ...strength, leaf: firstLeaf, batches: 0 };
  groups.set(key, { ...group, batches: group.batches + 1 });
}

const keyOf = ({ digest, signatures, notAfter }: Strength) => [notAfter, digest, ...signatures].join(' ');

/** Batches whose tokens have the same certificates depend on the same algorithms: one token of each kind is verified. */
export function byCertificates(authorities: readonly TrustedAuthority[]): (batch: Batch) => Strength {
  const known = new Map<string, Strength>();
  return ({ timestamp }) => {
    if (timestamp === undefined) return { digest: 'sha512', signatures: [], notAfter: null };
    const key = timestamp.certificates.join();
    const strength = known.get(key) ?? strengthOf(timestamp.token, timestamp.certificates, authorities);
    if (known.size >= KINDS_MAX) known.clear();
    known.set(key, strength);
    return strength;
  };
}

export function strengthOf(
  token: string,
  certificates: readonly string[],
  authorities: readonly TrustedAuthority[],
): Strength {
  const { digest, signer, timestamp } = openToken(token, certificates, authorities);
  if (timestamp === undefined || typeof authorityOf(timestamp, authorities) === 'string')
    return { digest, signatures: ['untrusted'], notAfter: null };
  const { chain, notAfter } = timestamp;
  const signed = chain.map(parseCertificate);
  const names = [
    signer.digest,
    // A root is trusted directly, so its own signature does not matter.
    ...signed.slice(0, -1).map(({ scheme }) => scheme?.digest),
    ...signed.map(({ publicKey }) => publicKey && nameOfKey(publicKey)),
  ];
  const signatures = [...new Set(names.filter((name) => name !== undefined))].sort();
  return { digest, signatures, notAfter };
}

/** `ecdsa-p256`, `rsa-3072`, … */
function nameOfKey(key: PublicKey): string {
  if (key.type === 'ec') return `ecdsa-${key.curve.replace('-', '').toLowerCase()}`;
  return key.type === 'rsa' ? `rsa-${key.modulus.length * 8}` : key.type;
}
