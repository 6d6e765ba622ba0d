/** Access to the console: one-time links, and the sessions that they begin. All state is in memory, and bounded. */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { BoundedMap } from '../base/bounded.ts';
import { type Person, ROLES, type Role } from '../base/people.ts';

export interface Session {
  /** Identifies the session on pages. It does not grant access. */
  readonly id: string;
  readonly person: Person;
  /** The token in every form of this session. Another site cannot know it. */
  readonly formToken: string;
  /** Aborted when the session ends. */
  readonly ended: AbortSignal;
}

/** The certificate that a session depends on, if one began it. */
interface Bond {
  /** SHA-256 of the certificate. */
  readonly certificate: string;
  /** Whether the certificate still admits that person with that role. */
  holds(): boolean;
}

interface Held extends Session {
  readonly startedAt: number;
  readonly end: AbortController;
  readonly bond: Bond | undefined;
  usedAt: number;
}

const LINK_MS_MAX = 5 * 60_000;
const IDLE_MS_MAX = 30 * 60_000;
const SESSION_MS_MAX = 12 * 3_600_000;
/** The oldest link makes room for a new one: only root and the service's own user create links. */
const LINKS = { max: 32, whenFull: 'forget the oldest' } as const;
const SESSIONS_MAX = 128;
/**
 * Limit on sessions that a person begins with certificates: each login adds an audit record, and each further session can end one of
 * another person.
 */
const BOUND_MAX = 10;
const BOUND_WITHIN_MS = 10 * 60_000;
const SECRET_BYTES = 32;
const ID_BYTES = 8;

/** Whether the role includes the one required. */
export function reaches(role: Role, wanted: Role): boolean {
  return ROLES.indexOf(role) >= ROLES.indexOf(wanted);
}

export class Sessions {
  /** A monotonic clock, in milliseconds. */
  readonly #now: () => number;
  /** By the SHA-256 of the secret in the link, so that a later reader of this memory cannot use any of them. */
  readonly #links = new BoundedMap<string, { person: Person; madeAt: number }>(LINKS);
  /** By the SHA-256 of the secret in the cookie. */
  readonly #sessions = new BoundedMap<string, Held>({ max: SESSIONS_MAX, whenFull: 'refuse it' });
  /** Digests of used links, and when they were used, so that a second use gets its own message. */
  readonly #used = new BoundedMap<string, number>(LINKS);
  /** When each person began sessions with a certificate, by name. */
  readonly #begun = new Map<string, readonly number[]>();

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Creates a one-time link, and returns its secret. */
  invite(person: Person): string {
    this.#forget();
    const secret = newSecret();
    this.#links.set(digestOf(secret), { person, madeAt: this.#now() });
    return secret;
  }

  /** The person a link is for; undefined if it is used, expired or invalid. Looking at a link does not use it. */
  invited(secret: string): Person | undefined {
    this.#forget();
    return this.#links.get(digestOf(secret))?.person;
  }

  /** Uses a link. Returns the secret for the cookie; undefined if the link is not valid. */
  begin(secret: string): { cookie: string; session: Session } | undefined {
    const person = this.invited(secret);
    if (person === undefined) return undefined;
    this.#links.delete(digestOf(secret));
    this.#used.set(digestOf(secret), this.#now());
    return this.#open(person);
  }

  /** Whether a link was used within the last five minutes. */
  wasUsed(secret: string): boolean {
    this.#forget();
    return this.#used.has(digestOf(secret));
  }

