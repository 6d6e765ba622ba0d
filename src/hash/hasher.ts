import { assert } from '../base/assert.ts';
import type { Digests } from './lane.ts';

/** Hashes one document. */
export interface Hasher {
  /**
   * Takes the next bytes. The caller must not change them afterwards. If this returns a promise, the caller must wait for it before sending
   * more.
   */
  update(chunk: Uint8Array): Promise<void> | undefined;
  /** Ends the document and returns its digests. Rejects if a task failed permanently. */
  digest(): Promise<Digests>;
  /** Drops the document at once. Has no effect after {@link digest}. */
  abort(): void;
}

/**
 * Hashes one document with two engines, at the pace of the slower one. `digest` rejects with BrokenInvariant if the digests differ: then
 * one engine is wrong, and may have been wrong before.
 */
export function crossChecked(native: Hasher, wasm: Hasher): Hasher {
  return {
    update(chunk) {
      const rooms = [native.update(chunk), wasm.update(chunk)].filter((room) => room !== undefined);
      return rooms.length === 0 ? undefined : Promise.all(rooms).then(() => {});
    },
    async digest() {
      const [ours, theirs] = await Promise.all([native.digest(), wasm.digest()]);
      const agreed = ours.sha256 === theirs.sha256 && ours.sha512 === theirs.sha512;
      assert(
        agreed,
        'the native and the WebAssembly hash engine agree; until it is known why not, use hash.engine = "wasm"',
      );
      return ours;
    },
    abort() {
      native.abort();
      wasm.abort();
    },
  };
}
