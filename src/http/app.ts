import type { RequestListener } from 'node:http';
import type { Socket } from 'node:net';
import { Router } from '@koa/router';
import Koa, { type Next } from 'koa';
import { ServiceError } from '../base/errors.ts';
import { Presence } from '../base/presence.ts';
import { Slots } from '../base/slots.ts';
import type { CreateRequest } from '../job/fields.ts';
import type { Sealer } from '../seal/sealer.ts';
import type { Timekeeping } from '../seal/timekeeping.ts';
import type { Store } from '../store/store.ts';
import { Admission } from '../web/admission.ts';
import type { TlsPeer } from '../web/clientCertificate.ts';
import { ConnectionLimits } from '../web/connectionLimits.ts';
import { type AuthOptions, requireKey } from './authentication.ts';
import { createInBulk } from './bulkRoute.ts';
import { type CreateOptions, createJob } from './create.ts';
import { type DocumentRouteOptions, getDocument, getSealedPdf, getSealedPdfSuffix } from './documentRoute.ts';
import { serveErrorIndex, serveErrorPage } from './errorPages.ts';
import { type AnswerOptions, answerErrors } from './errorResponses.ts';
import { IdempotencyKeys } from './idempotency.ts';
import { type JobsOptions, jobHandlers } from './jobRoutes.ts';
import { rotateOwnKey } from './keyRoutes.ts';
import { LineSlots } from './lineSlots.ts';
import { logHandlers } from './logRoutes.ts';
import { answerMe } from './meRoute.ts';
import { type AnsweredRequest, observe } from './observe.ts';
import { describeApi } from './openapi.ts';
import { type Operation, serveDescription } from './openapiParts.ts';
import { OPERATIONS, type OperationId } from './operations.ts';
import { limitAtOnce, limitRate } from './rateLimit.ts';
import { limitingReads } from './readSlots.ts';
import { linger } from './requestBody.ts';
import { callerOf, type Middleware, type RequestState } from './requestContext.ts';
import { RequestLog } from './requestLog.ts';
import { answerTimestampQuery, type TimestampOptions } from './timestampRoute.ts';
import { type WebhooksOptions, webhookHandlers } from './webhookRoutes.ts';

/** The parts of the API. The caller opens and closes each part. */
export interface AppParts
  extends AnswerOptions,
    Pick<CreateOptions, 'sources' | 'intake' | 'limits' | 'blockingTimeoutMs'>,
    Pick<AuthOptions, 'organizations'>,
    Pick<JobsOptions, 'trust'>,
    Pick<DocumentRouteOptions, 'copies'> {
  store: Store;
  /** Fronts can change neither credentials nor webhook endpoints, and so have no `admitRecord`. */
  sealer: CreateOptions['sealer'] & Partial<Pick<Sealer, 'admitRecord'>>;
  /** The base URL, without a trailing slash and without `/v1`. */
  publicUrl: string;
  /** The TLS client of a connection, as of a date. Absent without TLS. */
  tls?: { peerOf(socket: Socket, nowMs: number): TlsPeer } | undefined;
  uploadsMax: number;
  uploadsPerClientMax: number;
  /** Maximum number of batches received at the same time. */
  batchesMax: number;
  /** Maximum number of document copies sent at the same time. */
  downloadsMax: number;
  /** The rules for the URLs of webhook endpoints. */
  webhookPolicy: WebhooksOptions['policy'];
  /** Whether the log is readable without an API key. */
  logPublic: boolean;
  /** Answers `POST /v1/timestamp`. Without an authority, that path answers 404. */
  authority?: TimestampOptions['authority'] | undefined;
  /** Whether the sealer seals jobs only with a time-stamp. If absent, the sealer requests no time-stamps. */
  timestamped?(): boolean;
  time: Pick<Timekeeping, 'date' | 'stamp' | 'ageMs'>;
  /** How long copies of documents can be downloaded. */
  documentRetentionMs: number;
  /** Called after every answered request; must not throw. */
  onRequest?(request: AnsweredRequest): void;
  /** Called for every request that the log counts but does not write; must not throw. */
  onUnlogged?(): void;
  connectionsMax: number;
  connectionsPerAddressMax: number;
}

/** The API as a request listener. While `lifecycle.draining` is true, it refuses new requests. */
export interface App {
  handle: RequestListener;
  lifecycle: { draining: boolean };
  log: RequestLog;
  connections: ConnectionLimits;
  admission: Admission;
}

