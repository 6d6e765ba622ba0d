/** The building blocks of a screen of the console. `screens.ts` lists all screens. */
import { OperatorError } from '../base/errors.ts';
import type { Role } from '../base/people.ts';
import type { Actor } from '../manifest/auditRecord.ts';
import type { Html } from './html.ts';
import type { Session } from './sessions.ts';

export interface Screen {
  /** Its place in the menu. */
  path: string;
  label: string;
  routes: readonly ScreenRoute[];
}

export interface ScreenRoute {
  method: 'GET' | 'POST';
  /** Literal segments, and parameters such as `:id`. */
  path: string;
  /** The minimum role. */
  role: Role;
  /** Set for requests that a page makes to refresh itself: they do not count as use of the session. */
  isLive?: true;
  answer(request: ScreenRequest): Reply | Promise<Reply>;
}

export function reading(path: string, answer: ScreenRoute['answer'], role: Role = 'auditor'): ScreenRoute {
  return { method: 'GET', path, role, answer };
}

export function changing(path: string, role: Role, answer: ScreenRoute['answer']): ScreenRoute {
  return { method: 'POST', path, role, answer };
}

/** A request that has passed every check: host, origin, session and role, and for a change the form token. */
export interface ScreenRequest {
  path: string;
  /** By the parameter names in the path of the route. */
  params: Readonly<Record<string, string>>;
  query: URLSearchParams;
  /** The form of a POST; otherwise empty. */
  form: URLSearchParams;
  session: Session;
  /** The actor for the audit trail. */
  actor: Actor;
}

export type Reply = Page | Redirect | Download | EventStream;

/** The content between the header and the footer of the layout. */
export interface Page {
  title: string;
  main: Html;
  /** The URL from which the page refreshes itself. */
  live?: string;
  /** The script it needs in addition to the one of every page. */
  script?: 'find' | 'receipt';
  status?: number;
  /** Confirms the act that has just been done. */
  notice?: string | undefined;
}

/** Answers a change, so that reloading the page does not repeat it. */
export interface Redirect {
  location: string;
  /** Confirms the act; shown on the session's next page. */
  notice?: string;
}

export interface Download {
  fileName: string;
  type: string;
  body: string | Uint8Array | AsyncIterable<string | Uint8Array>;
  /** Called when all of it was sent, or when sending was aborted. */
  onEnd?(): void;
}

/** A stream of events that lasts as long as the session. */
interface EventStream {
  stream: 'events';
}

/** An error to show to the person: what is wrong, and what to do. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
  readonly status: number;
  readonly remedy: string;

  constructor(status: number, message: string, remedy: string) {
    super(message);
    this.status = status;
    this.remedy = remedy;
  }
}

/** For `catch`: passes the error on as a refusal that the person can remedy. */
export function refuseWith(remedy: string): (error: unknown) => never {
  return (error) => {
    throw error instanceof OperatorError ? new Refusal(409, error.message, remedy) : error;
  };
}
