import type { Socket } from 'node:net';
import type { ErrorCode } from '../base/errors.ts';
import { newUuid } from '../base/uuid.ts';
import type { Middleware, RequestContext } from './requestContext.ts';
import type { RequestLog } from './requestLog.ts';
import { traceIdOf } from './trace.ts';

/** `req_` and a UUIDv7: the value of `X-Request-Id`, of `request_id` in the envelope, and of `request_id` in the log. */
export function newRequestId(): string {
  return `req_${newUuid()}`;
}

export interface AnsweredRequest {
  method: string;
  /** The pattern of the route; `none` if no route matches. */
  route: string;
  status: number;
  durationMs: number;
  /** The error code of the envelope, if the request failed. */
  errorCode?: ErrorCode;
}

/** Sets the ids of every request and the fixed headers of every answer, and logs one line for each answered request. */
export function observe(
  log: Pick<RequestLog, 'write' | 'writeStranger'>,
  onRequest?: (request: AnsweredRequest) => void,
): Middleware {
  return async (ctx, next) => {
    const startedAt = performance.now();
    const { req, res, state } = ctx;
    state.requestId = newRequestId();
    state.traceId = traceIdOf(req.headersDistinct.traceparent);
    res.setHeader('X-Request-Id', state.requestId);
    res.setHeader('Seal-Trace-Id', state.traceId);
    res.setHeader('X-Content-Type-Options', 'nosniff');
    res.setHeader('Cache-Control', 'no-store');
    await next();
    const durationMs = performance.now() - startedAt;
    // The pattern, never the URL: the URL can contain a customer's reference.
    const route = ctx.routerPath ?? 'none';
    const { errorCode } = state;
    const { method, status } = ctx;
    onRequest?.({ method, route, status, durationMs, errorCode });
    const line = {
      ...requestIds(ctx),
      method,
      route,
      status,
      duration_ms: Math.round(durationMs * 10) / 10,
      bytes_in: bytesSinceLastRequest(req.socket),
      error_code: errorCode,
      ...(req.socket.destroyed && { client_gone: true }),
    };
    if (state.caller) log.write(line);
    else log.writeStranger(line, req.socket.remoteAddress);
  };
}

/** The members of every log line about a request. */
export function requestIds({ state }: RequestContext): Record<string, string | undefined> {
  return {
    request_id: state.requestId,
    trace_id: state.traceId,
    job_id: state.jobId,
    ...(state.caller && { client_id: state.caller.viewer.clientId, key_id: state.caller.keyId }),
    ...(state.caller?.certificateSha256 && { certificate_sha256: state.caller.certificateSha256 }),
  };
}

const countedBytes = new WeakMap<Socket, number>();

/** Bytes received on the connection since the last call, heads included. */
function bytesSinceLastRequest(socket: Socket): number {
  const bytes = socket.bytesRead - (countedBytes.get(socket) ?? 0);
  countedBytes.set(socket, socket.bytesRead);
  return bytes;
}
