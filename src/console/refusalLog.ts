/** Logs refusals: failed logins, and forms or pages that a person may not use. */
import type { IncomingMessage } from 'node:http';
import type { Logger } from 'pino';
import { BoundedCounts } from '../base/bounded.ts';
import { peerOf } from '../web/peer.ts';
import type { Session } from './sessions.ts';

/** Limit for each person, and for all clients without a session together. */
const LINES_MAX = 20;
const WITHIN_MS = 60_000;
/** People with a limit of their own; all others share one. */
const PEOPLE_MAX = 200;
const PATH_CHARS_MAX = 100;

export class RefusalLog {
  readonly #logger: Pick<Logger, 'warn'>;
  /** A monotonic clock, in milliseconds. */
  readonly #now: () => number;
  #since = Number.NEGATIVE_INFINITY;
  /** By the person's name; empty for clients without a session. */
  readonly #lines = new BoundedCounts({ max: PEOPLE_MAX, others: '(others)' });
  #unlogged = 0;

  constructor(logger: Pick<Logger, 'warn'>, now: () => number = () => performance.now()) {
    this.#logger = logger;
    this.#now = now;
  }

  /**
   * Writes a line, unless this person, or all clients without a session, had too many within the last minute. The next line then states how
   * many were left out.
   */
  refused(
    { socket, method, url = '' }: IncomingMessage,
    { status, reason, session }: { status: number; reason: string; session: Session | undefined },
  ): void {
    if (this.#now() - this.#since >= WITHIN_MS) {
      this.#since = this.#now();
      this.#lines.clear();
    }
    const { person } = session ?? {};
    if (this.#lines.add(person?.name ?? '') > LINES_MAX) {
      this.#unlogged += 1;
      return;
    }
    const { uid, pid } = peerOf(socket) ?? {};
    const fields = {
      event: 'console_refused',
      ...{ status, reason, method, path: pathOf(url) },
      ...(person && { person: person.name, role: person.role }),
      address: socket.remoteAddress,
      peer_uid: uid,
      peer_pid: pid,
      ...(this.#unlogged > 0 && { unlogged_before: this.#unlogged }),
    };
    this.#unlogged = 0;
    this.#logger.warn(fields, 'the console refused somebody');
  }
}

/** Omits the rest of `/login/…`, which may still be a valid link, and search terms. */
function pathOf(url: string): string {
  const [path = ''] = url.split('?');
  return path.startsWith('/login') ? '/login' : path.slice(0, PATH_CHARS_MAX);
}
