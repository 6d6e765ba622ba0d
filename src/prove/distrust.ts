import { bytesEqual } from '../base/bytes.ts';
import { cosignaturesIn } from '../log/cosignature.ts';
import { parseNote } from '../log/note.ts';
import { parseWitnessPolicy } from '../log/witnessPolicy.ts';
import type { TrustedAuthority, TrustFile } from '../manifest/trustFile.ts';
import type { RenewalRun } from '../store/renewalStore.ts';
import type { Batch, Store } from '../store/store.ts';
import { runsOf } from './renewalPath.ts';
import { openToken } from './renewalSurvey.ts';
import { batchesOf } from './renewals.ts';

/** The key of an authority was stolen: nothing that it signed from then on proves anything, whatever time is in it. */
export interface Theft {
  root: TrustedAuthority['root'];
  /** Milliseconds since the epoch. */
  since: number;
}

/** Checkpoints side by side that the theft touches alike. */
export interface TouchedRange {
  /** Leaves, in the log: the first, and the one after the last. */
  from: number;
  to: number;
  checkpoints: number;
  /** What still proves them, such as `renewal 2, by acme`, or {@link OWN_TIMESTAMP}; undefined: they stand on the stolen key alone. */
  by?: string;
}

export const OWN_TIMESTAMP = 'its own time-stamp';

export interface TheftReport {
  /** Whether any time-stamp of the log rests on the root. */
  isRootUsed: boolean;
  /** The first {@link RANGES_MAX}. */
  ranges: TouchedRange[];
  alone: number;
  stillProven: number;
  /** Every leaf before `treeSize` was in the log at that time, Unix seconds, says the witness. */
  witnessed: { witness: string; treeSize: number; time: number }[];
}

const RANGES_MAX = 1_000;
/** More kinds of time-stamps than an installation ever has. */
const KINDS_MAX = 1_000;

/** A token, as far as it matters whether it can be believed. */
interface Believable {
  isStolen: boolean;
  genTime: number;
  notAfter: number;
  name: string;
}

/** What a theft leaves of the time-stamps. Memory does not grow with the log. */
export async function reportTheft(
  store: Pick<Store, 'log' | 'renewals' | 'witnessing'>,
  theft: Theft,
  { trust, at }: { trust: TrustFile; at: number },
  onLeaves: (leaves: number) => void = () => {},
): Promise<TheftReport> {
  const runs = await store.renewals.runs();
  const chains = new Chains(runs, theft, trust.timestampAuthorities, at);
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
    const fate = chains.fateOf(batch);
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
  report.isRootUsed = chains.isRootUsed;
  return report;
}

/** Which tokens still stand, seen from the last run back. */
class Chains {
  /** Whether a token that was opened so far rests on the stolen root. */
  isRootUsed = false;
  readonly #runs: readonly RenewalRun[];
  readonly #theft: Theft;
  readonly #authorities: readonly TrustedAuthority[];
  readonly #at: number;
  readonly #tokens: (Believable | undefined)[][];
  readonly #known = new Map<string, { by?: string } | undefined>();

  constructor(
    runs: readonly RenewalRun[],
    theft: Theft,
    authorities: readonly TrustedAuthority[],
    at: number,
  ) {
    this.#runs = runs;
    this.#theft = theft;
    this.#authorities = authorities;
    this.#at = at;
    this.#tokens = runs.map(({ number, tokens }) =>
      tokens.map((one) => this.#open(one, `renewal ${number}, by ${one.authority}`)),
    );
  }

