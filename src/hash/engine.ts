/** `native` is the add-on, made of this processor's own instructions; `wasm` runs everywhere. */
export type EngineName = 'native' | 'wasm';

/** The next bytes of one document. */
export interface Piece {
  /** What the engine returned for the piece before; absent for a document's first. */
  state?: Uint8Array;
  bytes: Uint8Array;
  /** No bytes follow: digests are due, not a state. */
  last: boolean;
}

/** Both digests in lower-case hex, or the state to go on from. States are as confidential as the document. */
export type Hashed = { sha256: string; sha512: string } | { state: Uint8Array };

/** Hashes pieces of unrelated documents, SHA-256 and SHA-512 in one pass; answers in the order of the pieces. */
export interface Engine {
  hash(pieces: readonly Piece[]): Hashed[];
}
