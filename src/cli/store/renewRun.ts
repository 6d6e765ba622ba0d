import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { STAMPING_TOLERANCE_MS } from '../../asn1/stamping.ts';
import { bytesEqual, toBase64, toHex } from '../../base/bytes.ts';
import { systemClock, toRfc3339 } from '../../base/clock.ts';
import type { DigestName } from '../../base/crypto.ts';
import { OperatorError } from '../../base/errors.ts';
import { acquireLock, type DaemonLock } from '../../base/lock.ts';
import { type Config, loadConfig } from '../../config/config.ts';
import { trustOfStore } from '../../config/trustAnchors.ts';
import type { TrustedAuthority } from '../../manifest/trustFile.ts';
import type { PresentedStamp } from '../../ops/daemonOperations.ts';
import { fullestLevel } from '../../prove/renewal/recordLimits.ts';
import { chooseWays } from '../../prove/renewal/renewalPath.ts';
import {
  auditedRun,
  commitRun,
  type DraftedRun,
  draftRun,
  endOfDraft,
  judgeRenewal,
  newestOf,
  nextRun,
  orderFault,
  RenewedElsewhere,
} from '../../prove/renewal/renewalRun.ts';
import { tokenStandings } from '../../prove/renewal/renewalStandings.ts';
import {
  type Due,
  dueOf,
  firstOf,
  firstToAnnounce,
  isUnproven,
  reasonToRenew,
  type StandingTimestamps,
  strengthOf,
  surveyTimestamps,
} from '../../prove/renewal/renewalSurvey.ts';
import { RenewalTrees } from '../../prove/renewal/renewals.ts';
import {
  describeTheft,
  keptTheft,
  knownThefts,
  TAKE_BACK,
  type Theft,
  theftsOf,
} from '../../prove/renewal/thefts.ts';
import { isLast } from '../../prove/verify/timestampCheck.ts';
import { actOfProcess } from '../../store/acts.ts';
import {
  isSameRun,
  type KeptTheft,
  type RenewalDraft,
  type RenewalRun,
  type RenewalScope,
  type RenewalToken,
  type RenewalWays,
} from '../../store/renewalStore.ts';
import type { Store } from '../../store/store.ts';
import { AdminRefusal, askAdministration } from '../daemon/adminClient.ts';
import { note, showProgress } from '../terminal.ts';
import { withStore } from '../withStore.ts';
import { type Gain, GainsNothing, gainFault, type Unusable } from './renewalGain.ts';

/** The context of a renewal. */
export interface Renewing {
  store: Store;
  config: Config;
  authorities: TrustedAuthority[];
  runs: RenewalRun[];
  trees: RenewalTrees;
}

/** One process renews at a time, and none while another store replaces this one. Throws OperatorError. */
export function lockRenewals({ stateDir }: Pick<Config, 'stateDir'>): DaemonLock {
  return acquireLock(join(stateDir, 'renewal.lock'), 'pdfseal renew');
}

/** Opens the store for renewals. */
export async function withRenewals<T>(file: string, work: (renewing: Renewing) => Promise<T>): Promise<T> {
  using _lock = lockRenewals(loadConfig(file, { files: 'unused' }));
  return await withStore(file, 'write', async (store, config) => {
    const runs = await store.renewals.runs();
    const { timestampAuthorities: authorities } = await trustOfStore(store, config);
    return work({ store, config, authorities, runs, trees: new RenewalTrees(store, runs) });
  });
}

/** The standing time-stamps with their ends, and the reason to renew them now; without a reason they need no renewal. */
export interface Survey {
  standing: StandingTimestamps[];
  digest: DigestName;
  /** The first end among them, and its reason. */
  first?: Due;
  /** The first end among those that do not wait to be renewed together: for alarms. */
  announced?: Due;
  reason?: string;
  /** Number of leaves in the log. */
  size: number;
  /** Number of checkpoints whose sealing time no time-stamp proves any more. */
  lost: number;
  /** Thefts that became known before. */
  thefts: Theft[];
}

export async function surveyNow(
  { store, config, authorities, runs }: Renewing,
  hash: DigestName | undefined,
): Promise<Survey> {
  const size = (await store.log.head())?.treeSize ?? 0;
  const progress = showProgress('reading', size, 'leaves');
  const terms = { authorities, sunsets: config.renewal.sunsets, at: systemClock() };
  const standing = await surveyTimestamps(store, terms, progress.update).finally(progress.stop);
  const now = runs.at(-1)?.digest ?? 'sha512';
  const digest = hash ?? config.renewal.hash ?? now;
  const first = firstOf(standing);
  const reason = reasonToRenew(standing, { digest, former: now, at: terms.at });
  const lost = standing
    .filter((one) => isUnproven(one, terms.at))
    .reduce((sum, { batches = 0 }) => sum + batches, 0);
  const announced = firstToAnnounce(standing, terms.at);
  return { standing, digest, size, lost, thefts: await knownThefts(store), first, announced, reason };
}

