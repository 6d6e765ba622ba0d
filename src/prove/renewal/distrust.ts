import { cosignaturesIn } from '../../log/cosignature.ts';
import { parseNote } from '../../log/note.ts';
import { parseWitnessPolicy } from '../../log/witnessPolicy.ts';
import type { TrustedAuthority, TrustFile } from '../../manifest/trustFile.ts';
import { type RenewalRun, type RenewalToken, runsOf, SKIPPED } from '../../store/renewalStore.ts';
import type { Batch, Store } from '../../store/store.ts';
import { isLast } from '../verify/timestampCheck.ts';
import { bestPath } from './renewalPath.ts';
import { openToken, tokenStandings } from './renewalStandings.ts';
import { batchesOf } from './renewals.ts';
import { keptTheft, type Theft, theftsOf } from './thefts.ts';

/** Consecutive checkpoints that the theft affects in the same way. */
export interface TouchedRange {
  /** Leaf indexes in the log: the first, and the one after the last. */
  from: number;
  to: number;
  checkpoints: number;
  /**
   * The time-stamp that still proves them, such as `renewal 2, by acme`, or {@link OWN_TIMESTAMP}; undefined if they depend on the stolen
   * key alone.
   */
  by?: string;
}

export const OWN_TIMESTAMP = 'its own time-stamp';

export interface TheftReport {
  /** Whether any time-stamp of the log depends on the root. */
  isRootUsed: boolean;
  /** At most {@link RANGES_MAX}, from the first on. */
  ranges: TouchedRange[];
  alone: number;
  stillProven: number;
  /** According to the witness, every leaf before `treeSize` was in the log at that time (Unix, seconds). */
  witnessed: { witness: string; treeSize: number; time: number }[];
}

const RANGES_MAX = 1_000;
/** More kinds of time-stamps than an installation ever has. */
const KINDS_MAX = 1_000;

/** Reports which time-stamps remain after a theft. Memory does not grow with the log. */
export async function reportTheft(
  store: Pick<Store, 'log' | 'renewals' | 'witnessing'>,
  theft: Theft,
  { trust, at }: { trust: TrustFile; at: number },
  onLeaves: (leaves: number) => void = () => {},
): Promise<TheftReport> {
  const runs = await store.renewals.runs();
  const fates = new Fates({ runs, theft, authorities: trust.timestampAuthorities, at });
  const report: TheftReport = {
    isRootUsed: false,
    ranges: [],
    alone: 0,
    stillProven: 0,
    witnessed: await cosigned(store, trust),
  };
  const to = (await store.log.head())?.treeSize ?? 0;
  let last: TouchedRange | undefined;
  for await (const batch of batchesOf(store, 0, to)) {
    onLeaves(batch.treeSize);
    const fate = fates.fateOf(batch);
    if (fate === undefined) continue;
    if (fate.by === undefined) report.alone += 1;
    else report.stillProven += 1;
    if (last?.to === batch.firstLeaf && last.by === fate.by) {
      last.to = batch.treeSize;
      last.checkpoints += 1;
    } else {
      last = { from: batch.firstLeaf, to: batch.treeSize, checkpoints: 1, ...fate };
      if (report.ranges.length < RANGES_MAX) report.ranges.push(last);
    }
  }
  report.isRootUsed = fates.isRootUsed;
  return report;
}

type Standings = ReturnType<typeof tokenStandings>;

interface Circumstances {
  runs: readonly RenewalRun[];
  theft: Theft;
  authorities: readonly TrustedAuthority[];
  at: number;
}

/** The effect of the theft on batches, whose records take the best remaining path. */
class Fates {
  /** Whether a token opened so far depends on the stolen root. */
  isRootUsed = false;
  readonly #given: Circumstances;
  /** With the theft, and, in `#former`, without it. */
  readonly #standings: Standings;
  readonly #former: Standings;
  readonly #stolen: ReadonlySet<RenewalToken>;
  readonly #known = new Map<string, { by?: string } | undefined>();

