/** Pages that keep themselves current: one timer tells all of them that there is news. */
import type { ServerResponse } from 'node:http';
import { Slots } from '../base/slots.ts';
import type { Session, Sessions } from './sessions.ts';

/** Each is a connection that costs little. However many sessions a person has, others find room. */
const ROOM = { of: 'live pages', max: 100, perClientMax: 10 };
const BEAT_MS = 10_000;
const RETRY_MS = 1_000;

export class Streams {
  readonly #open = new Set<ServerResponse>();
  readonly #room = new Slots(ROOM);
  readonly #timer: NodeJS.Timeout;

  /** Sessions that have expired end with each beat, and their streams with them. */
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
   * Begins a stream, whose headers are set. It ends with the session, and when the reader goes away. Returns false if there is no room for
   * another one of this person.
   */
  tryAdd(response: ServerResponse, { person, ended }: Session): boolean {
    const leave = this.#room.tryTake(person.name);
    if (leave === undefined) return false;
    // The browser asks again, and is told that there is no session any more.
    const end = () => {
      // The beat of this very moment would write after the end.
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

  /** Tells every page that there is news. A reader that takes nothing is dropped once the kernel keeps no more for it. */
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
