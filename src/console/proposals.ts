/** Acts that need two people: one proposes, another approves. Proposals are kept in memory, so a restart drops them. */

import { randomBytes } from 'node:crypto';
import { oneAtATime } from '../base/serially.ts';
import type { ActName, Actor } from '../manifest/auditRecord.ts';
import type { PresentedEpoch } from '../ops/presentEpochs.ts';
import { actBy, actorOfProcess, onRecord } from '../store/acts.ts';
import type { Store } from '../store/store.ts';
import { english } from './english.ts';
import { Refusal, refuseWith, type ScreenRequest } from './screen.ts';
import type { Session } from './sessions.ts';

/** A change of the epochs, as it would take effect now. */
export interface Prepared {
  readonly act: 'epoch.plan' | 'epoch.cancel';
  readonly inForce: PresentedEpoch;
  /** The epoch that would be added or cancelled. */
  readonly epoch: PresentedEpoch;
  /** Whether fewer signatures would suffice. */
  readonly lowersQuorum: boolean;
  /** Roots that no epoch trusted before: each `<authority> <SHA-256 of the root certificate in hex>`. */
  readonly newRoots: readonly string[];
  /** Covers the change and everything it is based on: the same digest means exactly the same effect. */
  readonly sha256: string;
  /** Throws OperatorError. */
  carryOut(actor: Actor): Promise<void>;
}

/** An administrator's choices for the next epoch. */
export interface PlanChoice {
  /** Milliseconds since the epoch. */
  from: number;
  /** Partitions that get a new key, which must already exist, each as `<region>/<key label>`. */
  newKeys: readonly string[];
  /** Suffix for new key labels. If empty: e and the number of the epoch. */
  suffix: string;
}

/** Each throws OperatorError if the act is not possible now. */
export interface EpochActs {
  /** Partitions, quorum and time-stamps are taken from the configuration file. */
  plan(choice: PlanChoice): Promise<Prepared>;
  cancel(): Promise<Prepared>;
}

export interface Proposal {
  readonly id: string;
  /** The name of the proposer. */
  readonly by: string;
  readonly prepared: Prepared;
  /** On the monotonic clock of the process, in milliseconds. */
  readonly endsAt: number;
}

/** A proposal that no longer waits, and what its second person was told. */
export interface EndedProposal extends Pick<Proposal, 'by' | 'prepared'> {
  /** The person who approved, refused or withdrew it; absent if it expired. */
  readonly answeredBy?: string;
  readonly result: string;
}

interface Waiting extends Proposal {
  prepare(): Promise<Prepared>;
  timer: NodeJS.Timeout;
}

/** The person who takes a step. */
type Who = Pick<ScreenRequest, 'actor' | 'session'>;

/** Time enough for approvers to learn of it. */
const PROPOSAL_MS_MAX = 24 * 3_600_000;
const ID_BYTES = 8;

const words = english.proposals;

interface ProposalsOptions {
  store: { trail: Pick<Store['trail'], 'append'> };
  onFatal(error: unknown): void;
  /** How long a proposal waits at most, in milliseconds of a monotonic clock. */
  proposalMsMax?: number;
}

/** At most one proposal waits: each would change the list that another one is based on. */
export class Proposals {
  readonly #options: ProposalsOptions;
  #waiting: Waiting | undefined;
  #last: EndedProposal | undefined;
  /** Each step is recorded before the next begins. */
  readonly #serially = oneAtATime();

  constructor(options: ProposalsOptions) {
    this.#options = options;
  }

  get waiting(): Proposal | undefined {
    return this.#waiting;
  }

  /** The one that ended last since the start of the process. */
  get last(): EndedProposal | undefined {
    return this.#last;
  }

  /** Throws Refusal. */
  propose(prepare: () => Promise<Prepared>, { actor, session }: Who): Promise<void> {
    return this.#serially(async () => {
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
   * Carries out the proposal if its effect is still the one proposed. A full disk can delay the record for long: nothing is done for a
   * session that has ended meanwhile. Throws Refusal.
   */
  approve(id: string, { actor, session }: Who): Promise<void> {
    return this.#serially(async () => {
      requireSession(session);
      const waiting = this.#find(id);
      if (isSameName(waiting.by, actor.person ?? '')) throw new Refusal(403, words.own, words.ownHow);
      this.#drop(waiting);
      const act = actBy(actor, 'console.approve', objectOf(waiting));
      const approved = onRecord(this.#options.store.trail, act, async () => {
        const now = await waiting.prepare().catch(refuseWith(words.nothingHow));
        if (now.sha256 !== waiting.prepared.sha256) throw new Refusal(409, words.stale, words.staleHow);
        requireSession(session);
        await now.carryOut({ ...actor, proposed_by: waiting.by }).catch(refuseWith(words.lookHow));
      });
      const end = (result: string) => this.#end(waiting, result, actor);
      await approved.then(
        () => end(words.approved),
        (error) => {
          end(error instanceof Refusal ? `${error.message}. ${error.remedy}` : words.lookHow);
          throw error;
        },
      );
    });
  }

  /** Refuses the proposal; its proposer may do this too. Throws Refusal. */
  refuse(id: string, { actor, session }: Who): Promise<void> {
    return this.#serially(async () => {
      requireSession(session);
      const waiting = this.#find(id);
      this.#drop(waiting);
      await this.#record('console.refuse', waiting, actor);
      this.#end(waiting, words.refused, actor);
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

  #end({ by, prepared }: Waiting, result: string, { person }: Partial<Actor> = {}): void {
    this.#last = { by, prepared, result, ...(person !== undefined && { answeredBy: person }) };
  }

  /** Never rejects. */
  #expire(id: string): void {
    const { onFatal } = this.#options;
    this.#serially(async () => {
      const waiting = this.#waiting;
      if (waiting?.id !== id) return;
      this.#drop(waiting);
      await this.#record('console.expire', waiting, actorOfProcess('daemon'));
      this.#end(waiting, words.expired);
    }).catch(onFatal);
  }

  async #record(act: ActName, proposal: Omit<Waiting, 'timer'>, actor: Actor): Promise<void> {
    await this.#options.store.trail.append(actBy(actor, act, objectOf(proposal)));
  }
}

/** The session may have ended while a step waited for the ones before it. */
function requireSession({ ended }: Session): void {
  if (ended.aborted) throw new Refusal(409, words.ended, words.nothingHow);
}

/**
 * Compares names regardless of case and of Unicode compatibility variants: spelling one's name differently does not make a second person.
 */
export function isSameName(a: string, b: string): boolean {
  // Some letters, such as ß, are two as capitals.
  const [one, other] = [a, b].map((name) => name.normalize('NFKC').toUpperCase().toLowerCase());
  return one === other;
}

function objectOf({ id, by, prepared }: Pick<Proposal, 'id' | 'by' | 'prepared'>) {
  const { act, epoch, sha256 } = prepared;
  return { proposal: id, proposed_by: by, act, from: epoch.from, quorum: epoch.quorum, sha256 };
}
