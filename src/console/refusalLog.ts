/** Who was refused what, in the log: a login that failed, a form or a page that somebody may not have. */
import type { IncomingMessage } from 'node:http';
import type { Logger } from 'pino';
import { peerOf } from '../admin/peer.ts';
import { BoundedCounts } from '../base/bounded.ts';
import type { Session } from './sessions.ts';

/** Of each person, and of all who have no session. */
const LINES_MAX = 20;
const WITHIN_MS = 60_000;
/** People with lines of their own; all others share theirs. */
const PEOPLE_MAX = 200;
const PATH_CHARS_MAX = 100;

export class RefusalLog {
  readonly #logger: Pick<Logger, 'warn'>;
  /** Of a clock that only goes forward, milliseconds. */
  readonly #now: () => number;
  #since = Number.NEGATIVE_INFINITY;
  /** By the name of the person; of nobody, the empty name. */
  readonly #lines = new BoundedCounts({ max: PEOPLE_MAX, others: '(others)' });
  #unlogged = 0;

  constructor(logger: Pick<Logger, 'warn'>, now: () => number = () => performance.now()) {
    this.#logger = logger;
    this.#now = now;
  }

  /** Writes a line, unless this person, or strangers, had many within the last minute: the next line says how many were left out. */
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
      ...(socket.remoteAddress !== undefined && { address: socket.remoteAddress }),
      ...(uid !== undefined && { peer_uid: uid }),
      ...(pid !== undefined && { peer_pid: pid }),
      ...(this.#unlogged > 0 && { unlogged_before: this.#unlogged }),
    };
    this.#unlogged = 0;
    this.#logger.warn(fields, 'the console refused somebody');
  }
}

/** Without what follows `/login/`, which may open the console still, and without what somebody searched for. */
function pathOf(url: string): string {
  const [path = ''] = url.split('?');
  return path.startsWith('/login') ? '/login' : path.slice(0, PATH_CHARS_MAX);
}
