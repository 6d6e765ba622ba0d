import type { Hashed } from './engine.ts';

/** What is known of a document whose bytes have all been hashed: digests in lower-case hex, and the length. */
export interface Digests {
  sha256: string;
  sha512: string;
  bytes: number;
}

/** One document on its way through an engine: its bytes not yet hashed, and the hash state of those that are. */
export class Lane {
  state: Uint8Array | undefined;
  pendingBytes = 0;
  /** In the pool's queue, or part of a task under way: never both, so states follow each other. */
  place: 'idle' | 'queued' | 'busy' = 'idle';
  ended = false;
  closed = false;
  /** Whether nobody else has the chunks. */
  readonly owned: boolean;
  #bytes = 0;
  #chunks: Uint8Array[] = [];
  #room: PromiseWithResolvers<void> | undefined;
  readonly #digests = Promise.withResolvers<Digests>();

  constructor(owned: boolean) {
    this.owned = owned;
    // A lane can fail while nobody waits for its digests; who asks later still learns of it.
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

  /** Takes pending bytes, as many as there may be. Chunks stay whole, unless the first is too large by itself. */
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
   * Resolves when nothing is pending any more, or when nothing more will be taken. Not sooner: a crowded lane loses less at
   * a time than the chunk that would take its place.
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

  /** Drops what is pending; whoever asks for the digests is told the error, unless they were known by now. */
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