/** Builds the API. The first middleware sees a request first and its answer last. */
export function createApp(parts: AppParts): App {
  const { logger } = parts;
  const lifecycle = { draining: false };
  const log = new RequestLog(logger, parts.onUnlogged);
  const connections = new ConnectionLimits({
    max: parts.connectionsMax,
    perAddressMax: parts.connectionsPerAddressMax,
  });
  const { router, literals } = routesOf(parts, connections);
  const koa = new Koa<RequestState>();
  // Koa emits this event only for a connection that broke during an answer. The log line of the request records it.
  koa.on('error', (error) => logger.debug({ err: error }, 'the client went away'));
  koa.use(observe(log, parts.onRequest));
  koa.use(linger);
  koa.use(answerErrors(parts));
  koa.use(refuseWhileDraining(lifecycle));
  koa.use(soundTarget);
  koa.use(takeLiteral(literals));
  koa.use(router.routes());
  koa.use(refuseUnrouted(router, 'See /v1/openapi.json.'));
  return { handle: koa.callback(), lifecycle, log, connections, admission: new Admission() };
}

/** Webhook endpoints with their secrets, and API keys: a front lacks the operations at these paths. */
const NOT_AT_FRONTS = /^\/(?:webhook-endpoints|keys)/;

const refuseAtFront: Middleware = () => {
  throw new ServiceError(
    'not_found',
    'Webhook endpoints and API keys are not managed at this address. Ask the administrator of this service for the one where they are.',
  );
};

/** Maximum number of changes to webhook endpoints that wait for the disk at once: each change takes its own flush. */
const WEBHOOK_CHANGES_MAX = 32;
const KEY_ROTATIONS_MAX = 32;

/** Routes every operation of `openapi.json` to its path, for the callers with access. */
function routesOf(parts: AppParts, connections: ConnectionLimits) {
  const { store, organizations, time, logPublic, tls } = parts;
  const auth: AuthOptions = {
    store,
    environment: store.identity.environment,
    organizations,
    clock: time.date,
    peerOf: tls && ((socket) => tls.peerOf(socket, time.date())),
    onAccepted: (socket) => connections.know(socket),
  };
  const changes = new Slots({ of: 'changes to webhook endpoints', max: WEBHOOK_CHANGES_MAX });
  // The audit trail and the log keep each change for ever, so the rate of changes must be limited.
  const admitRecord: Middleware = (_, next) => {
    parts.sealer.admitRecord?.();
    return next();
  };
  const limitChanges = [limitRate(parts.limits), admitRecord, limitAtOnce(changes)];
  const router = new Router<RequestState>({ sensitive: true, strict: true });
  /** The routes whose paths have no parameters, by method and path. */
  const literals = new Map<string, Middleware[]>();
  const handlers = handlersOf(parts);
  const inTurn = limitingReads();
  for (const [id, { method, path, access, isLimited, failures = [] }] of Object.entries<Operation>(
    OPERATIONS,
  )) {
    const isHere = parts.sealer.admitRecord !== undefined || !NOT_AT_FRONTS.test(path);
    const handler = isHere ? handlers[id as OperationId] : refuseAtFront;
    if (handler === undefined) continue;
    const isOpen = access === 'anyone' || (access === 'log' && logPublic);
    const scope = access === 'anyone' || access === 'log' || access === 'any_key' ? undefined : access;
    const guard = isOpen ? [] : [requireKey(auth, scope)];
    const isChange = access === 'webhooks:manage' && isLimited && isHere;
    const isRead = method === 'get' && access !== 'anyone';
    const turns = isRead ? [inTurn({ isRefusable: failures.includes('too_many_requests') })] : [];
    const route = [...guard, ...turns, ...(isChange ? limitChanges : []), ...[handler].flat()];
    // `{path}` matches the rest of a path, including slashes.
    const pattern = path.replace('{path}', '*path').replaceAll(/\{(\w+)\}/g, ':$1');
    router[method](`/v1${pattern}`, ...route);
    if (!path.includes('{')) literals.set(`${method.toUpperCase()} /v1${path}`, route);
  }
  return { router, literals };
}

/** Most requests create a job, at a path without parameters: they need no search through the patterns of all routes. */
function takeLiteral(literals: ReadonlyMap<string, Middleware[]>): Middleware {
  return (ctx, next) => {
    const route = literals.get(`${ctx.method} ${ctx.path}`);
    if (route === undefined) return next();
    ctx.routerPath = ctx.path;
    return route.reduceRight<Next>(
      (later, one) => () => one(ctx, later),
      async () => {},
    )();
  };
}

