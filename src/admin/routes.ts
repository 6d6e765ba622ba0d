import type { RequestListener } from 'node:http';
import { Router } from '@koa/router';
import Koa from 'koa';
import type { Logger } from 'pino';
import { OperatorError, ServiceError } from '../base/errors.ts';
import { Slots } from '../base/slots.ts';
import { refuseUnrouted } from '../http/app.ts';
import { type AuthOptions, requireKey } from '../http/authentication.ts';
import { serveErrorIndex, serveErrorPage } from '../http/errorPages.ts';
import { type AnswerOptions, answerErrors } from '../http/errorResponses.ts';
import { readOptionalJson } from '../http/json.ts';
import { observe } from '../http/observe.ts';
import { serveDescription } from '../http/openapiParts.ts';
import { linger, readWhole } from '../http/requestBody.ts';
import {
  answerJson,
  type Middleware,
  type RequestContext,
  type RequestState,
} from '../http/requestContext.ts';
import { duplicateField } from '../job/fieldValues.ts';
import { type Actor, readReportedActor } from '../manifest/auditRecord.ts';
import { ACTOR_HEADER, type AdminOperation, perform, valueOfText } from '../ops/operation.ts';
import { type DaemonParts, IS_FRONT, type StoreParts } from '../ops/operationParts.ts';
import { ADMIN_OPERATIONS } from '../ops/operationTable.ts';
import { isLoopback } from '../web/address.ts';
import { peerOf } from '../web/peer.ts';
import { METRICS_TYPE, type Metrics } from './metrics.ts';
import { describeAdministration } from './openapi.ts';

export type AdminParts = DaemonParts &
  StoreParts & {
    metrics: Pick<Metrics, 'text'>;
    auth: AuthOptions;
    /** Whether every user of the machine can connect, as on an address; a socket admits only the users who can open it. */
    forAnyone: boolean;
    logger: Logger;
    onFatal: AnswerOptions['onFatal'];
  };

/** Text such as the answer of a witness is as long as on the network. */
const TEXT = { what: 'The body', bytesMax: 64 * 1024, timeoutMs: 10_000 };

/** The administration as a request listener; docs/operate/health.md lists its routes. */
export function createAdminApp(parts: AdminParts): RequestListener {
  const { logger } = parts;
  const router = routesOf(parts);
  const koa = new Koa<RequestState>();
  koa.on('error', (error) => logger.debug({ err: error }, 'a caller of the administration went away'));
  // Not at level info, because probes and scrapes come every few seconds.
  const line = (fields: object) => logger.debug(fields, 'request');
  koa.use(observe({ write: line, writeStranger: line }));
  koa.use(linger);
  koa.use(answerErrors(parts));
  if (parts.forAnyone) koa.use(refuseOtherHosts);
  koa.use(router.routes());
  koa.use(refuseUnrouted(router, 'See /openapi.json.'));
  return koa.callback();
}

function routesOf(parts: AdminParts): Router<RequestState> {
  const { status, metrics, auth, forAnyone } = parts;
  const byKey = requireKey(auth, 'admin');
  const admit: Record<AdminOperation['role'], Middleware> = {
    // On a Unix socket, every user who can open it may read.
    reader: forAnyone ? requireKey(auth, 'admin:read') : (_ctx, next) => next(),
    // Every change is recorded with its author: the user of the socket as the kernel reports it, or an API key.
    administrator: (ctx, next) => (peerOf(ctx.req.socket)?.uid === undefined ? byKey(ctx, next) : next()),
    owner: ownersOnly,
  };
  const router = new Router<RequestState>({ sensitive: true, strict: true });
  router.get('/healthz', (ctx) => answerJson(ctx, 200, { alive: true }));
  router.get('/readyz', async (ctx) => {
    const { ready, parts } = await status.read();
    // Load balancers have no key, and look only at the HTTP status.
    const isTold = !forAnyone || ctx.headers.authorization !== undefined;
    const answerIt = async () => answerJson(ctx, ready ? 200 : 503, { ready, parts: isTold ? parts : [] });
    await (isTold ? admit.reader(ctx, answerIt) : answerIt());
  });
  router.get('/metrics', admit.reader, async (ctx) => {
    ctx.type = METRICS_TYPE;
    ctx.body = await metrics.text(await status.read());
  });
  for (const one of ADMIN_OPERATIONS) {
    const { method, path } = one.route;
    router[method](path.replaceAll(/\{(\w+)\}/g, ':$1'), admit[one.role], routeOf(one, parts));
  }
  router.get('/openapi.json', serveDescription(describeAdministration, 'no-cache'));
  router.get('/v1/errors', serveErrorIndex);
  router.get('/v1/errors/:code', serveErrorPage);
  return router;
}

