import { hash } from 'node:crypto';
import { createSHA256, createSHA512 } from 'hash-wasm';
import type { Hashed, Piece } from './engine.ts';

/** A {@link Piece} with its bytes in one buffer. */
export type WasmPiece = Pick<Piece, 'state' | 'last'> & { bytes: Uint8Array };

/**
 * Returns a function that hashes one piece, in this thread. A document in one piece goes to OpenSSL, which is three
 * times as fast but cannot export its state. A document in several pieces goes to hash-wasm. Its two hashers are
 * reused for every piece. A state is the SHA-256 state followed by the SHA-512 state. Each begins with hash-wasm's
 * build id, so a state of another build is refused.
 */
export async function openWasm(): Promise<(piece: WasmPiece) => Hashed> {
  const [sha256, sha512] = await Promise.all([createSHA256(), createSHA512()]);
  const split = sha256.save().length;

  function resume(state: Uint8Array | undefined): void {
    if (state === undefined) {
      sha256.init();
      sha512.init();
    } else {
      sha256.load(state.subarray(0, split));
      sha512.load(state.subarray(split));
    }
  }

  function suspend(): Uint8Array {
    const [head, tail] = [sha256.save(), sha512.save()];
    const state = new Uint8Array(head.length + tail.length);
    state.set(head);
    state.set(tail, head.length);
    return state;
  }

  return ({ state, bytes, last }) => {
    if (last && state === undefined) return { sha256: hash('sha256', bytes), sha512: hash('sha512', bytes) };
    resume(state);
    sha256.update(bytes);
    sha512.update(bytes);
    return last ? { sha256: sha256.digest(), sha512: sha512.digest() } : { state: suspend() };
  };
}
