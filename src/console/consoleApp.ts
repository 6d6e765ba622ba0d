/** Answers every request to the console: checks it, finds its route, and lays out the page that the screen returns. */

import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Logger } from 'pino';
import { BrokenInvariant } from '../base/assert.ts';
import { ERROR_KINDS } from '../base/errorKinds.ts';
import { ServiceError } from '../base/errors.ts';
import type { Person } from '../base/people.ts';
import type { Actor } from '../manifest/auditRecord.ts';
import { actBy } from '../store/acts.ts';
import { type Store, UnknownOutcome } from '../store/store.ts';
import { asAnswer } from '../store/storeAnswers.ts';
import type { Asset, Assets } from './assets.ts';
import { checkOrigin, cookieOf, FORM_MS_MAX, HEADERS, readFields, STRANGER_FORM_MS_MAX } from './checks.ts';
import type { Door } from './doors.ts';
import { english } from './english.ts';
import type { Streams } from './liveStreams.ts';
import { layOut } from './pageFrame.ts';
import { PageSlots } from './pageSlots.ts';
import { RefusalLog } from './refusalLog.ts';
import type { Download, Page, Reply, Screen, ScreenRoute } from './screen.ts';
import { Refusal } from './screen.ts';
import { isFormToken, reaches, type Session, type Sessions } from './sessions.ts';
import { loggedOutPage, messagePage } from './signIn.ts';

const RETRY_AFTER_SECONDS = 2;
/** A reader that takes a little now and then never triggers the silence timeout, and would hold resources until its session ends. */
const DOWNLOAD_MS_MAX = 3_600_000;

export interface ConsoleAppOptions {
  environment: string;
  screens: readonly Screen[];
  sessions: Sessions;
  streams: Streams;
  assets: Assets;
  /** Logins are recorded here. */
  store: { trail: Pick<Store['trail'], 'append'> };
  clock(): number;
  logger: Logger;
  /** Called after an error that must end the process: a broken invariant, or a write with an unknown outcome. */
  onFatal(error: unknown): void;
}

export class ConsoleApp {
  readonly #options: ConsoleAppOptions;
  readonly #routes: readonly ScreenRoute[];
  readonly #pageSlots = new PageSlots();
  readonly #refusals: RefusalLog;
  /** The notice to show on a session's next page. */
  readonly #notices = new WeakMap<Session, string>();

  constructor(options: ConsoleAppOptions) {
    this.#options = options;
    this.#refusals = new RefusalLog(options.logger);
    this.#routes = options.screens.flatMap(({ routes }) => routes);
  }

  /** Never rejects. */
  async handle(request: IncomingMessage, response: ServerResponse, door: Door): Promise<void> {
    for (const [name, value] of Object.entries(HEADERS)) response.setHeader(name, value);
    const url = URL.parse(request.url ?? '', 'http://console');
    const path = url?.pathname ?? '';
    let session: Session | undefined;
    try {
      checkOrigin(request, door);
      const asset = this.#options.assets.byPath.get(path);
      if (asset !== undefined) {
        response.setHeader('Cache-Control', 'private, max-age=31536000, immutable');
        return sendAsset(request, response, asset);
      }
      if (await this.#answerStranger(request, response, { door, path })) return;
      const found = this.#routeOf(request.method ?? '', path);
      const cookie = cookieOf(request, door.cookieName);
      const find = (how: { isUse: boolean }) =>
        cookie === undefined
          ? undefined
          : this.#options.sessions.find(cookie, { ...how, certificate: door.certificateOf(request) });
      session = find({ isUse: found?.route.isLive !== true });
      if (session === undefined || cookie === undefined)
        return this.#sendPage(response, door.signInPage(request), { path });
      door.know(request.socket);
      if (request.method === 'POST' && path === '/logout') {
        await this.#checkedForm(request, session);
        this.#options.sessions.end(cookie);
        response.setHeader('Set-Cookie', cookieFor(door, '', 'Max-Age=0; '));
        return redirect(response, '/logout');
      }
      if (found === undefined) throw this.#unrouted(path, response);
      const { route, params } = found;
      const { person } = session;
      if (!reaches(person.role, route.role))
        throw new Refusal(403, english.roleLacks(english.roles[route.role]), english.roleLacksHow);
      const form =
        route.method === 'POST' ? await this.#checkedForm(request, session) : new URLSearchParams();
      const query = url?.searchParams ?? new URLSearchParams();
      requireText([...Object.values(params), ...query.values(), ...form.values()]);
      const asked = { path, params, query, form, session, actor: actorOf(person) };
      const reply = await this.#pageSlots.during(
        person.name,
        () =>
          // The form or the turn may have taken long to arrive: a session that has ended meanwhile must not act.
          find({ isUse: false }) && route.answer(asked),
      );
      if (reply === undefined) return this.#sendPage(response, door.signInPage(request), { path });
      await this.#send(response, reply, { path, session, isLive: route.isLive === true });
    } catch (error) {
      this.#answerFailure(request, response, error, { path, session });
    }
  }

