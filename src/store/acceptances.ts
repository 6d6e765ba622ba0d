import type { Job } from '../job/job.ts';
import type { Act } from '../manifest/auditRecord.ts';

/** MACs of the nodes that accepted what waits in a database. Absent where this daemon has no acceptance key. */
export interface AcceptanceStore {
  /** The names of the keys whose MACs count. */
  readonly names: readonly string[];
  /**
   * One transaction: gives a MAC to each job that waits without one, and records the act that says how many they are. From then on, fronts
   * without the key refuse jobs. Jobs of the audit trail need no MAC. Returns the number.
   */
  takeOver(act: (jobs: number) => Act): Promise<number>;
  /** Why these jobs, as {@link JobStore.waiting} returned them, are not what a node accepted: by id, without those that are. */
  faults(jobs: readonly Job[]): Promise<Map<string, string>>;
}

/** A job in the store that is not what a node accepted. */
export class AlteredJob extends Error {
  constructor(jobId: string, fault: string) {
    super(`${jobId}: ${fault}`);
    this.name = 'AlteredJob';
  }
}
