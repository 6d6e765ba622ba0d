import type { WitnessRecord } from '../store/witnessStore.ts';
import type { WitnessTrouble } from './witnessClient.ts';

/** The state of one witness. */
export interface WitnessStatus extends WitnessRecord {
  /** Its name in the policy. */
  name: string;
  /** Whether it is asked over the network. */
  isAsked: boolean;
  /** Why its newest answer was not a cosignature. */
  trouble?: { code: WitnessTrouble; detail: string };
}

export interface WitnessingStatus {
  witnesses: WitnessStatus[];
  /** Whether the quorum needs a witness that cannot be reached over a network. */
  isByHand: boolean;
  /** Size of the newest checkpoint cosigned by the quorum of the policy, and when that was; Unix time in milliseconds. */
  witnessed?: { treeSize: number; at: number };
}