  /** What becomes of a batch; undefined for one that the theft does not touch, or whose time-stamps had ended anyway. */
  fateOf(batch: Batch): { by?: string } | undefined {
    const { timestamp, treeSize } = batch;
    const first = this.#runs.findIndex(({ to }) => treeSize <= to);
    const key = [first, ...(timestamp?.certificates ?? [])].join();
    if (this.#known.has(key)) return this.#known.get(key);
    const own = timestamp && this.#open(timestamp, OWN_TIMESTAMP);
    const isTouched =
      own?.isStolen ||
      (first >= 0 &&
        this.#tokens
          .slice(first)
          .flat()
          .some((one) => one?.isStolen));
    const found = this.#standing(own, batch, true);
    const hasStood = found !== undefined || this.#standing(own, batch, false) !== undefined;
    const fate = isTouched && hasStood ? { ...(found && { by: found }) } : undefined;
    if (this.#known.size >= KINDS_MAX) this.#known.clear();
    this.#known.set(key, fate);
    return fate;
  }

  /**
   * What a batch stands on, by name: the first token of another root on a way from its own token, where each is believed when the next one
   * was made, and the last one now.
   */
  #standing(own: Believable | undefined, batch: Batch, knowsTheft: boolean): string | undefined {
    const seen = new Set<Believable>();
    const from = (token: Believable | undefined, run: number, index: number): string | undefined => {
      if (token && this.#isBelieved(token, this.#at, knowsTheft)) return token.name;
      for (const next of this.#over(batch, run, index))
        for (const [at, one] of (this.#tokens[next] ?? []).entries()) {
          if (one === undefined || seen.has(one)) continue;
          if (token && !this.#isBelieved(token, one.genTime, knowsTheft)) continue;
          seen.add(one);
          const found = from(one, next, at);
          if (found !== undefined) return run >= 0 && token && !token.isStolen ? token.name : found;
        }
      return undefined;
    };
    return from(own, -1, 0);
  }

  /** The runs that cover this token of a run; run -1: the batch's own. */
  #over(batch: Batch, run: number, index: number): number[] {
    // A run with a leaf for each checkpoint covers one way to it.
    const isLeft = ({ number, from, path }: RenewalRun) =>
      number - 2 >= run && from === 0 && path[run] !== index;
    if (run >= 0 && this.#runs.some(isLeft)) return [];
    const isOver = ({ number, from, to, path }: RenewalRun) => {
      if (number - 2 < run || batch.treeSize > to) return false;
      if (batch.firstLeaf < from) return number - 2 === run;
      return (runsOf(batch, this.#runs, path).at(-1)?.number ?? 0) === run + 1;
    };
    return this.#runs.filter(isOver).map(({ number }) => number - 1);
  }

  #isBelieved({ isStolen, notAfter }: Believable, at: number, knowsTheft: boolean): boolean {
    return at <= notAfter && !(knowsTheft && isStolen && at >= this.#theft.since);
  }

  #open(one: { token: string; certificates: readonly string[] }, name: string): Believable | undefined {
    const timestamp = openToken(one.token, one.certificates, this.#authorities).timestamp;
    const last = timestamp?.chain.at(-1);
    if (timestamp === undefined || last === undefined) return undefined;
    const { genTime, notAfter } = timestamp;
    const isStolen = bytesEqual(last, this.#theft.root.der);
    this.isRootUsed ||= isStolen;
    return { isStolen, genTime, notAfter, name };
  }
}

/** What witnesses say of the log, who are no time-stamp authorities. */
async function cosigned(
  { witnessing }: Pick<Store, 'witnessing'>,
  { logs: [log] }: TrustFile,
): Promise<TheftReport['witnessed']> {
  if (log?.witnessPolicy === undefined) return [];
  const { witnesses } = parseWitnessPolicy(log.witnessPolicy, log.origin);
  const { cosigned, witnessed } = await witnessing.get();
  return [
    cosigned,
    witnessed === undefined || witnessed.treeSize === cosigned?.treeSize ? undefined : witnessed,
  ]
    .filter((one) => one !== undefined)
    .flatMap(({ treeSize, checkpoint }) => {
      const note = parseNote(checkpoint);
      const found = note ? cosignaturesIn(note, witnesses) : [];
      return found.map(({ cosigner, time }) => ({ witness: cosigner.label, treeSize, time }));
    });
}
