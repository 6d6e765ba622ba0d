import { randomBytes } from 'node:crypto';
import { STATUS_CODES } from 'node:http';
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { ERROR_KINDS } from '../base/errorKinds.ts';
import type { ErrorCode } from '../base/errors.ts';
import { type Admitted, type RequestError, TUNNEL } from '../web/admission.ts';
import { encodeEnvelope } from './errorResponses.ts';
import { newRequestId } from './observe.ts';
import type { RequestLog } from './requestLog.ts';

/** Time limit for a client to read a refusal and close the connection. */
const LINGER_MS_MAX = 2_000;

interface Refusal {
  code: ErrorCode;
  message: string;
  headers?: string[];
}

const NOT_HTTP: Refusal = { code: 'invalid_request', message: 'The request is not valid HTTP/1.1.' };

const REFUSALS: Readonly<Record<string, Refusal>> = {
  HPE_HEADER_OVERFLOW: { code: 'headers_too_large', message: 'The URL and headers can have at most 16 KiB.' },
  ERR_HTTP_REQUEST_TIMEOUT: {
    code: 'request_timeout',
    message: 'The head of the request did not arrive in time.',
  },
  HPE_INVALID_EOF_STATE: { code: 'incomplete_body', message: 'The request ended too early. Send it again.' },
  [TUNNEL]: {
    code: 'method_not_allowed',
    message: 'This service does not support CONNECT.',
    headers: ['Allow: DELETE, GET, HEAD, PATCH, POST'],
  },
};

/** Answers connections whose bytes never form a request with the error envelope, directly on the socket. */
export function refusingWith(log: RequestLog): NonNullable<Admitted['refuse']> {
  return (error, socket) => {
    if (!socket.writable) return;
    const { code, message, headers = [] } = REFUSALS[error.code ?? ''] ?? NOT_HTTP;
    const requestId = newRequestId();
    const traceId = randomBytes(16).toString('hex');
    const { status } = ERROR_KINDS[code];
    const body = encodeEnvelope(requestId, code, message);
    const head = [
      `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
      'Content-Type: application/json; charset=utf-8',
      `Content-Length: ${Buffer.byteLength(body)}`,
      'Connection: close',
      `Date: ${new Date().toUTCString()}`,
      `X-Request-Id: ${requestId}`,
      `Seal-Trace-Id: ${traceId}`,
      'X-Content-Type-Options: nosniff',
      'Cache-Control: no-store',
      ...headers,
    ];
    socket.on('error', () => {});
    socket.end(`${head.join('\r\n')}\r\n\r\n${isHead(error) ? '' : body}`);
    lingerOn(socket);
    const line = { request_id: requestId, trace_id: traceId, route: 'none', status, error_code: code };
    log.writeStranger(line, socket instanceof Socket ? socket.remoteAddress : undefined);
  };
}

/** Whether the unreadable request is HEAD, as far as its last packet shows: the answer then must not have a body. */
function isHead({ rawPacket, bytesParsed }: RequestError): boolean {
  const read = rawPacket?.toString('latin1', 0, bytesParsed) ?? '';
  const end = read.lastIndexOf('\r\n\r\n');
  return read.startsWith('HEAD ', end === -1 ? 0 : end + 4);
}

/** Discards further bytes, so that unread bytes do not reset the connection before the client reads the refusal. */
function lingerOn(socket: Duplex): void {
  socket.resume();
  const timer = setTimeout(() => socket.destroy(), LINGER_MS_MAX);
  socket.once('close', () => clearTimeout(timer));
}
