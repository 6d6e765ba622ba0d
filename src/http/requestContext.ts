import type { Middleware as KoaMiddleware, ParameterizedContext } from 'koa';
import { assert } from '../base/assert.ts';
import type { ErrorCode } from '../base/errors.ts';
import type { Act, ActName, ActObject } from '../manifest/auditRecord.ts';
import type { Viewer } from '../store/store.ts';

/** Who sends a request, by the API key it carries. */
export interface Caller {
  viewer: Viewer;
  /** Public name of the key, `key_…`. */
  keyId: string;
  /** Throws ServiceError `invalid_api_key` if the key is no longer live. */
  confirm(): Promise<void>;
}

/** What is known of a request while it is answered; its log line is made of this. */
export interface RequestState {
  /** `req_…`, unique per request. */
  requestId: string;
  /** 32 lower-case hex characters. */
  traceId: string;
  caller?: Caller;
  jobId?: string;
  errorCode?: ErrorCode;
}

interface RouteParameters {
  params: Record<string, string>;
  /** The pattern of the route that was taken. */
  routerPath?: string;
}

export type RequestContext = ParameterizedContext<RequestState, RouteParameters>;
export type Middleware = KoaMiddleware<RequestState, RouteParameters>;

export const JSON_TYPE = 'application/json; charset=utf-8';

/** The caller of a route that requires an API key. */
export function callerOf(ctx: RequestContext): Caller {
  assert(ctx.state.caller, 'a route without authentication asks for its caller');
  return ctx.state.caller;
}

/** An act of that caller, for the audit trail. */
export function actOfCaller({ viewer, keyId }: Caller, act: ActName, object: ActObject): Act {
  return { act, actor: { via: 'api', client: viewer.clientId, key: keyId }, object, outcome: 'done' };
}