/** A list has the order in which its middlewares see a request. An undefined handler means that this service lacks the operation. */
function handlersOf(parts: AppParts): Record<OperationId, Middleware | Middleware[] | undefined> {
  const { store, authority, limits, publicUrl, time } = parts;
  const { patience } = parts.intake;
  const shared = {
    ...parts,
    site: { environment: store.identity.environment, publicUrl },
    bodyTimeoutMs: patience.idleTimeoutMs,
    clock: time.date,
    /** The clients that send creates other than lines of a batch. */
    creators: new Presence(),
  };
  const note: Middleware = (ctx, next) => {
    shared.creators.note(callerOf(ctx).viewer.clientId);
    return next();
  };
  const perClientMax = parts.uploadsPerClientMax;
  const create = {
    ...shared,
    keys: new IdempotencyKeys(store),
    capabilities: async (clientId: string, { sealedPdf }: CreateRequest) => {
      const isTold = await store.webhooks.endpoints.isListening(clientId, 'job.completed');
      return [
        'receipt.sha512',
        'receipt.inclusion_proof',
        ...(parts.timestamped?.() ? ['receipt.timestamp'] : []),
        ...(sealedPdf === 'attach' ? ['pdf.attached'] : []),
        ...(isTold ? ['webhook.job.completed'] : []),
      ];
    },
    slots: new Slots({ of: 'uploads', max: parts.uploadsMax, perClientMax, code: 'too_many_uploads' }),
  };
  const documents = {
    ...shared,
    retentionMs: parts.documentRetentionMs,
    downloads: new Slots({ of: 'downloads', max: parts.downloadsMax }),
    patience,
  };
  const rotations = new Slots({ of: 'rotations of API keys', max: KEY_ROTATIONS_MAX });
  return {
    createSealJob: [note, createJob('createSealJob', create)],
    sealDocument: [note, createJob('sealDocument', create)],
    sealForm: [note, createJob('sealForm', create)],
    sealSource: [note, createJob('sealSource', create)],
    createDigestJob: [note, createJob('createDigestJob', create)],
    createDigestBatch: createInBulk({
      ...create,
      batches: new Slots({ of: 'batches', max: parts.batchesMax, code: 'too_many_uploads' }),
      lineSlots: new LineSlots(shared.creators),
    }),
    ...jobHandlers(shared),
    getDocumentCopy: getDocument(documents),
    getSealedPdf: getSealedPdf(documents),
    getSealedPdfSuffix: getSealedPdfSuffix(documents),
    ...webhookHandlers({ ...shared, policy: parts.webhookPolicy }),
    getMe: answerMe({ ...shared, environment: store.identity.environment }),
    rotateKey: [limitRate(limits), limitAtOnce(rotations), rotateOwnKey(shared)],
    createTimestamp: authority && [limitRate(limits), answerTimestampQuery({ ...shared, authority })],
    ...logHandlers({ store, public: parts.logPublic }),
    getOpenapi: serveDescription(() => describeApi(publicUrl), 'public, max-age=300'),
    getErrorIndex: serveErrorIndex,
    getErrorPage: serveErrorPage,
  };
}

function refuseWhileDraining(lifecycle: App['lifecycle']): Middleware {
  return async (ctx, next) => {
    if (lifecycle.draining) {
      ctx.set('Connection', 'close');
      throw new ServiceError('shutting_down', 'The service is being stopped. Repeat the request later.', {
        retryAfterSeconds: 5,
      });
    }
    try {
      await next();
    } finally {
      if (lifecycle.draining) ctx.set('Connection', 'close');
    }
  };
}

/**
 * Requires exactly one Host, and a path as the target. Reduces a target in absolute form to its path (RFC 9112, sections 3.2 and 3.2.2).
 */
const soundTarget: Middleware = (ctx, next) => {
  const { req } = ctx;
  const hosts = req.headersDistinct.host ?? [];
  if (hosts.length > 1 || (hosts.length === 0 && req.httpVersion === '1.1')) {
    throw new ServiceError('invalid_request', 'Host must be sent once.');
  }
  const target = req.url ?? '';
  if (!target.startsWith('/') && target !== '*') {
    const url = URL.parse(target);
    if (!url) {
      throw new ServiceError('invalid_request', 'The request target is not a path or an absolute URL.');
    }
    req.url = url.pathname + url.search;
  }
  return next();
};

/** Answers 404, or 405 if the path supports other methods; `hint` is the remedy in the message. */
export function refuseUnrouted(router: Router<RequestState>, hint: string): Middleware {
  return (ctx) => {
    const { path } = router.match(ctx.path, ctx.method);
    // A path with its own route must not match a parameter of another route, which would then answer 404.
    const own = path.filter((layer) => layer.paramNames.length === 0);
    const allowed = new Set((own.length > 0 ? own : path).flatMap((layer) => layer.methods));
    if (allowed.size === 0) throw new ServiceError('not_found', `There is nothing at this path. ${hint}`);
    const allow = [...allowed].sort().join(', ');
    ctx.set('Allow', allow);
    throw new ServiceError('method_not_allowed', `This path supports ${allow} only.`);
  };
}
