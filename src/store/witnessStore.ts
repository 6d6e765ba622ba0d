import { encodeRecord, type OneRecord, parseRecord } from './records.ts';

/** What witnesses have said of the log (C2SP tlog-witness). One process writes it. */
export interface WitnessStore {
  /** Nothing is known at first. Throws BrokenInvariant when the record is damaged. */
  get(): Promise<WitnessState>;

  /** Replaces all that is known. */
  put(state: WitnessState): Promise<void>;
}

/** All of it in one record. */
export function witnessStoreIn({ read, write }: OneRecord): WitnessStore {
  return {
    get: async () => {
      const bytes = await read();
      return bytes ? parseRecord<WitnessState>(bytes, 'the record of witnesses') : { witnesses: {} };
    },
    put: (state) => write(encodeRecord(state)),
  };
}

export interface WitnessState {
  /** By the verifier key of the witness. */
  witnesses: Record<string, WitnessRecord>;
  /** The newest checkpoint that any witness has cosigned. */
  cosigned?: CosignedCheckpoint;
  /** The newest checkpoint that the quorum of the policy has cosigned. */
  witnessed?: CosignedCheckpoint;
  /** The checkpoints that were given out to be carried to witnesses, with the lines that came since; the newest first. */
  carried?: CosignedCheckpoint[];
}

export interface WitnessRecord {
  /** Size of the newest tree of the log that the witness has cosigned; 0 until then. */
  treeSize: number;
  /** When it cosigned that tree, Unix time in seconds. */
  cosignedAt?: number;
  /** The size that it holds, as somebody who carried its answer told since: the next proof begins there. It can be mistyped. */
  toldSize?: number;
  /** It holds another history of the log than this store. */
  contradiction?: { detail: string /** Milliseconds since the Unix epoch. */; at: number };
}

export interface CosignedCheckpoint {
  treeSize: number;
  /** The signed note: the lines of the log, then those of witnesses. */
  checkpoint: string;
}
