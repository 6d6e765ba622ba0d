import { treeRoot } from '../../asn1/hashTree.ts';
import { ACCURACY_MAX_MS, STAMPING_TOLERANCE_MS } from '../../asn1/stamping.ts';
import { type VerifiedTimestamp, verifyTimestampToken } from '../../asn1/timestampToken.ts';
import { assert } from '../../base/assert.ts';
import { toBase64, toHex } from '../../base/bytes.ts';
import { toRfc3339 } from '../../base/clock.ts';
import { type DigestName, sha256 } from '../../base/crypto.ts';
import { OperatorError } from '../../base/errors.ts';
import type { Act, ActObject } from '../../manifest/auditRecord.ts';
import type { TrustedAuthority } from '../../manifest/trustFile.ts';
import {
  isSameDraft,
  isSameRun,
  type KeptTheft,
  type RenewalDraft,
  type RenewalRun,
  type RenewalScope,
  type RenewalTile,
  type RenewalToken,
  type RenewalWays,
  renewedUntil,
} from '../../store/renewalStore.ts';
import type { Store } from '../../store/store.ts';
import { authorityOf, rootsOf } from '../verify/timestampCheck.ts';
import { waysNow } from './renewalPath.ts';
import { bytesOf, type RenewalTrees, storedToken } from './renewals.ts';

type RenewableStore = Pick<Store, 'log' | 'renewals'>;

/** A run whose tree is complete: only time-stamps over the root are missing. */
export interface DraftedRun {
  scope: RenewalScope;
  rows: RenewalTile[];
  root: Uint8Array;
  /** As stored in the draft. */
  thefts: readonly KeptTheft[];
}

/** Another process renewed the log in the meantime, or is renewing it now: this process has changed nothing. */
export class RenewedElsewhere extends OperatorError {
  override readonly name = 'RenewedElsewhere';

  constructor() {
    super('another process renews this log now, or has just done so: nothing was renewed here', {
      remedy: 'wait until it has ended, and run the command again',
    });
  }
}

/** The next run, over everything that the log contains now. */
export async function nextRun(
  { log }: Pick<RenewableStore, 'log'>,
  runs: readonly RenewalRun[],
  digest: DigestName,
  ways?: RenewalWays,
): Promise<RenewalScope> {
  const to = (await log.head())?.treeSize ?? 0;
  const chosen = { digest, ...(ways ?? waysNow(runs)) };
  return { number: runs.length + 1, ...chosen, from: renewedUntil(runs, chosen), to };
}

/**
 * Drafts a run row by row. After an interruption at any moment, the same call continues after the last row. A draft already begun for the
 * same run is continued unchanged; anything sealed since is left to the next run. Memory does not grow with the log. Throws
 * RenewedElsewhere.
 */
export async function draftRun(
  store: RenewableStore,
  trees: RenewalTrees,
  wanted: RenewalDraft,
  onLeaves: (leaves: number) => void = () => {},
): Promise<DraftedRun> {
  const former = await store.renewals.draft();
  const isBegun =
    former !== undefined && isSameRun({ ...wanted, to: former.to }, former) && former.to <= wanted.to;
  const begun = isBegun && wanted.at < endOfDraft(former) ? former : wanted;
  // Known thefts are kept, even if the new draft is for another run: the latest report for each root.
  const told = [...(former?.thefts ?? []), ...(wanted.thefts ?? [])];
  const thefts = Array.from(new Map(told.map((one) => [one.root, one.since])), ([root, since]) => ({
    root,
    since,
  }));
  const draft = thefts.length > 0 ? { ...begun, thefts } : begun;
  if (!isSameDraft(draft, former) && !(await store.renewals.keepDraft(draft, former)))
    throw new RenewedElsewhere();
  const rows: RenewalTile[] = [];
  for (let leaf = draft.from; leaf < draft.to; ) {
    let tiles = await store.renewals.row(draft.number, rows.length);
    if (tiles === undefined) {
      tiles = await makeRow(trees, draft, leaf, onLeaves);
      if (!(await store.renewals.addRow(draft, rows.length, tiles))) throw new RenewedElsewhere();
    }
    rows.push({ first: leaf, root: rootOfTiles(draft.digest, tiles) });
    for await (const batch of trees.batchesOfTile(tiles.at(-1)?.first ?? leaf, draft.to))
      leaf = batch.treeSize;
    onLeaves(leaf);
  }
  const { number, digest, from, to, path, older } = draft;
  const scope = { number, digest, from, to, path, ...(older && { older }) };
  return { scope, rows, root: rootOfRun(trees, scope, rows), thefts: draft.thefts ?? [] };
}

const DRAFT_MS_MAX = 86_400_000;
const QUERY_MS_MAX = 30 * 86_400_000;

/**
 * When a draft must be begun again, milliseconds since the epoch: it leaves out everything sealed since. There is more time if a query is
 * carried to an authority by hand.
 */
export function endOfDraft({ at, nonce }: RenewalDraft): number {
  return at + (nonce === undefined ? DRAFT_MS_MAX : QUERY_MS_MAX);
}

/** The root of a run's tree, over the result of the previous run and over its own rows. */
export function rootOfRun(trees: RenewalTrees, run: RenewalScope, rows: readonly RenewalTile[]): Uint8Array {
  return treeRoot(run.digest, [...trees.carriedLeaves(run), ...rows.map(({ root }) => bytesOf(root))]);
}

