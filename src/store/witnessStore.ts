import { encodeRecord, type OneRecord, parseRecord } from './records.ts';

/** Statements of witnesses about the log (C2SP tlog-witness). One process writes them. */
export interface WitnessStore {
  /** Empty at first. Throws BrokenInvariant if the record is damaged. */
  get(): Promise<WitnessState>;

  /** Replaces the whole state. */
  put(state: WitnessState): Promise<void>;
}

/** The whole state in one record. */
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
  /** The checkpoints that were issued for carrying to witnesses, with the lines that came since; the newest first. */
  carried?: CosignedCheckpoint[];
}

export interface WitnessRecord {
  /** Size of the newest tree of the log that the witness has cosigned; 0 until then. */
  treeSize: number;
  /** Time at which it cosigned that tree, Unix time in seconds. */
  cosignedAt?: number;
  /** The size that it holds, as a person who carried its answer reported since: the next proof begins there. It can be mistyped. */
  toldSize?: number;
  /** It holds another history of the log than this store. */
  contradiction?: { detail: string /** Milliseconds since the Unix epoch. */; at: number };
}

export interface CosignedCheckpoint {
  treeSize: number;
  /** The signed note: the lines of the log, then those of witnesses. */
  checkpoint: string;
}