/**
 * Computes the tree of the next run, or the rest of it; the tree of `query`, a draft whose query is out, if there is one. Throws
 * OperatorError if nothing was sealed yet, or if the run would make an evidence record larger than verifiers accept.
 */
export async function draftNow(
  renewing: Renewing,
  digest: DigestName,
  { theft, query }: { theft?: Theft | undefined; query?: RenewalDraft | undefined } = {},
): Promise<DraftedRun> {
  const { store, runs, trees } = renewing;
  const former = await store.renewals.draft();
  const thefts = [...(former?.thefts ?? []), ...(theft ? [keptTheft(theft)] : [])];
  const scope = query ?? (await nextRun(store, runs, digest, waysAt(renewing, thefts, systemClock())));
  if (scope.to === 0) throw new OperatorError('the log is empty: there is nothing to renew');
  const level = await fullestLevel(store.log, runs, scope);
  if (level !== undefined && level.count + level.next > level.max) {
    const { count, what, max, remedy } = level;
    throw new OperatorError(
      `an evidence record has ${count} ${what}, and verifiers accept at most ${max}: another renewal would make it worthless, so nothing is renewed`,
      { remedy },
    );
  }
  const progress = showProgress('hashing', scope.to, 'leaves');
  const wanted = { at: systemClock(), ...scope, ...(thefts.length > 0 && { thefts }) };
  const drafted = await draftRun(store, trees, wanted, progress.update).finally(progress.stop);
  if (theft) note('what you reported about the key is kept, even if nothing is renewed now');
  if (former?.nonce !== undefined && (await store.renewals.draft())?.nonce !== former.nonce)
    note('an answer to the earlier query is no longer accepted');
  return drafted;
}

/** The ways of records for a run that is stamped at a given time, milliseconds since the epoch. */
function waysAt({ runs, authorities }: Renewing, thefts: readonly KeptTheft[], at: number): RenewalWays {
  return chooseWays(runs, tokenStandings(authorities, theftsOf([...runs, { thefts: [...thefts] }])), at);
}

/** Whether a run has these ways. */
function hasWays(scope: RenewalScope, { path, older = [] }: RenewalWays): boolean {
  return isSameRun(scope, { ...scope, path, older });
}

/**
 * The draft of an open query that can still help, unless another hash function is requested now. Throws OperatorError if a renewal has
 * ended on which the query builds: a time-stamp of today would not serve it, but an answer from before that end can be on its way, and can
 * prove what nothing else does.
 */
export async function queryToKeep(
  renewing: Renewing,
  { first }: Pick<Survey, 'first'>,
  hash?: string,
): Promise<RenewalDraft | undefined> {
  const draft = await renewing.store.renewals.draft();
  if (draft?.nonce === undefined || systemClock() >= endOfDraft(draft)) return undefined;
  if (draft.digest === first?.ofDigest || draft.digest !== (hash ?? draft.digest)) return undefined;
  if (hasWays(draft, waysAt(renewing, draft.thefts ?? [], systemClock()))) return draft;
  const until = toRfc3339(endOfDraft(draft));
  throw new OperatorError(
    `a query that builds on an ended renewal is still open: nothing is renewed until its answer comes, or until ${until}`,
    {
      remedy:
        'if the authority answered before that end, pass the answer on: pdfseal renew accept <answer.tsr. Otherwise write another query: pdfseal renew request >query.tsq',
    },
  );
}

/** A judged token, and the facts that it proves. */
export interface Judged {
  token: RenewalToken;
  root: TrustedAuthority['root'];
  genTime: number;
  /** The end of the token's validity, and its reason. */
  due: Due;
}

export async function judgeToken(
  renewing: Renewing,
  drafted: DraftedRun,
  token: RenewalToken,
): Promise<Judged | Unusable> {
  const { store, authorities, config, runs } = renewing;
  const judged = judgeRenewal(token, drafted, authorities);
  if ('fault' in judged) return judged;
  const { genTime, notAfter, policy } = judged.timestamp;
  // A later token is refused: every further renewal would have to be later still, and a run cannot be undone.
  const now = systemClock();
  if (genTime > now + STAMPING_TOLERANCE_MS)
    return { fault: `the token says ${toRfc3339(genTime)}, but the time here is ${toRfc3339(now)}` };
  const thefts = theftsOf([...runs, { thefts: [...drafted.thefts] }]);
  const theft = thefts.find(({ root, since }) => since <= now && isLast(judged.timestamp.chain, root));
  if (theft) return { fault: describeTheft(theft), remedy: `name another authority; ${TAKE_BACK}` };
  // A run that has ended since the query was written may still hold at the time of the token.
  if (!hasWays(drafted.scope, waysAt(renewing, drafted.thefts, genTime)))
    return {
      fault: `the token says ${toRfc3339(genTime)}, but by then a renewal that the query builds on had ended`,
      remedy: 'write another query, which does not build on it: pdfseal renew request >query.tsq',
    };
  const wanted = config.timestamp.remotes[token.authority]?.policy;
  if (wanted !== undefined && policy !== wanted)
    return { fault: `the token has the policy ${policy}, but the configuration requires ${wanted}` };
  const strength = strengthOf(token.token, token.certificates, authorities);
  const due = dueOf(strength, config.renewal.sunsets) ?? { at: notAfter, renewAt: notAfter, reason: '' };
  const fault = await orderFault(store, drafted.scope, newestOf(runs), genTime);
  if (fault !== undefined) return { fault, isEarly: true };
  return { token, root: judged.authority.root, genTime, due };
}

