import type { Presence } from '../base/presence.ts';
import { Turns } from '../base/turns.ts';

/** Lines without an answer, and those of one client. They are enough to share signatures, and too few to keep other requests waiting. */
const UNDER_WAY = { of: 'lines of batches', max: 512, perClientMax: 256 };
/** Those of a client beside others that send single creates: each answer to a line, and each line of a batch of the log, is a wait for them. */
const SHARED = { of: 'lines of batches', max: 512, perClientMax: 32 };
/** Lines that begin in one turn of the event loop. */
const BEGUN = { of: 'lines of batches', max: 8, perClientMax: 8 };

/**
 * Lets the lines of all batches begin in turn. A batch can send thousands of lines in one packet: here few of them begin before the
 * event loop looks at other connections, and the client with the fewest lines under way is next.
 */
export class LineTurns {
  readonly #places = new Turns(UNDER_WAY);
  readonly #shared = new Turns(SHARED);
  readonly #beginning = new Turns(BEGUN);
  readonly #creators: Presence;

  /** `creators`: the clients that send creates that are not lines. */
  constructor(creators: Presence) {
    this.#creators = creators;
  }

  /**
   * Resolves when it is the turn of a client's line. The function gives the place of the line back. Rejects with the signal's reason.
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
