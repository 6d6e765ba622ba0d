import { assert } from '../base/assert.ts';
import type { Digests } from './lane.ts';

/** Hashes one document. */
export interface Hasher {
  /**
   * Takes the next bytes, which must not be changed afterwards. A promise means: enough for now, go on when it resolves.
   */
  update(chunk: Uint8Array): Promise<void> | undefined;
  /** No bytes follow. Rejects when a task failed for good. */
  digest(): Promise<Digests>;
  /** Forgets the document at once; harmless after {@link digest}. */
  abort(): void;
}

/**
 * One document through two engines, at the pace of the slower. `digest` rejects with BrokenInvariant when they differ: one
 * of them is wrong, and has perhaps been wrong before.
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