  constructor(given: Circumstances) {
    const { runs, theft, authorities } = given;
    this.#given = given;
    this.#standings = tokenStandings(authorities, theftsOf([...runs, { thefts: [keptTheft(theft)] }]));
    this.#former = tokenStandings(authorities, theftsOf(runs));
    const tokens = runs.flatMap((run) => run.tokens);
    this.#stolen = new Set(tokens.filter((token) => this.#open(token)?.isStolen));
  }

  /** The effect on a batch; undefined if the theft does not affect it, or if its time-stamps had expired anyway. */
  fateOf(batch: Batch): { by?: string } | undefined {
    const { timestamp, treeSize } = batch;
    const { runs, theft } = this.#given;
    const first = runs.findIndex(({ to }) => treeSize <= to);
    const key = [first, ...(timestamp?.certificates ?? [])].join();
    if (this.#known.has(key)) return this.#known.get(key);
    const own = timestamp && this.#open(timestamp);
    const later = first < 0 ? [] : runs.slice(first).flatMap(({ tokens }) => tokens);
    const isTouched = own?.isStolen || later.some((token) => this.#stolen.has(token));
    const until = own?.isStolen ? Math.min(own.notAfter, theft.since - 1) : own?.notAfter;
    const found = this.#standing(batch, until, this.#standings);
    const hasStood = found !== undefined || this.#standing(batch, own?.notAfter, this.#former) !== undefined;
    const fate = isTouched && hasStood ? { ...(found && { by: found }) } : undefined;
    if (this.#known.size >= KINDS_MAX) this.#known.clear();
    this.#known.set(key, fate);
    return fate;
  }

  /** Names the time-stamp that proves a batch: its own, if it is trusted until then, or the first token on its path with another root. */
  #standing(batch: Batch, until: number | undefined, standings: Standings): string | undefined {
    const { runs, at } = this.#given;
    if (until !== undefined && until >= at) return OWN_TIMESTAMP;
    const path = bestPath(batch, runs, standings, at);
    const way = runsOf(batch, runs, path).flatMap(({ number, tokens }) => {
      const token = tokens[path[number - 1] ?? SKIPPED];
      return token ? [{ number, token }] : [];
    });
    const [first] = way;
    if (first === undefined || (until ?? Infinity) < standings(first.token).genTime) return undefined;
    const { number, token } = way.find((one) => !this.#stolen.has(one.token)) ?? first;
    return `renewal ${number}, by ${token.authority}`;
  }

  #open(one: Pick<RenewalToken, 'token' | 'certificates'>) {
    const { authorities, theft } = this.#given;
    const { timestamp } = openToken(one.token, one.certificates, authorities);
    if (timestamp === undefined) return undefined;
    const isStolen = isLast(timestamp.chain, theft.root);
    this.isRootUsed ||= isStolen;
    return { isStolen, notAfter: timestamp.notAfter };
  }
}

/** Cosignatures of witnesses, which are not time-stamp authorities. */
async function cosigned(
  { witnessing }: Pick<Store, 'witnessing'>,
  { logs: [log] }: TrustFile,
): Promise<TheftReport['witnessed']> {
  if (log?.witnessPolicy === undefined) return [];
  const { witnesses } = parseWitnessPolicy(log.witnessPolicy, log.origin);
  const { cosigned, witnessed } = await witnessing.get();
  const isOther = witnessed?.treeSize !== cosigned?.treeSize;
  const checkpoints = [cosigned, isOther ? witnessed : undefined].filter((one) => one !== undefined);
  return checkpoints.flatMap(({ treeSize, checkpoint }) => {
    const note = parseNote(checkpoint);
    const found = note ? cosignaturesIn(note, witnesses) : [];
    return found.map(({ cosigner, time }) => ({ witness: cosigner.label, treeSize, time }));
  });
}
