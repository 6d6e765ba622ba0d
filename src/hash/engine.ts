/** `native` is the add-on, which uses this processor's own instructions. `wasm` runs everywhere. */
export type EngineName = 'native' | 'wasm';

/** The next bytes of one document. */
export interface Piece {
  /** The engine's state after the previous piece; absent for a document's first piece. */
  state?: Uint8Array;
  /** The bytes, in order. The caller must not change or transfer them until the engine has answered. */
  chunks: readonly Uint8Array[];
  /** This is the last piece: the engine returns digests instead of a state. */
  last: boolean;
}

/** Both digests in lower-case hex, or the state for the next piece. A state is as confidential as the document. */
export type Hashed = { sha256: string; sha512: string } | { state: Uint8Array };

/** Hashes in its own threads. */
export interface Engine {
  /** How many tasks the engine takes at the same time: for each thread, one in work and one waiting. */
  readonly tasksMax: number;
  /** Largest size of a task, all pieces together; bytes. */
  readonly taskBytesMax: number;
  /** Smallest share of each document in a full task; bytes. Documents without a share wait for the next task. */
  readonly shareBytesMin: number;
  /** Runs a task: pieces of unrelated documents, SHA-256 and SHA-512 in one pass. The results are in the order of the pieces. */
  hash(pieces: readonly Piece[]): Promise<Hashed[]>;
  /** Ends the threads. Tasks in progress may remain unanswered. */
  close(): Promise<void>;
}

/** One task in work, and one ready to follow. */
export const TASKS_PER_THREAD = 2;
