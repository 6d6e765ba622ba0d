import { parseCertificate } from '../asn1/certificate.ts';
import { toRfc3339 } from '../base/clock.ts';
import type { DigestName, PublicKey } from '../base/crypto.ts';
import type { TrustedAuthority } from '../manifest/trustFile.ts';
import {
  type LeafRange,
  pathOf,
  type RenewalRun,
  rangesOf,
  runsOf,
  type SurveyGroup,
} from '../store/renewalStore.ts';
import type { Batch, Store } from '../store/store.ts';
import { waysNow } from './renewalPath.ts';
import { openToken, pathsAt } from './renewalStandings.ts';
import { batchesOf } from './renewals.ts';
import { authorityOf } from './timestampCheck.ts';

/** What a time-stamp rests on. */
export interface Strength {
  /** The digest of its imprint. */
  digest: DigestName;
  /** The other algorithms that it needs, such as `ecdsa-p256` and `sha256`, in alphabetical order. */
  signatures: string[];
  /** When the first of its certificates ends, milliseconds since the epoch; null where no trusted root vouches for it. */
  notAfter: number | null;
}

/** Time-stamps that the next run renews, made alike. */
export interface StandingTimestamps extends Strength {
  /** The run whose time-stamps they are; undefined for those that checkpoints were sealed with. */
  run?: number;
  authority?: string;
  /** Checkpoints; undefined for a run. */
  batches?: number;
  /** The leaf, in the log, of the first checkpoint with that end. */
  leaf: number;
  due: Due | undefined;
}

/** Until when something holds, and when it is to be renewed: milliseconds since the epoch. */
export interface Due {
  at: number;
  renewAt: number;
  /** In plain words, after "because". */
  reason: string;
  /** The algorithm that ends; undefined where a certificate does. */
  algorithm?: string;
  /** The hash function, if it is what ends: only a renewal with another one helps. */
  ofDigest?: DigestName;
}

/** So long before its end a time-stamp is renewed: time enough to notice that it was not, and to mend the cause. */
export const RENEW_BEFORE_MS = 180 * 86_400_000;

/** Why the next run is made at that time, in words; undefined: it is not time yet. */
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

/** Of several, what ends first. */
export function firstOf(standing: readonly StandingTimestamps[]): Due | undefined {
  return standing.flatMap(({ due }) => due ?? []).toSorted((a, b) => a.at - b.at)[0];
}

/** What ends first of all that does not wait to be renewed together with what is sealed later: nobody has to be alarmed because of that. */
export function firstToAnnounce(standing: readonly StandingTimestamps[], at: number): Due | undefined {
  const waits = ({ at: end, renewAt }: Due) => renewAt > Math.max(at, end - RENEW_BEFORE_MS);
  return firstOf(standing.filter(({ due }) => due && !waits(due)));
}

/** Whether no time-stamp proves any more when something was sealed: its own ended, and nothing had renewed it. */
export function isUnproven({ run, notAfter }: StandingTimestamps, at: number): boolean {
  return run === undefined && notAfter !== null && notAfter < at;
}

/** More kinds of certificates than an installation ever has. */
const KINDS_MAX = 1000;
/** A survey is kept each time that it has seen so many batches more. */
const KEEP_BATCHES = 65_536;

/** Until when evidence may rest on an algorithm. */
export interface Sunset {
  /** As in {@link Strength}. The length of an RSA key stands for all that are shorter. */
  algorithm: string;
  /** Milliseconds since the epoch. */
  untilMs: number;
  /** Who says so. */
  source: string;
}

/** What decides until when a time-stamp holds. */
export interface Terms {
  authorities: readonly TrustedAuthority[];
  sunsets: readonly Sunset[];
  /** Of the survey, milliseconds since the epoch. */
  at: number;
}

/** What is sealed when its end is near already is renewed together, after so long: not each night, or records would have too many time-stamps. */
const TOGETHER_MS = 30 * 86_400_000;
/** An algorithm that was at its end when something was sealed is relied on until that is renewed in the usual time. */
const FRESH_MS = RENEW_BEFORE_MS + TOGETHER_MS;

/**
 * Until when a time-stamp holds; undefined for none. `sealedAt`: of a checkpoint, milliseconds since the epoch. Those of 30 days are renewed
 * together, if they hold for as long again: also where each has a certificate that ends soon, or is over a SHA-512 when that is at its end.
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
 * Looks at the time-stamps that the next run renews: of the newest run, and of the batches that were sealed since. It goes on where the last
 * survey ended, and keeps what it found. Where runs have lapsed, also at those runs, and at what the next run goes back to without them.
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
  // What nobody vouched for may be vouched for by now.
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

/** What the next run renews of what runs cover: runs, those that it leaves out too; and batches that stand alone without them. */
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

/** Batches whose tokens have the same certificates rest on the same: one token of each kind is verified. */
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
    // A root is trusted as it is, so its own signature does not matter.
    ...signed.slice(0, -1).map(({ scheme }) => scheme?.digest),
    ...signed.map(({ publicKey }) => publicKey && nameOfKey(publicKey)),
  ];
  return {
    digest,
    signatures: [...new Set(names.filter((name) => name !== undefined))].sort(),
    notAfter,
  };
}

/** `ecdsa-p256`, `rsa-3072`, … */
function nameOfKey(key: PublicKey): string {
  if (key.type === 'ec') return `ecdsa-${key.curve.replace('-', '').toLowerCase()}`;
  return key.type === 'rsa' ? `rsa-${key.modulus.length * 8}` : key.type;
}