/**
 * Requests time-stamps of the required number of independent authorities from the daemon, in the order of preference, in addition to those
 * in `kept`. Refuses those that `gain` refuses. Throws OperatorError if there are too few; GainsNothing if that is the only reason.
 */
export async function stampNow(
  renewing: Renewing,
  drafted: DraftedRun,
  {
    kept,
    gain,
    request = 'pdfseal renew request',
  }: { kept: readonly RenewalToken[]; gain?: Gain; request?: string | undefined },
): Promise<Judged[]> {
  const { config } = renewing;
  const needed = config.renewal.authorities;
  const found: Judged[] = [];
  const short: Unusable[] = [];
  const admitted = (judged: Judged): Judged | Unusable => {
    if (found.some(({ root }) => bytesEqual(root.der, judged.root.der)))
      return { fault: 'it has the same root as another one' };
    const refused = gain && gainFault(judged, gain);
    if (refused) short.push(refused);
    return refused ?? judged;
  };
  const add = (name: string, judged: Judged | Unusable): void => {
    const result = 'fault' in judged ? judged : admitted(judged);
    if (!('fault' in result)) return void found.push(result);
    note(`pdfseal: no time-stamp of ${name} for the renewal: ${result.fault}`);
    // A lack of gain is reported at the end.
    if (result.remedy && !short.includes(result)) note(`  → ${result.remedy}`);
  };
  for (const token of kept) add(token.authority, await judgeToken(renewing, drafted, token));
  for (const name of config.timestamp.authorities) {
    if (found.length >= needed) break;
    add(name, await askDaemon(renewing, drafted, name));
  }
  if (found.length >= needed) return found;
  // More authorities would not have helped, but better certificates of these would.
  const [refused] = short;
  if (refused && found.length + short.length >= needed) throw new GainsNothing(refused);
  const carry = `transfer a query to an authority yourself: ${request} >query.tsq`;
  if (config.timestamp.authorities.length === 0)
    throw new OperatorError(
      'timestamp.authorities is empty: there is no authority to ask, so nothing is renewed yet',
      { remedy: `name an authority there, or ${carry}` },
    );
  const given = needed === 1 ? 'no authority' : `${found.length} of ${needed} authorities`;
  throw new OperatorError(`${given} gave a time-stamp: nothing is renewed yet`, {
    remedy: `the lines above say why. Correct the cause, or ${carry}. The result of the computation is kept for a day`,
  });
}

/** Some authorities state whole seconds: a token over a newly sealed value may appear to be older than it. */
const ATTEMPTS_MAX = 4;
const ATTEMPT_PAUSE_MS = 1_100;

async function askDaemon(
  renewing: Renewing,
  drafted: DraftedRun,
  authority: string,
): Promise<Judged | Unusable> {
  const { digest } = drafted.scope;
  const query = new URLSearchParams({ algorithm: digest, digest: toHex(drafted.root), authority });
  const { socket } = renewing.config.admin;
  for (let attempt = 1; ; attempt++) {
    try {
      const stamp = await askAdministration<PresentedStamp>(socket, 'POST', `/timestamp?${query}`);
      const { token, certificates } = stamp;
      const judged = await judgeToken(renewing, drafted, { authority, token, certificates });
      if (!('isEarly' in judged) || attempt === ATTEMPTS_MAX) return judged;
    } catch (error) {
      if (error instanceof AdminRefusal && error.code === 'timestamp_unavailable')
        return { fault: error.message };
      throw error;
    }
    await sleep(ATTEMPT_PAUSE_MS);
  }
}

/** Commits the run, with its record on the audit trail. Prints a note if verifiers may not know an authority yet. */
export async function commitNow(
  { store, runs, trees }: Renewing,
  drafted: DraftedRun,
  judged: readonly Judged[],
): Promise<RenewalRun> {
  const tokens = judged.map(({ token }) => token);
  const { scope, rows, thefts } = drafted;
  const object = auditedRun(trees, { ...scope, rows, tokens, thefts });
  const act = actOfProcess('command', 'renewal.run', object);
  const run = await commitRun(store, drafted, tokens, act);
  if (run === undefined) throw new RenewedElsewhere();
  const { list } = await store.epochs.newest();
  const known = list.flatMap(({ roots }) => roots.map(({ root }) => root));
  const names = runs.flatMap(({ tokens }) => tokens.map(({ authority }) => authority));
  const isNew = ({ token, root }: Judged) =>
    !names.includes(token.authority) && !known.includes(toBase64(root.der));
  if (judged.some(isNew))
    note('verifiers may not know the authority yet: hand over the trust file again (pdfseal trust export)');
  return run;
}
