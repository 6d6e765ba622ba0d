/** Pages that keep themselves current: one timer tells all of them that there is news. */
import type { ServerResponse } from 'node:http';
import type { Session, Sessions } from './sessions.ts';

const STREAMS_MAX = 50;
const PER_SESSION_MAX = 4;
const BEAT_MS = 10_000;
const RETRY_MS = 1_000;

export class Streams {
  readonly #open = new Map<ServerResponse, Session>();
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

  /** Whether there is room for another stream, of this session and of all. */
  hasRoom(session: Session): boolean {
    const own = [...this.#open.values()].filter((one) => one === session).length;
    return this.#open.size < STREAMS_MAX && own < PER_SESSION_MAX;
  }

  /** Begins a stream, whose headers are set. It ends with the session, and when the reader goes away. */
  add(response: ServerResponse, session: Session): void {
    // The browser asks again, and is told that there is no session any more.
    const end = () => {
      // The beat of this very moment would write after the end.
      this.#open.delete(response);
      response.end();
    };
    session.ended.addEventListener('abort', end);
    this.#open.set(response, session);
    response.once('close', () => {
      session.ended.removeEventListener('abort', end);
      this.#open.delete(response);
    });
    response.flushHeaders();
    response.write(`retry: ${RETRY_MS}\n\n`);
  }

  /** Tells every page that there is news. A reader that takes nothing is dropped once the kernel keeps no more for it. */
  beat(): void {
    for (const response of this.#open.keys()) {
      if (response.writableNeedDrain) response.destroy();
      else response.write('event: news\ndata:\n\n');
    }
  }

  close(): void {
    clearInterval(this.#timer);
    for (const response of this.#open.keys()) response.destroy();
  }
}
