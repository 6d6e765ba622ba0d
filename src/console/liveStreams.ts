/** Pages that refresh themselves: one timer notifies all of them that there is news. */
import type { ServerResponse } from 'node:http';
import { Slots } from '../base/slots.ts';
import type { Session, Sessions } from './sessions.ts';

/** Each stream is a connection that costs little. The limit per person leaves room for others. */
const ROOM = { of: 'live pages', max: 100, perClientMax: 10 };
const BEAT_MS = 10_000;
const RETRY_MS = 1_000;

export class Streams {
  readonly #open = new Set<ServerResponse>();
  readonly #room = new Slots(ROOM);
  readonly #timer: NodeJS.Timeout;

  /** Expired sessions end with each beat, and their streams with them. */
  constructor(sessions: Pick<Sessions, 'expire'>, beatMs = BEAT_MS) {
    this.#timer = setInterval(() => {
      sessions.expire();
      this.beat();
    }, beatMs);
  }

  get size(): number {
    return this.#open.size;
  }

  /**
   * Starts a stream whose headers are already set. It ends with the session, or when the reader disconnects. Returns false if there is no
   * room for another stream of this person.
   */
  tryAdd(response: ServerResponse, { person, ended }: Session): boolean {
    const leave = this.#room.tryTake(person.name);
    if (leave === undefined) return false;
    // The browser reconnects, and then learns that the session has ended.
    const end = () => {
      // Otherwise a beat at this very moment would write after the end.
      this.#open.delete(response);
      response.end();
    };
    ended.addEventListener('abort', end);
    this.#open.add(response);
    response.once('close', () => {
      ended.removeEventListener('abort', end);
      this.#open.delete(response);
      leave();
    });
    response.flushHeaders();
    response.write(`retry: ${RETRY_MS}\n\n`);
    return true;
  }

  /** Notifies every page that there is news. A reader that takes nothing is dropped once the kernel's buffer is full. */
  beat(): void {
    for (const response of this.#open) {
      if (response.writableNeedDrain) response.destroy();
      else response.write('event: news\ndata:\n\n');
    }
  }

  close(): void {
    clearInterval(this.#timer);
    for (const response of this.#open) response.destroy();
  }
}