  /** Handles requests that need no session. Returns whether this was one of them. */
  async #answerStranger(
    request: IncomingMessage,
    response: ServerResponse,
    { door, path }: { door: Door; path: string },
  ): Promise<boolean> {
    const { method } = request;
    const page =
      method !== 'GET' ? undefined : path === '/logout' ? loggedOutPage(door.againRemedy) : door.pageAt(path);
    if (page !== undefined) {
      this.#sendPage(response, page, { path });
      return true;
    }
    if (method !== 'POST' || path !== '/login') return false;
    const begun = door.begin(request, await readFields(request, STRANGER_FORM_MS_MAX));
    if ('main' in begun) {
      const { title: reason, status = 403 } = begun;
      this.#refusals.refused(request, { status, reason, session: undefined });
      this.#sendPage(response, begun, { path });
    } else {
      const { sessions, store } = this.#options;
      const { cookie, session, object } = begun;
      try {
        await store.trail.append(actBy(actorOf(session.person), 'console.login', object));
      } catch (error) {
        sessions.end(cookie);
        throw error;
      }
      // The browser overwrites the former cookie, so its session could no longer be logged out.
      const former = cookieOf(request, door.cookieName);
      if (former !== undefined) sessions.end(former);
      response.setHeader('Set-Cookie', cookieFor(door, cookie));
      redirect(response, '/');
    }
    return true;
  }

  #routeOf(method: string, path: string): { route: ScreenRoute; params: Record<string, string> } | undefined {
    for (const route of this.#routes) {
      const params = route.method === method ? matched(route.path, path) : undefined;
      if (params !== undefined) return { route, params };
    }
    return undefined;
  }

  #unrouted(path: string, response: ServerResponse): Refusal {
    const others = this.#routes.filter((route) => matched(route.path, path) !== undefined);
    if (others.length === 0) return new Refusal(404, english.notFound, english.notFoundHow);
    const methods = new Set(others.map(({ method }) => method));
    response.setHeader('Allow', [...methods].join(', '));
    return new Refusal(405, english.badMethod, english.notFoundHow);
  }

  async #checkedForm(request: IncomingMessage, session: Session): Promise<URLSearchParams> {
    const form = await readFields(request, FORM_MS_MAX);
    if (!isFormToken(session, form.get('token') ?? ''))
      throw new Refusal(403, english.stale, english.staleHow);
    return form;
  }

  async #send(
    response: ServerResponse,
    reply: Reply,
    at: { path: string; session: Session; isLive: boolean },
  ): Promise<void> {
    if ('location' in reply) {
      if (reply.notice !== undefined) this.#notices.set(at.session, reply.notice);
      return redirect(response, reply.location);
    }
    if ('main' in reply) {
      // A page that refreshes itself must not consume the notice: the person did not navigate to it.
      const notice = at.isLive ? undefined : this.#notices.get(at.session);
      if (notice !== undefined) this.#notices.delete(at.session);
      return this.#sendPage(response, { ...reply, notice }, at);
    }
    if ('stream' in reply) {
      const { streams } = this.#options;
      response.setHeader('Content-Type', 'text/event-stream; charset=utf-8');
      if (!streams.tryAdd(response, at.session)) send(response, 503, 'text/plain; charset=utf-8', '');
      return;
    }
    await sendDownload(response, reply, at.session);
  }

  #sendPage(response: ServerResponse, page: Page, at: { path: string; session?: Session }): void {
    const { environment, assets, screens, clock } = this.#options;
    const frame = { environment, assets: assets.urls, menu: screens, now: new Date(clock()) };
    const text = layOut(page, frame, at.session, at.path);
    send(response, page.status ?? 200, 'text/html; charset=utf-8', text);
  }

  #answerFailure(
    request: IncomingMessage,
    response: ServerResponse,
    error: unknown,
    at: { path: string; session: Session | undefined },
  ): void {
    const { logger, onFatal } = this.#options;
    if (error instanceof BrokenInvariant || error instanceof UnknownOutcome) onFatal(error);
    if (response.destroyed) return;
    if (response.headersSent) {
      logger.warn({ err: error }, 'an answer of the console broke off');
      response.destroy();
      return;
    }
    // Otherwise the unread rest of the request would be parsed as the next one.
    response.setHeader('Connection', 'close');
    const page = failurePage(error);
    if (page.status === 503) response.setHeader('Retry-After', RETRY_AFTER_SECONDS);
    if (page.status === 500) logger.error({ err: error }, 'the console failed to answer');
    const { session, path } = at;
    if (page.status === 403 || page.status === 421)
      this.#refusals.refused(request, { status: page.status, reason: page.title, session });
    this.#sendPage(response, page, { path, session });
  }
}

