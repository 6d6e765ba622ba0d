/** Makes OpenAPI 3.1 of a table of operations, which is what requests are routed by too. */
import { z } from 'zod';
import type { ErrorCode } from '../base/errors.ts';
import type { Scope } from '../store/store.ts';
import { ERROR_CODES, ERROR_KINDS } from './errorKinds.ts';

/** A schema of JSON Schema 2020-12, as OpenAPI 3.1 uses it. */
type Schema = Record<string, unknown>;

/** A header of an answer. */
export interface Header {
  description: string;
  required: boolean;
  schema: Schema;
}

export interface DescribedAnswer {
  description: string;
  headers?: Record<string, Header>;
  /** By media type. */
  content?: Record<string, { schema?: Schema }>;
}

/** A request that is answered. Its key in the table is its `operationId`. */
export interface Operation {
  method: 'get' | 'post' | 'patch' | 'delete';
  /** Parameters in braces; below the path of the server. */
  path: string;
  summary: string;
  description?: string;
  /** Who may ask: a key with this scope; any key, unless the log is public; anyone. */
  access: Scope | 'log' | 'anyone';
  /** Whether its answers tell what is left of the limits of the client. */
  isLimited?: boolean;
  parameters?: object[];
  requestBody?: object;
  answers: Record<number, DescribedAnswer>;
  /** Beside those that any request can fail with. */
  failures?: ErrorCode[];
}

const HEADERS = {
  'X-Request-Id': header('^req_[0-9A-Za-z]+$', 'Unique per request; `request_id` of the error envelope.'),
  'Seal-Trace-Id': header(
    '^[0-9a-f]{32}$',
    'Correlation id, lent from a valid W3C `traceparent` or made here.',
  ),
};
const EVERY_ANSWER = Object.fromEntries(
  Object.keys(HEADERS).map((name) => [name, { $ref: `#/components/headers/${name}` }]),
);

export const RETRY_AFTER = { 'Retry-After': optional(header('^[0-9]+$', 'Seconds.')) };
const RETRY_AFTER_ALWAYS = { 'Retry-After': header('^[0-9]+$', 'Seconds.') };
export const CACHE_CONTROL = { 'Cache-Control': header('.', 'How long the answer may be kept.') };

/** Of each item: a string, parameters that are integers, a byte sequence as partition key. */
const RATE_LIMITS = {
  'RateLimit-Policy': optional(
    header(
      '^"client";q=[0-9]+;w=[0-9]+$|^("client";q=[0-9]+;w=[0-9]+, )?"purpose";q=[0-9]+;w=[0-9]+;pk=:[A-Za-z0-9+/=]+:$',
      'The policies that hold (draft-ietf-httpapi-ratelimit-headers): `client`, requests of this client; `purpose`, jobs of this client against the quota whose name is the partition key. Absent where none holds.',
    ),
  ),
  RateLimit: optional(
    header(
      '^"client";r=[0-9]+;t=[0-9]+$|^("client";r=[0-9]+;t=[0-9]+, )?"purpose";r=[0-9]+;t=[0-9]+;pk=:[A-Za-z0-9+/=]+:$',
      'What is left of each, and the seconds within which no more than that can be used.',
    ),
  ),
};

/** Headers that belong to a failure of that status. */
const FAILURE_HEADERS: Record<number, object> = {
  400: RETRY_AFTER,
  401: { 'WWW-Authenticate': header('^Bearer ', 'RFC 6750, section 3.') },
  403: { 'WWW-Authenticate': header('^Bearer ', 'Names the scope that is missing.') },
  404: RETRY_AFTER,
  405: { Allow: header('.', 'The methods of this path.') },
  409: RETRY_AFTER,
  429: RETRY_AFTER_ALWAYS,
  503: RETRY_AFTER_ALWAYS,
};

