/** `native` is the add-on, made of this processor's own instructions; `wasm` runs everywhere. */
export type EngineName = 'native' | 'wasm';

/** The next bytes of one document. */
export interface Piece {
  /** What the engine returned for the piece before; absent for a document's first. */
  state?: Uint8Array;
  /** One after the other. They must not be changed, or taken away, until the engine has answered. */
  chunks: readonly Uint8Array[];
  /** No bytes follow: digests are due, not a state. */
  last: boolean;
}

/** Both digests in lower-case hex, or the state to go on from. States are as confidential as the document. */
export type Hashed = { sha256: string; sha512: string } | { state: Uint8Array };

/** Hashes on threads of its own. */
export interface Engine {
  /** How many tasks it takes at the same time: one more for each thread than it can work on. */
  readonly tasksMax: number;
  /** The bytes that a task may have, all pieces together. */
  readonly taskBytesMax: number;
  /** What each document in a crowded task gets at least; the others wait for the next one. */
  readonly shareBytesMin: number;
  /** A task: pieces of unrelated documents, SHA-256 and SHA-512 in one pass. Answers in the order of the pieces. */
  hash(pieces: readonly Piece[]): Promise<Hashed[]>;
  /** Ends the threads. What is under way may stay without an answer. */
  close(): Promise<void>;
}

/** One task under way, one at hand when it is done. */
export const TASKS_PER_THREAD = 2;
