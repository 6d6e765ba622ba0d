import type { ErrorCode } from '../base/errors.ts';
import type { Job, Outcome } from '../job/job.ts';

/** A job of a client that a front accepted, or its fault. */
export type Arrival = { jobId: string } & ({ job: Job; fault?: never } | { job?: never; fault: string });

/** State that the sealing daemon reports to fronts. */
export interface SealingState {
  /** The reason why it cannot seal; absent while sealing works. */
  obstacle?: ErrorCode;
  /** Whether it scans documents for viruses. */
  scans: boolean;
}

/** Jobs that fronts accepted, for the sealing daemon. */
export interface ArrivalStore {
  /**
   * Returns some of those that `isKnown` does not know: of each front in turn, in the order of their ids. At most `max` jobs of one front
   * are examined, including the known ones: further ones must wait until these have ended.
   */
  look(isKnown: (jobId: string) => boolean, max: number): Promise<Arrival[]>;
  /** Reports to fronts the reason why sealing is impossible, if it is, and whether this daemon scans documents. */
  tell(state: SealingState): Promise<void>;
  /** Calls back when there may be some. This is a hint: it can fail to come. */
  onNotice(listener: () => void): void;
}

/** The sealing daemon as a front knows it; its state is the last that was reported. */
export interface SealingNode extends SealingState {
  /** Whether a sealing daemon is active now. */
  isActive: boolean;
  /** The process that was active last, for people; empty before the first one. */
  holder: string;
  /** Number of jobs without an outcome, of those accepted by the sealing daemon itself, and by fronts with the login of this one. */
  waiting: number;
  /** Whether it demands MACs by an acceptance key that this front does not have: it would fail what this front accepts. */
  lacksAcceptanceKey: boolean;
  /** Whether the role of this front may do more than a front has to: write the log. */
  isPrivileged: boolean;
  /** How far the clock of this machine is ahead of that of the database, in milliseconds; below 0 while it is behind. */
  aheadMs: number;
}

/** A front's view of sealing. */
export interface SealingView {
  node(): Promise<SealingNode>;
  /** The outcomes of those jobs that have one, once they are durable. */
  outcomes(jobIds: readonly string[]): Promise<Map<string, Outcome>>;
  /** Calls back when jobs may have ended. This is a hint: it can fail to come. */
  onNotice(listener: () => void): void;
}