/** Codes of failures that any request can meet, by what it takes to be let in. */
const ANY_REQUEST: ErrorCode[] = [
  'invalid_request',
  'incomplete_body',
  'request_timeout',
  'headers_too_large',
  'internal_error',
  'shutting_down',
];
const KEYED: ErrorCode[] = ['authentication_required', 'invalid_api_key'];

/** Every kind of parameter that a path has. */
const PATH_PARAMETERS: Readonly<Record<string, { description?: string; schema: Schema }>> = {
  job_id: { schema: { type: 'string', pattern: '^job_[A-Za-z0-9]+$' } },
  endpoint_id: { schema: { type: 'string', pattern: '^we_[0-9a-f]{32}$' } },
  path: {
    description:
      '`<L>/<N>[.p/<W>]` or `entries/<N>[.p/<W>]` (C2SP tlog-tiles); its slashes may be sent as they are, or as %2F.',
    schema: { type: 'string' },
  },
  code: { schema: { type: 'string', enum: ERROR_CODES } },
  name: { description: 'A region, or `<region>%2F<key label>`.', schema: { type: 'string' } },
};

/** `paths` of the description. `isRefusing`: whether requests are refused while the service is being stopped. */
export function describePaths(
  operations: Readonly<Record<string, Operation>>,
  { isRefusing, tagOf }: { isRefusing: boolean; tagOf?(path: string): string | undefined },
): Record<string, object> {
  const paths: Record<string, object> = {};
  const anyone = ANY_REQUEST.filter((code) => isRefusing || code !== 'shutting_down');
  for (const [operationId, operation] of Object.entries(operations)) {
    const { path, method } = operation;
    const tag = tagOf?.(path);
    const described = { ...(tag && { tags: [tag] }), operationId, ...describe(operation, anyone) };
    paths[path] = { ...parametersOf(path), ...paths[path], [method]: described };
  }
  return paths;
}

function describe(operation: Operation, anyone: ErrorCode[]): object {
  const { summary, access, description, parameters, requestBody, isLimited, answers } = operation;
  const headers = { ...EVERY_ANSWER, ...(isLimited && RATE_LIMITS) };
  const answered = Object.entries(answers).map(([status, answer]) => [
    status,
    { ...answer, headers: { ...headers, ...answer.headers } },
  ]);
  const needs = access === 'anyone' ? undefined : describeAccess(access);
  const all = [description, needs].filter((text) => text !== undefined).join(' ');
  return {
    summary,
    ...(all !== '' && { description: all }),
    security: access === 'anyone' ? [] : [{ apiKey: [] }],
    ...(parameters && { parameters }),
    ...(requestBody && { requestBody }),
    responses: { ...failures(codesOf(operation, anyone), headers), ...Object.fromEntries(answered) },
  };
}

function describeAccess(access: Scope | 'log'): string {
  return access === 'log' ? 'Needs an API key, unless the log is public.' : `Needs the scope \`${access}\`.`;
}

function codesOf({ access, failures: own = [] }: Operation, anyone: ErrorCode[]): ErrorCode[] {
  if (access === 'anyone') return [...anyone, ...own];
  return [...anyone, ...KEYED, ...(access === 'log' ? [] : (['insufficient_scope'] as const)), ...own];
}

