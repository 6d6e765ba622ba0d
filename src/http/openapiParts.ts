import type { ErrorCode } from '../base/errors.ts';
import type { Scope } from '../store/store.ts';
import { ERROR_KINDS } from './errorKinds.ts';
import type { Schema } from './openapiSchemas.ts';

type Responses = Record<string, object>;

export const ANY_REQUEST: ErrorCode[] = [
  'invalid_request',
  'incomplete_body',
  'request_timeout',
  'headers_too_large',
  'internal_error',
  'shutting_down',
];
export const KEYED: ErrorCode[] = [...ANY_REQUEST, 'authentication_required', 'invalid_api_key'];
export const SCOPED: ErrorCode[] = [...KEYED, 'insufficient_scope'];

export const EVERY_ANSWER = {
  'X-Request-Id': { $ref: '#/components/headers/X-Request-Id' },
  'Seal-Trace-Id': { $ref: '#/components/headers/Seal-Trace-Id' },
};

export const retryAfter = { 'Retry-After': { ...header('^[0-9]+$', 'Seconds.'), required: false } };
export const cacheHeaders = { 'Cache-Control': header('.', 'How long the answer may be kept.') };

/** Of each item: a string, parameters that are integers, a byte sequence as partition key. */
export const rateLimitHeaders = {
  'RateLimit-Policy': {
    ...header(
      '^"client";q=[0-9]+;w=[0-9]+$|^("client";q=[0-9]+;w=[0-9]+, )?"purpose";q=[0-9]+;w=[0-9]+;pk=:[A-Za-z0-9+/=]+:$',
      'The policies that hold (draft-ietf-httpapi-ratelimit-headers): `client`, requests of this client; `purpose`, jobs of this client against the quota whose name is the partition key. Absent where none holds.',
    ),
    required: false,
  },
  RateLimit: {
    ...header(
      '^"client";r=[0-9]+;t=[0-9]+$|^("client";r=[0-9]+;t=[0-9]+, )?"purpose";r=[0-9]+;t=[0-9]+;pk=:[A-Za-z0-9+/=]+:$',
      'What is left of each, and the seconds within which no more than that can be used.',
    ),
    required: false,
  },
};

/** Headers that belong to a failure of that status. */
const FAILURE_HEADERS: Record<number, object> = {
  400: retryAfter,
  401: { 'WWW-Authenticate': header('^Bearer ', 'RFC 6750, section 3.') },
  403: { 'WWW-Authenticate': header('^Bearer ', 'Names the scope that is missing.') },
  404: retryAfter,
  405: { Allow: header('.', 'The methods of this path.') },
  409: retryAfter,
  429: { 'Retry-After': header('^[0-9]+$', 'Seconds.') },
  503: { 'Retry-After': header('^[0-9]+$', 'Seconds.') },
};

export function secured(scope?: Scope): object {
  return {
    security: [{ apiKey: [] }],
    description: scope ? `Needs the scope \`${scope}\`.` : 'Needs an API key, unless the log is public.',
  };
}

export function ref(name: string): Schema {
  return { $ref: `#/components/schemas/${name}` };
}

export function header(pattern: string, description: string): object {
  return { required: true, description, schema: { type: 'string', pattern } };
}

export function optionalHeader(name: string, schema: Schema, description: string): object {
  return { name, in: 'header', required: false, description, schema };
}

export function json(schema: string, description: string): object {
  return { description, headers: EVERY_ANSWER, content: { 'application/json': { schema: ref(schema) } } };
}

export function file(mediaType: string, description: string): object {
  return { description, headers: { ...EVERY_ANSWER, ...cacheHeaders }, content: { [mediaType]: {} } };
}

/** One response per status, closed over the codes that this operation can answer with. */
export function failures(codes: ErrorCode[], headers: object = {}): Responses {
  const responses: Responses = {};
  for (const [status, group] of Map.groupBy(codes, (code) => ERROR_KINDS[code].status)) {
    responses[status] = {
      description: group.map((code) => `\`${code}\`: ${ERROR_KINDS[code].title}.`).join('\n'),
      headers: { ...EVERY_ANSWER, ...headers, ...FAILURE_HEADERS[status] },
      content: {
        'application/json': {
          schema: {
            ...ref('ErrorEnvelope'),
            properties: { error: { properties: { code: { enum: group } } } },
          },
        },
      },
    };
  }
  return responses;
}

/** How an API tells what it is: the description itself, and the pages of the error codes. For anyone; `codes` may answer any request. */
export function describeItself(codes: ErrorCode[]) {
  return {
    errorCodeParameter: {
      name: 'code',
      in: 'path',
      required: true,
      schema: { type: 'string', enum: Object.keys(ERROR_KINDS) },
    },
    getOpenapi: {
      operationId: 'getOpenapi',
      summary: 'This document',
      security: [],
      responses: {
        200: {
          description: 'OpenAPI 3.1.',
          headers: { ...EVERY_ANSWER, ...cacheHeaders },
          content: {
            'application/json': {
              schema: { type: 'object', required: ['openapi'], properties: { openapi: { type: 'string' } } },
            },
          },
        },
        ...failures(codes),
      },
    },
    getErrorIndex: {
      operationId: 'getErrorIndex',
      summary: 'All error codes, for people',
      security: [],
      responses: { 200: file('text/html', 'A page.'), ...failures(codes) },
    },
    getErrorPage: {
      operationId: 'getErrorPage',
      summary: 'What an error code means, for people; where `doc_url` leads',
      security: [],
      responses: { 200: file('text/html', 'A page.'), ...failures([...codes, 'not_found']) },
    },
  };
}
