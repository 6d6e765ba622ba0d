import type { ErrorCode } from '../base/errors.ts';
import type { Job, Outcome } from '../job/job.ts';

/** A job of a client that a front accepted, or what is wrong with it. */
export type Arrival = { jobId: string } & ({ job: Job; fault?: never } | { job?: never; fault: string });

/** What the daemon that seals reports to fronts. */
export interface SealingState {
  /** Why it can seal nothing; absent while sealing works. */
  obstacle?: ErrorCode;
  /** Whether it scans documents for viruses. */
  scans: boolean;
}

/** What fronts accepted, for the daemon that seals. */
export interface ArrivalStore {
  /**
   * Those that `isKnown` does not know, some of them at a time: of each front in its turn, in the order of their ids. Of one front no more than
   * `max` are looked at, those that are known included: further ones have to wait until these have ended.
   */
  look(isKnown: (jobId: string) => boolean, max: number): Promise<Arrival[]>;
  /** Reports to fronts why nothing can be sealed now, if that is so, and whether this daemon scans documents. */
  tell(state: SealingState): Promise<void>;
  /** Calls back when there may be some. It is a hint: it can fail to come. */
  onRing(listener: () => void): void;
}

/** What a front knows of the daemon that seals; its state is the last that was reported. */
export interface SealingNode extends SealingState {
  /** Whether one is active now. */
  isActive: boolean;
  /** The process that was active last, for people; empty before the first one. */
  holder: string;
  /** How many jobs have no outcome, of those that the daemon that seals accepted itself, and fronts with the login of this one. */
  waiting: number;
  /** Whether the role of this front may do more than a front has to: write the log. */
  isPrivileged: boolean;
  /** How far the clock of this machine is ahead of that of the database, in milliseconds; below 0 while it is behind. */
  aheadMs: number;
}

/** What a front sees of sealing. */
export interface SealingView {
  node(): Promise<SealingNode>;
  /** The outcomes of those of these jobs that have one, once they are durable. */
  outcomes(jobIds: readonly string[]): Promise<Map<string, Outcome>>;
  /** Calls back when jobs may have ended. It is a hint: it can fail to come. */
  onRing(listener: () => void): void;
}