  /** Begins a session bound to a certificate. Undefined if the person has begun too many. */
  beginBound(person: Person, bond: Bond): { cookie: string; session: Session } | undefined {
    this.#forget();
    const recent = this.#begun.get(person.name) ?? [];
    if (recent.length >= BOUND_MAX) return undefined;
    this.#begun.set(person.name, [...recent, this.#now()]);
    const own = [...this.#sessions].filter(([, held]) => held.bond && held.person.name === person.name);
    if (own.length >= BOUND_MAX) this.#end(longestIdle(own));
    return this.#open(person, bond);
  }

  #open(person: Person, bond?: Bond): { cookie: string; session: Session } {
    if (this.#sessions.isFull) this.#end(longestIdle([...this.#sessions]));
    const now = this.#now();
    const end = new AbortController();
    const session: Held = {
      id: randomBytes(ID_BYTES).toString('hex'),
      person,
      formToken: newSecret(),
      ended: end.signal,
      end,
      bond,
      startedAt: now,
      usedAt: now,
    };
    const cookie = newSecret();
    this.#sessions.set(digestOf(cookie), session);
    return { cookie, session };
  }

  /**
   * The session of a cookie, if it is bound to the certificate of the connection, or if neither has one. Automatic requests, such as those
   * of a page that refreshes itself, do not count as use.
   */
  find(cookie: string, how: { isUse: boolean; certificate?: string | undefined }): Session | undefined {
    const key = digestOf(cookie);
    // An unauthenticated client can send any cookie, and checking each bond verifies a certificate chain.
    if (!this.#sessions.has(key)) return undefined;
    this.#forget();
    const session = this.#sessions.get(key);
    if (session === undefined || session.bond?.certificate !== how.certificate) return undefined;
    if (how.isUse) session.usedAt = this.#now();
    return session;
  }

  end(cookie: string): void {
    this.#end(digestOf(cookie));
  }

  /** All sessions, newest first; how long ago each began and was last used, in milliseconds. */
  list(): (Pick<Session, 'id' | 'person'> & { beganMs: number; usedMs: number })[] {
    this.#forget();
    const now = this.#now();
    const held = [...this.#sessions.values()].reverse();
    return held.map(({ id, person, startedAt, usedAt }) => {
      return { id, person, beganMs: now - startedAt, usedMs: now - usedAt };
    });
  }

  /** Returns the session's person; undefined if there is no session with that id. */
  endOne(id: string): Person | undefined {
    for (const [key, session] of this.#sessions) {
      if (session.id !== id) continue;
      this.#end(key);
      return session.person;
    }
    return undefined;
  }

  /** Ends the sessions and links of everyone, or of one name. Returns the number of sessions ended. */
  endAll(name?: string): number {
    this.#forget();
    const isMeant = (person: Person) => name === undefined || person.name === name;
    const ended = [...this.#sessions].filter(([, { person }]) => isMeant(person));
    for (const [key] of ended) this.#end(key);
    for (const [key, { person }] of this.#links) if (isMeant(person)) this.#links.delete(key);
    return ended.length;
  }

  /** Ends expired sessions. Called often enough that the streams of a session end with it. */
  expire(): void {
    this.#forget();
  }

  #forget(): void {
    const now = this.#now();
    for (const [key, usedAt] of this.#used) if (now - usedAt >= LINK_MS_MAX) this.#used.delete(key);
    for (const [key, { madeAt }] of this.#links) if (now - madeAt >= LINK_MS_MAX) this.#links.delete(key);
    for (const [key, { startedAt, usedAt, bond }] of this.#sessions) {
      const isOver = now - usedAt >= IDLE_MS_MAX || now - startedAt >= SESSION_MS_MAX;
      if (isOver || bond?.holds() === false) this.#end(key);
    }
    for (const [name, times] of this.#begun) {
      const recent = times.filter((at) => now - at < BOUND_WITHIN_MS);
      if (recent.length === 0) this.#begun.delete(name);
      else this.#begun.set(name, recent);
    }
  }

  #end(key: string): void {
    this.#sessions.get(key)?.end.abort();
    this.#sessions.delete(key);
  }
}

/** Compares in constant time, so that timing reveals nothing. */
export function isFormToken(session: Session, given: string): boolean {
  const [wanted, found] = [Buffer.from(session.formToken), Buffer.from(given)];
  return wanted.length === found.length && timingSafeEqual(wanted, found);
}

function longestIdle(sessions: readonly [string, Held][]): string {
  const [oldest] = sessions.toSorted(([, a], [, b]) => a.usedAt - b.usedAt);
  return oldest?.[0] ?? '';
}

function newSecret(): string {
  return randomBytes(SECRET_BYTES).toString('base64url');
}

function digestOf(secret: string): string {
  return createHash('sha256').update(secret).digest('hex');
}