/** One response per status, closed over the codes that the operation can answer with. */
function failures(codes: ErrorCode[], headers: object): Record<string, object> {
  const responses: Record<string, object> = {};
  for (const [status, group] of Map.groupBy(codes, (code) => ERROR_KINDS[code].status)) {
    responses[status] = {
      description: group.map((code) => `\`${code}\`: ${ERROR_KINDS[code].title}.`).join('\n'),
      headers: { ...headers, ...FAILURE_HEADERS[status] },
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

function parametersOf(path: string): { parameters?: object[] } {
  const names = Array.from(path.matchAll(/\{(\w+)\}/g), ([, name = '']) => name);
  if (names.length === 0) return {};
  return {
    parameters: names.map((name) => ({ name, in: 'path', required: true, ...PATH_PARAMETERS[name] })),
  };
}

/** `components` of the description. Schemas refer to each other where one of them is part of another. */
export function describeComponents(schemas: Readonly<Record<string, z.ZodType>>): object {
  const registry = z.registry<{ id: string }>();
  for (const [id, schema] of Object.entries(schemas)) registry.add(schema, { id });
  const { schemas: converted } = z.toJSONSchema(registry, { ...CONVERSION, uri: (id) => ref(id).$ref });
  return {
    schemas: Object.fromEntries(
      Object.entries(converted).map(([name, { $schema: _, $id: __, ...schema }]) => [name, schema]),
    ),
    headers: HEADERS,
    securitySchemes: { apiKey: { type: 'http', scheme: 'bearer', bearerFormat: 'seal_<environment>_…' } },
  };
}

/** Bounds that hold for every number, and patterns beside a format that says the same, are left out. */
const CONVERSION: Parameters<typeof z.toJSONSchema>[1] = {
  io: 'input',
  override: ({ zodSchema, jsonSchema }) => {
    const isDeclared = z.globalRegistry.get(zodSchema)?.maximum !== undefined;
    if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER && !isDeclared) delete jsonSchema.maximum;
    if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
    if (jsonSchema.format !== undefined) delete jsonSchema.pattern;
  },
};

export function ref(name: string): { $ref: string } {
  return { $ref: `#/components/schemas/${name}` };
}

export function header(pattern: string, description: string): Header {
  return { required: true, description, schema: { type: 'string', pattern } };
}

/** A header that is not in every answer. */
export function optional(sometimes: Header): Header {
  return { ...sometimes, required: false };
}

export function headerParameter(name: string, description: string, bounds: Schema = {}): object {
  return { name, in: 'header', required: false, description, schema: { type: 'string', ...bounds } };
}

/** Each schema as a parameter of the query. */
export function queryParameters(
  schemas: Readonly<Record<string, z.ZodType>>,
  description?: string,
): object[] {
  return Object.entries(schemas).map(([name, schema]) => {
    const { $schema: _, ...converted } = z.toJSONSchema(schema, CONVERSION);
    return { name, in: 'query', ...(description && { description }), schema: converted };
  });
}

export function jsonBody(schema: string, required = true): object {
  return { required, content: { 'application/json': { schema: ref(schema) } } };
}

export function json(
  schema: string,
  description: string,
  headers: Record<string, Header> = {},
): DescribedAnswer {
  return { description, headers, content: { 'application/json': { schema: ref(schema) } } };
}

export function file(
  mediaType: string,
  description: string,
  headers: Record<string, Header> = {},
): DescribedAnswer {
  return { description, headers: { ...CACHE_CONTROL, ...headers }, content: { [mediaType]: {} } };
}

/** How an API tells what it is: the description itself, and the pages of the error codes, below `errors`. */
export function aboutItself<Path extends string>(errors: Path) {
  return {
    getOpenapi: {
      method: 'get',
      path: '/openapi.json',
      summary: 'This document',
      access: 'anyone',
      answers: {
        200: {
          description: 'OpenAPI 3.1.',
          headers: CACHE_CONTROL,
          content: {
            'application/json': {
              schema: { type: 'object', required: ['openapi'], properties: { openapi: { type: 'string' } } },
            },
          },
        },
      },
    },
    getErrorIndex: {
      method: 'get',
      path: errors,
      summary: 'All error codes, for people',
      access: 'anyone',
      answers: { 200: file('text/html', 'A page.') },
    },
    getErrorPage: {
      method: 'get',
      path: `${errors}/{code}`,
      summary: 'What an error code means, for people; where `doc_url` leads',
      access: 'anyone',
      answers: { 200: file('text/html', 'A page.') },
      failures: ['not_found'],
    },
  } satisfies Record<string, Operation>;
}
