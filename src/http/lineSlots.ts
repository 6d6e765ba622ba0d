import type { Presence } from '../base/presence.ts';
import { SlotQueue } from '../base/slotQueue.ts';

/**
 * Limits on lines without an answer, in total and per client: enough to share signatures, but few enough not to keep other requests
 * waiting.
 */
const UNDER_WAY = { of: 'lines of batches', max: 512, perClientMax: 256 };
/** Limits while other clients send single creates, which have to wait for each answered line, and for each line in a batch of the log. */
const SHARED = { of: 'lines of batches', max: 512, perClientMax: 32 };
/** Lines that begin in one turn of the event loop. */
const BEGUN = { of: 'lines of batches', max: 8, perClientMax: 8 };

/**
 * Lets the lines of all batches begin in turn. A batch can send thousands of lines in one packet: only a few of them begin before the event
 * loop handles other connections, and the client with the fewest lines in progress is next.
 */
export class LineSlots {
  readonly #places = new SlotQueue(UNDER_WAY);
  readonly #shared = new SlotQueue(SHARED);
  readonly #beginning = new SlotQueue(BEGUN);
  readonly #creators: Presence;

  /** `creators`: the clients that send creates that are not lines. */
  constructor(creators: Presence) {
    this.#creators = creators;
  }

  /**
   * Resolves when it is the turn of a client's line. The returned function releases the place of the line. Rejects with the signal's
   * reason.
   */
  async take(clientId: string, signal: AbortSignal): Promise<() => void> {
    using held = new DisposableStack();
    held.defer(await this.#places.take(clientId, { signal }));
    if (this.#creators.isBesideOthers(clientId)) held.defer(await this.#shared.take(clientId, { signal }));
    setImmediate(await this.#beginning.take(clientId, { signal }));
    const places = held.move();
    return () => places.dispose();
  }
}
