/** Acts that take two people: one proposes, another approves. In memory, so a restart drops what waits. */

import { randomBytes } from 'node:crypto';
import type { PresentedEpoch } from '../admin/presentEpochs.ts';
import { takingTurns } from '../base/inTurn.ts';
import type { ActName, Actor } from '../manifest/auditRecord.ts';
import { actorOfProcess, onRecord } from '../store/acts.ts';
import type { Store } from '../store/store.ts';
import { english } from './english.ts';
import { Refusal, refuseWith, type ScreenRequest } from './screen.ts';
import type { Session } from './sessions.ts';

/** A change of the epochs, as it would happen now. */
export interface Prepared {
  readonly act: 'epoch.plan' | 'epoch.cancel';
  readonly inForce: PresentedEpoch;
  /** The one that comes or goes. */
  readonly epoch: PresentedEpoch;
  /** Whether fewer signatures would be enough. */
  readonly lowersQuorum: boolean;
  /** What no epoch trusted before: each `<authority> <SHA-256 of the root certificate in hex>`. */
  readonly newRoots: readonly string[];
  /** Of all that it does and rests on: with the same one, exactly the same happens. */
  readonly sha256: string;
  /** Throws OperatorError. */
  carryOut(actor: Actor): Promise<void>;
}

/** What an administrator chooses of the next epoch. */
export interface PlanChoice {
  /** Milliseconds since the epoch. */
  from: number;
  /** Partitions that get a new key, which is there already, each as `<region>/<key label>`. */
  newKeys: readonly string[];
  /** End of the labels of new keys; empty for e and the number of the epoch. */
  suffix: string;
}

/** Each throws OperatorError for what cannot be done now. */
export interface EpochActs {
  /** Partitions, quorum and time-stamps are those of the configuration file. */
  plan(choice: PlanChoice): Promise<Prepared>;
  cancel(): Promise<Prepared>;
}

export interface Proposal {
  readonly id: string;
  /** The name of who proposed it. */
  readonly by: string;
  readonly prepared: Prepared;
  /** Of the clock of the process, milliseconds. */
  readonly endsAt: number;
}

interface Waiting extends Proposal {
  prepare(): Promise<Prepared>;
  timer: NodeJS.Timeout;
}

/** Who takes a step. */
type Who = Pick<ScreenRequest, 'actor' | 'session'>;

/** Who may approve should have heard of it by then. */
const PROPOSAL_MS_MAX = 24 * 3_600_000;
const ID_BYTES = 8;

const words = english.proposals;

interface ProposalsOptions {
  store: { trail: Pick<Store['trail'], 'append'> };
  onFatal(error: unknown): void;
  /** How long a proposal waits at most, milliseconds of a clock that only goes forward. */
  proposalMsMax?: number;
}

/** One proposal waits at most: each would change the list that another one starts from. */
export class Proposals {
  readonly #options: ProposalsOptions;
  #waiting: Waiting | undefined;
  /** Each step is recorded before the next begins. */
  readonly #inTurn = takingTurns();

  constructor(options: ProposalsOptions) {
    this.#options = options;
  }

  get waiting(): Proposal | undefined {
    return this.#waiting;
  }

  /** Throws Refusal. */
  propose(prepare: () => Promise<Prepared>, { actor, session }: Who): Promise<void> {
    return this.#inTurn(async () => {
      requireSession(session);
      if (this.#waiting !== undefined) throw new Refusal(409, words.oneWaits, words.oneWaitsHow);
      const prepared = await prepare().catch(refuseWith(words.nothingHow));
      const { proposalMsMax = PROPOSAL_MS_MAX } = this.#options;
      const id = randomBytes(ID_BYTES).toString('hex');
      const by = actor.person ?? '';
      const proposal = { id, by, prepared, prepare, endsAt: performance.now() + proposalMsMax };
      await this.#record('console.propose', proposal, actor);
      const timer = setTimeout(() => this.#expire(id), proposalMsMax).unref();
      this.#waiting = { ...proposal, timer };
    });
  }

  /**
   * Does it, if it would still do what was proposed. A full disk can hold the record back for long: then it is not done for a session that
   * has ended meanwhile. Throws Refusal.
   */
  approve(id: string, { actor, session }: Who): Promise<void> {
    return this.#inTurn(async () => {
      requireSession(session);
      const waiting = this.#find(id);
      if (isSameName(waiting.by, actor.person ?? '')) throw new Refusal(403, words.own, words.ownHow);
      this.#drop(waiting);
      const act = { act: 'console.approve', actor, object: objectOf(waiting), outcome: 'done' } as const;
      await onRecord(this.#options.store.trail, act, async () => {
        const now = await waiting.prepare().catch(refuseWith(words.nothingHow));
        if (now.sha256 !== waiting.prepared.sha256) throw new Refusal(409, words.stale, words.staleHow);
        requireSession(session);
        await now.carryOut({ ...actor, proposed_by: waiting.by }).catch(refuseWith(words.lookHow));
      });
    });
  }

  /** Also by who proposed it. Throws Refusal. */
  refuse(id: string, { actor, session }: Who): Promise<void> {
    return this.#inTurn(async () => {
      requireSession(session);
      const waiting = this.#find(id);
      this.#drop(waiting);
      await this.#record('console.refuse', waiting, actor);
    });
  }

  close(): void {
    if (this.#waiting !== undefined) this.#drop(this.#waiting);
  }

  #find(id: string): Waiting {
    if (this.#waiting?.id === id && performance.now() < this.#waiting.endsAt) return this.#waiting;
    throw new Refusal(409, words.gone, words.lookHow);
  }

  #drop({ timer }: Waiting): void {
    clearTimeout(timer);
    this.#waiting = undefined;
  }

  /** Never rejects. */
  #expire(id: string): void {
    const { onFatal } = this.#options;
    this.#inTurn(async () => {
      const waiting = this.#waiting;
      if (waiting?.id !== id) return;
      this.#drop(waiting);
      await this.#record('console.expire', waiting, actorOfProcess('daemon'));
    }).catch(onFatal);
  }

  async #record(act: ActName, proposal: Omit<Waiting, 'timer'>, actor: Actor): Promise<void> {
    await this.#options.store.trail.append({ act, actor, object: objectOf(proposal), outcome: 'done' });
  }
}

/** A step waits for those before it. */
function requireSession({ ended }: Session): void {
  if (ended.aborted) throw new Refusal(409, words.ended, words.nothingHow);
}

/** However a name is written: nobody is a second person by capitals or by letters that look the same to Unicode. */
export function isSameName(a: string, b: string): boolean {
  // Some letters, such as ß, are two as capitals.
  const [one, other] = [a, b].map((name) => name.normalize('NFKC').toUpperCase().toLowerCase());
  return one === other;
}

function objectOf({ id, by, prepared }: Pick<Proposal, 'id' | 'by' | 'prepared'>) {
  const { act, epoch, sha256 } = prepared;
  return { proposal: id, proposed_by: by, act, from: epoch.from, quorum: epoch.quorum, sha256 };
}