export function rootOfTiles(digest: DigestName, tiles: readonly RenewalTile[]): string {
  const roots = tiles.map(({ root }) => bytesOf(root));
  return toBase64(treeRoot(digest, roots));
}

/** A row of a run, made from its batches. */
export async function makeRow(
  trees: RenewalTrees,
  scope: RenewalScope,
  from: number,
  onLeaves: (leaves: number) => void = () => {},
): Promise<RenewalTile[]> {
  const tiles: RenewalTile[] = [];
  for (let leaf = from; leaf < scope.to && tiles.length < trees.width; onLeaves(leaf)) {
    const first = leaf;
    const leaves: Uint8Array[] = [];
    for await (const batch of trees.batchesOfTile(first, scope.to)) {
      leaves.push(await trees.leafOf(batch, scope));
      leaf = batch.treeSize;
    }
    tiles.push({ first, root: toBase64(treeRoot(scope.digest, leaves)) });
  }
  return tiles;
}

/** The fault of a token over the root of a run, or what it proves: judged as any verifier does. */
export function judgeRenewal(
  { token, certificates }: Omit<RenewalToken, 'authority'>,
  { scope, root }: Pick<DraftedRun, 'scope' | 'root'>,
  authorities: readonly TrustedAuthority[],
): { fault: string; isUntrusted: boolean } | { timestamp: VerifiedTimestamp; authority: TrustedAuthority } {
  const verdict = verifyTimestampToken({
    token: bytesOf(token),
    messageImprint: { algorithm: scope.digest, digest: root },
    trustedRoots: rootsOf(authorities),
    certificates: certificates.map(bytesOf),
  });
  if (verdict.outcome === 'bad')
    return {
      fault: `the token is not a proof: ${verdict.detail}`,
      isUntrusted: verdict.fault === 'untrusted',
    };
  const { timestamp } = verdict;
  const authority = authorityOf(timestamp, authorities);
  return typeof authority === 'string'
    ? { fault: `the token is ${authority}`, isUntrusted: true }
    : { timestamp, authority };
}

/** The time of the newest token of these runs, milliseconds since the epoch; -Infinity if there is none. */
export function newestOf(runs: readonly Pick<RenewalRun, 'tokens'>[]): number {
  const tokens = runs.flatMap((run) => run.tokens);
  return Math.max(-Infinity, ...tokens.map(({ token }) => storedToken(token).info.genTime));
}

/**
 * Why a token of that time cannot follow those that it renews; undefined if it can. In an evidence record the times must strictly ascend
 * (BSI TR-03125, RFC 4998, section 5.3). `newest`: of the earlier runs, see {@link newestOf}.
 */
export async function orderFault(
  { log }: Pick<RenewableStore, 'log'>,
  { to }: Pick<RenewalScope, 'to'>,
  newest: number,
  genTime: number,
): Promise<string | undefined> {
  const faultOf = (renewed: number): string | undefined =>
    renewed < genTime
      ? undefined
      : `the token says ${toRfc3339(genTime)}, but a time-stamp that it renews says ${toRfc3339(renewed)}`;
  const fault = faultOf(newest);
  if (fault !== undefined) return fault;
  // Every token is closer to the time of its batch than this, and batches are ordered by time.
  const since = genTime - STAMPING_TOLERANCE_MS - ACCURACY_MAX_MS;
  for (let leaf = to; leaf > 0; ) {
    const batch = await log.batchOf(leaf - 1);
    assert(batch, `no batch holds leaf ${leaf - 1}`);
    if (batch.sealedAt < since) break;
    const found = batch.timestamp && faultOf(storedToken(batch.timestamp.token).info.genTime);
    if (found !== undefined) return found;
    leaf = batch.firstLeaf;
  }
  return undefined;
}

/** The object of the audit record of a renewal. */
export function auditedRun(
  trees: RenewalTrees,
  run: Omit<RenewalRun, 'thefts'> & Partial<Pick<DraftedRun, 'thefts'>>,
): ActObject {
  const { number, digest, from, to, rows, tokens, thefts = [] } = run;
  return {
    run: number,
    digest,
    from,
    to,
    root: toHex(rootOfRun(trees, run, rows)),
    authorities: tokens.map(({ authority }) => authority),
    stamped_at: toRfc3339(newestOf([run])),
    // The SHA-256 of each root, and the time from which it is distrusted.
    ...(thefts.length > 0 && {
      distrusted: thefts.map(
        ({ root, since }) => `${toHex(sha256(bytesOf(root)))} since ${toRfc3339(since)}`,
      ),
    }),
  };
}

/**
 * Commits a run with tokens that were judged. Returns it; undefined if another process has committed one, is drafting another one, or has
 * added a theft.
 */
export async function commitRun(
  { renewals }: Pick<Store, 'renewals'>,
  { scope, rows, thefts }: DraftedRun,
  tokens: RenewalToken[],
  act: Act,
): Promise<RenewalRun | undefined> {
  const run = { ...scope, rows, tokens, ...(thefts.length > 0 && { thefts: [...thefts] }) };
  return (await renewals.commit(run, act)) ? run : undefined;
}
