import type { WitnessRecord } from '../store/witnessStore.ts';
import type { WitnessTrouble } from './witnessClient.ts';

/** How things stand with one witness. */
export interface WitnessStatus extends WitnessRecord {
  /** Its name in the policy. */
  name: string;
  /** Whether it is asked over the network. */
  isAsked: boolean;
  /** Why its newest answer was no cosignature. */
  trouble?: { code: WitnessTrouble; detail: string };
}

export interface WitnessingStatus {
  witnesses: WitnessStatus[];
  /** Whether the quorum needs a witness that no network reaches. */
  isByHand: boolean;
  /** Size of the newest checkpoint that the quorum of the policy has cosigned, and when that was done; Unix time in milliseconds. */
  witnessed?: { treeSize: number; at: number };
}
