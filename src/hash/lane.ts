import type { Hashed } from './engine.ts';

/** The result for a document: digests in lower-case hex, and the length in bytes. */
export interface Digests {
  sha256: string;
  sha512: string;
  bytes: number;
}

/** One document in an engine: the bytes that are not hashed yet, and the hash state of the others. */
export class Lane {
  state: Uint8Array | undefined;
  pendingBytes = 0;
  /** `queued` in the pool, or `busy` in a task: never both, so the states stay in order. */
  place: 'idle' | 'queued' | 'busy' = 'idle';
  ended = false;
  closed = false;
  /** Whether the chunks belong to the lane alone. */
  readonly owned: boolean;
  #bytes = 0;
  #chunks: Uint8Array[] = [];
  #room: PromiseWithResolvers<void> | undefined;
  readonly #digests = Promise.withResolvers<Digests>();

  constructor(owned: boolean) {
    this.owned = owned;
    // The digests can reject before they are awaited. A later `await` still gets the error.
    this.#digests.promise.catch(() => {});
  }

  get hasWork(): boolean {
    return !this.closed && (this.pendingBytes > 0 || this.ended);
  }

  get digests(): Promise<Digests> {
    return this.#digests.promise;
  }

  push(chunk: Uint8Array): void {
    this.#chunks.push(chunk);
    this.pendingBytes += chunk.length;
    this.#bytes += chunk.length;
  }

  /** Takes pending chunks of at most `bytesMax` bytes. Chunks stay whole, unless the first alone is too large. */
  take(bytesMax: number): Uint8Array[] {
    const taken: Uint8Array[] = [];
    let bytes = 0;
    for (const chunk of this.#chunks) {
      if (bytes + chunk.length > bytesMax) break;
      taken.push(chunk);
      bytes += chunk.length;
    }
    this.#chunks.splice(0, taken.length);
    const [first] = this.#chunks;
    if (bytes === 0 && first !== undefined) {
      taken.push(first.subarray(0, bytesMax));
      this.#chunks[0] = first.subarray(bytesMax);
      bytes = bytesMax;
    }
    this.pendingBytes -= bytes;
    if (this.pendingBytes === 0) this.#makeRoom();
    return taken;
  }

  /**
   * Resolves when no bytes are pending, or when the lane is closed. Not sooner: in a crowded pool, a task takes less from a lane than the
   * next chunk would add.
   */
  room(): Promise<void> {
    this.#room ??= Promise.withResolvers();
    return this.#room.promise;
  }

  answer(hashed: Hashed): void {
    if (this.closed) return;
    if ('state' in hashed) {
      this.state = hashed.state;
    } else {
      this.#digests.resolve({ sha256: hashed.sha256, sha512: hashed.sha512, bytes: this.#bytes });
      this.#drop();
    }
  }

  /** Drops the pending bytes. The digests reject with the error, unless they are known already. */
  fail(error: unknown): void {
    this.#digests.reject(error);
    this.#drop();
  }

  #drop(): void {
    this.closed = true;
    this.#chunks = [];
    this.pendingBytes = 0;
    this.state = undefined;
    this.#makeRoom();
  }

  #makeRoom(): void {
    this.#room?.resolve();
    this.#room = undefined;
  }
}