function routeOf(one: AdminOperation<AdminParts>, parts: AdminParts): Middleware {
  const { atOnce } = one.route;
  const slots = atOnce && new Slots(atOnce);
  return async (ctx) => {
    if (one.needs === 'store' && parts.store.sealing !== undefined)
      throw new ServiceError('not_found', IS_FRONT);
    const leave = slots?.take(callerName(ctx));
    try {
      const given = await givenIn(ctx, one);
      const answer = perform(one, parts, given, actorOf(ctx));
      answerJson(ctx, 200, await (one.role === 'owner' ? answer.catch(refuseAsOperator) : answer));
    } finally {
      leave?.();
    }
  };
}

/** The fields of a request: in its path, its body and its query. Throws ServiceError. */
async function givenIn(ctx: RequestContext, { fields, route }: AdminOperation<AdminParts>) {
  const { method, sends = 'query' } = route;
  const given = new Map<string, unknown>(Object.entries(ctx.params));
  const add = (name: string, value: unknown) => {
    if (given.has(name)) throw duplicateField(name);
    given.set(name, value);
  };
  if (sends === 'json')
    for (const [name, value] of Object.entries(await readOptionalJson(ctx, TEXT.timeoutMs))) add(name, value);
  else if (sends !== 'query') add(sends.text, (await readWhole(ctx, TEXT)).toString());
  // Without fields, a GET can have any query.
  const isChecked = method === 'post' || Object.keys(fields).length > 0;
  for (const [name, text] of isChecked ? new URLSearchParams(ctx.querystring) : []) {
    const field = Object.hasOwn(fields, name) ? fields[name] : undefined;
    add(name, field === undefined ? text : valueOfText(field.schema, text));
  }
  return Object.fromEntries(given);
}

/** Owners of the store see the message that a command prints. */
function refuseAsOperator(error: unknown): never {
  if (!(error instanceof OperatorError)) throw error;
  const { message, code } = error;
  throw new ServiceError(code === 'not_found' ? 'not_found' : 'invalid_request', message, { cause: error });
}

/** The asking client, by which shares are divided. */
function callerName(ctx: RequestContext): string {
  const { key, uid } = actorOf(ctx);
  return key ?? `uid ${uid}`;
}

function isOwner(ctx: RequestContext): boolean {
  const { uid } = peerOf(ctx.req.socket) ?? {};
  return uid === 0 || (uid !== undefined && uid === process.geteuid?.());
}

/** Owners may do more than the scope admin allows, so no API key does, nor a member of the socket's group. */
const ownersOnly: Middleware = (ctx, next) => {
  if (isOwner(ctx)) return next();
  throw new ServiceError(
    'insufficient_scope',
    'Only root and the user of the daemon can do this, at the Unix socket of the administration.',
  );
};

/**
 * Stops a web page in a browser on this machine, which reaches this address under a name that resolves to loopback: Host is that name.
 */
const refuseOtherHosts: Middleware = (ctx, next) => {
  const host = URL.parse(`http://${ctx.req.headers.host}`)?.hostname.replaceAll(/[[\]]/g, '');
  if (host !== undefined && (host === 'localhost' || isLoopback(host))) return next();
  throw new ServiceError(
    'invalid_request',
    'The header Host must name a loopback address or localhost, as admin.listen does.',
  );
};

/**
 * The actor of the audit record: the API key or, on a Unix socket, the peer that the kernel reports. A command reports who called it; that
 * counts from owners only, who can write to the store themselves.
 */
function actorOf(ctx: RequestContext): Actor {
  const { caller } = ctx.state;
  if (caller !== undefined)
    return { via: 'administration', client: caller.viewer.clientId, key: caller.keyId };
  const peer = peerOf(ctx.req.socket);
  const header = ctx.headers[ACTOR_HEADER];
  const reported = typeof header === 'string' && isOwner(ctx) ? readReportedActor(header) : undefined;
  return { ...(reported ?? { via: 'administration' }), ...peer };
}
