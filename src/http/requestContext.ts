import type { Middleware as KoaMiddleware, ParameterizedContext } from 'koa';
import { assert } from '../base/assert.ts';
import type { ErrorCode } from '../base/errors.ts';
import type { Act, ActName, ActObject } from '../manifest/auditRecord.ts';
import { actBy } from '../store/acts.ts';
import type { Scope } from '../store/credentialStore.ts';
import type { Viewer } from '../store/store.ts';
import { addressKey } from '../web/connectionLimits.ts';

/** The sender of a request, identified by its API key. */
export interface Caller {
  viewer: Viewer;
  /** The public name of the key, `key_…`. */
  keyId: string;
  scopes: readonly Scope[];
  /** When the key ends, milliseconds since the epoch; absent if only a revocation ends it. */
  expiresAt?: number;
  /** SHA-256 of the client certificate, lower-case hex, if it identified the client instead of a key. */
  certificateSha256?: string;
  /** Throws ServiceError `invalid_api_key` if the key has expired or was revoked. */
  confirm(): Promise<void>;
}

/** The state of a request until it is answered. The log line of the request is written from this state. */
export interface RequestState {
  /** `req_…`, unique per request. */
  requestId: string;
  /** 32 lower-case hex characters. */
  traceId: string;
  caller?: Caller;
  jobId?: string;
  errorCode?: ErrorCode;
}

export interface RouteParameters {
  params: Record<string, string>;
  /** The pattern of the matching route. */
  routerPath?: string;
}

export type RequestContext = ParameterizedContext<RequestState, RouteParameters>;
export type Middleware = KoaMiddleware<RequestState, RouteParameters>;

export const JSON_TYPE = 'application/json; charset=utf-8';

export function answerJson<Body>(ctx: RequestContext, status: number, body: Body): void {
  ctx.status = status;
  ctx.type = JSON_TYPE;
  ctx.body = JSON.stringify(body);
}

/** The caller of a request; the route must require an API key. */
export function callerOf(ctx: RequestContext): Caller {
  assert(ctx.state.caller, 'a route without authentication reads its caller');
  return ctx.state.caller;
}

/**
 * The name under which shares of the service are counted: a client; or an address, if the request is not authenticated. Client names never
 * look like addresses.
 */
export function senderOf({ state, req }: RequestContext): string {
  return state.caller?.viewer.clientId ?? `address ${addressKey(req.socket.remoteAddress)}`;
}

/** An act of this caller, for the audit trail. */
export function actOfCaller(caller: Caller, act: ActName, object: ActObject): Act {
  const { viewer, keyId, certificateSha256: sha256 } = caller;
  const shown = sha256 === undefined ? {} : { certificate_sha256: sha256 };
  const actor = { via: 'api', client: viewer.clientId, key: keyId, ...shown } as const;
  return actBy(actor, act, object);
}