function failurePage(thrown: unknown): Page {
  const error = asAnswer(thrown);
  if (error instanceof Refusal)
    return messagePage(error.message, undefined, { status: error.status, remedy: error.remedy });
  if (error instanceof ServiceError) {
    const { status } = ERROR_KINDS[error.code];
    return messagePage(error.message, undefined, {
      status,
      remedy: status < 500 ? english.correctHow : english.laterHow,
    });
  }
  return messagePage(english.failed, undefined, { status: 500, remedy: english.failedHow });
}

function cookieFor({ cookieName, cookieAttributes }: Door, value: string, more = ''): string {
  return `${cookieName}=${value}; ${more}${cookieAttributes}`;
}

function actorOf({ name, role }: Person): Actor {
  return { via: 'console', person: name, role };
}

/** PostgreSQL text cannot contain U+0000. */
function requireText(values: readonly string[]): void {
  if (values.some((value) => value.includes('\0'))) throw new Refusal(400, english.nul, english.nulHow);
}

/** The parameters of a path that matches a pattern such as `/jobs/:id`. */
function matched(pattern: string, path: string): Record<string, string> | undefined {
  const [wanted, found] = [pattern.split('/'), path.split('/')];
  if (wanted.length !== found.length) return undefined;
  const params: Record<string, string> = {};
  for (const [n, part] of wanted.entries()) {
    const given = found[n] ?? '';
    if (!part.startsWith(':')) {
      if (part !== given) return undefined;
      continue;
    }
    const value = decoded(given);
    if (value === undefined || value === '') return undefined;
    params[part.slice(1)] = value;
  }
  return params;
}

function decoded(part: string): string | undefined {
  try {
    return decodeURIComponent(part);
  } catch {
    return undefined;
  }
}

function redirect(response: ServerResponse, location: string): void {
  response.setHeader('Location', location);
  send(response, 303, 'text/plain; charset=utf-8', '');
}

function send(response: ServerResponse, status: number, type: string, body: string | Buffer): void {
  response.statusCode = status;
  response.setHeader('Content-Type', type);
  response.end(body);
}

function sendAsset({ headers }: IncomingMessage, response: ServerResponse, asset: Asset): void {
  const isZipped = /\bgzip\b/.test(String(headers['accept-encoding']));
  response.setHeader('Vary', 'Accept-Encoding');
  if (isZipped) response.setHeader('Content-Encoding', 'gzip');
  send(response, 200, asset.type, isZipped ? asset.zipped : asset.body);
}

/**
 * Sends a file as a download, never displayed as a page. The transfer is aborted when the session ends, or if the reader takes too long.
 */
async function sendDownload(
  response: ServerResponse,
  { fileName, type, body, onEnd }: Download,
  { ended }: Session,
): Promise<void> {
  const plain = fileName.replaceAll(/[^\w.-]/g, '_').slice(0, 120);
  response.setHeader('Content-Disposition', `attachment; filename="${plain}"`);
  response.setHeader('Content-Type', type);
  const signal = AbortSignal.any([ended, AbortSignal.timeout(DOWNLOAD_MS_MAX)]);
  try {
    if (typeof body === 'string' || body instanceof Uint8Array) response.end(body);
    else await pipeline(Readable.from(body), response, { signal });
  } finally {
    onEnd?.();
  }
}
