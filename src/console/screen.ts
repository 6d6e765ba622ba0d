/** What a screen of the console is made of. `screens.ts` lists them. */
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
  /** Literal, but for parts such as `:id`, which are parameters. */
  path: string;
  /** The least role that may. */
  role: Role;
  /** Asked for by a page that keeps itself current: it does not keep the session from ending. */
  isLive?: true;
  answer(request: ScreenRequest): Reply | Promise<Reply>;
}

export function reading(path: string, answer: ScreenRoute['answer'], role: Role = 'auditor'): ScreenRoute {
  return { method: 'GET', path, role, answer };
}

export function changing(path: string, role: Role, answer: ScreenRoute['answer']): ScreenRoute {
  return { method: 'POST', path, role, answer };
}

/** A request that passed every check: of its host, its origin, its session, its role, and a change of its form token. */
export interface ScreenRequest {
  path: string;
  /** By the names of the parameters in the path of the route. */
  params: Readonly<Record<string, string>>;
  query: URLSearchParams;
  /** Of a POST; else empty. */
  form: URLSearchParams;
  session: Session;
  /** Who acts, for the audit trail. */
  actor: Actor;
}

export type Reply = Page | Redirect | Download | EventStream;

/** What stands between the head and the foot of the layout. */
export interface Page {
  title: string;
  main: Html;
  /** Where the page asks for a newer one of itself. */
  live?: string;
  /** What it needs beside the script of every page. */
  script?: 'find' | 'receipt';
  status?: number;
  /** What was done just before. */
  notice?: string | undefined;
}

/** After a change, so that reloading the page does not repeat it. */
export interface Redirect {
  location: string;
  /** What was done; the next page that the session is shown says it. */
  notice?: string;
}

export interface Download {
  fileName: string;
  type: string;
  body: string | Uint8Array | AsyncIterable<string | Uint8Array>;
  /** Called when all of it was sent, or no more of it will be. */
  onEnd?(): void;
}

/** Events, for as long as the session lasts. */
interface EventStream {
  stream: 'events';
}

/** A fault to tell the person: what is wrong, and what to do. */
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

/** For `catch`: what cannot be done now is the person's to mend. */
export function refuseWith(remedy: string): (error: unknown) => never {
  return (error) => {
    throw error instanceof OperatorError ? new Refusal(409, error.message, remedy) : error;
  };
}
