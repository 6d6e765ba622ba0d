import { Slots, type SlotsOptions } from './slots.ts';

/** Options of a wait for a turn. */
export interface Wait {
  /** Default: no limit. */
  waitMs?: number | undefined;
  /** Aborting it ends the wait. */
  signal?: AbortSignal | undefined;
}

type Resolve = (give: () => void) => void;

/** Slots with a queue. The client that holds the fewest slots is next; clients that hold equally many take turns. */
export class SlotQueue {
  readonly #slots: Slots;
  /** Each client's requests in their order. The client served last is at the end. */
  readonly #queues = new Map<string, Set<Resolve>>();

  constructor(options: SlotsOptions) {
    this.#slots = new Slots(options);
  }

  /** A slot, if one is free and nobody waits. The returned function releases it. */
  tryTake(clientId: string): (() => void) | undefined {
    const give = this.#queues.size === 0 ? this.#slots.tryTake(clientId) : undefined;
    return give && this.#given(give);
  }

  /**
   * Resolves when it is the client's turn. The returned function releases the slot. Rejects with the signal's reason, or with the
   * ServiceError of {@link Slots.take} if the wait was too long.
   */
  async take(clientId: string, { waitMs, signal }: Wait = {}): Promise<() => void> {
    signal?.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<() => void>();
    const leave = () => {
      this.#dequeue(clientId, resolve);
      reject(signal?.reason);
    };
    const expire = () => {
      this.#dequeue(clientId, resolve);
      this.#refuse(clientId, resolve, reject);
    };
    const timer = waitMs === undefined ? undefined : setTimeout(expire, waitMs);
    signal?.addEventListener('abort', leave);
    this.#enqueue(clientId, resolve);
    this.#fill();
    try {
      return this.#given(await promise);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', leave);
    }
  }

  #given(give: () => void): () => void {
    return () => {
      give();
      this.#fill();
    };
  }

  #enqueue(clientId: string, resolve: Resolve): void {
    this.#queues.set(clientId, (this.#queues.get(clientId) ?? new Set()).add(resolve));
  }

  /** The client keeps its turn. */
  #dequeue(clientId: string, resolve: Resolve): void {
    const queue = this.#queues.get(clientId);
    queue?.delete(resolve);
    if (queue?.size === 0) this.#queues.delete(clientId);
  }

  #fill(): void {
    for (let clientId = this.#next(); clientId !== undefined; clientId = this.#next()) {
      const give = this.#slots.tryTake(clientId);
      if (give === undefined) return;
      const queue = this.#queues.get(clientId) ?? new Set();
      const [resolve] = queue;
      this.#queues.delete(clientId);
      if (resolve) queue.delete(resolve);
      if (queue.size > 0) this.#queues.set(clientId, queue);
      resolve?.(give);
    }
  }

  /** The client that is next. If this client cannot get a slot now, no client can. */
  #next(): string | undefined {
    let next: string | undefined;
    for (const id of this.#queues.keys()) {
      if (next === undefined || this.#slots.held(id) < this.#slots.held(next)) next = id;
    }
    return next;
  }

  #refuse(clientId: string, resolve: Resolve, reject: (error: unknown) => void): void {
    try {
      resolve(this.#slots.take(clientId));
    } catch (error) {
      reject(error);
    }
  }
}
