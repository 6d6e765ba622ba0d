import * as z from 'zod';
import type { ErrorCode } from '../base/errors.ts';
import { statusSchema } from '../health/statusSchema.ts';
import {
  aboutItself,
  BUSY_FAILURES,
  describeComponents,
  describePaths,
  file,
  inlineSchema,
  JSON_FAILURES,
  json,
  type Operation,
  QUERY_FAILURES,
} from '../http/openapiParts.ts';
import { SCHEMAS } from '../http/schemas.ts';
import { type AnyOperation, type Field, isRequired } from '../ops/operation.ts';
import { ADMIN_OPERATIONS } from '../ops/operationTable.ts';

/** Requests of programs that watch the daemon. Not operations: nobody does anything with them. */
const PROBES = {
  getHealth: {
    method: 'get',
    path: '/healthz',
    summary: 'Check that the process answers',
    access: 'anyone',
    answers: { 200: json('Health', 'It does.') },
  },
  getReadiness: {
    method: 'get',
    path: '/readyz',
    summary: 'Check that the service seals documents, part by part',
    access: 'admin:read',
    answers: {
      200: json('Readiness', 'Every part is ready.'),
      503: json('Readiness', 'At least one part is not ready; its `remedy` says what to do.'),
    },
  },
  getMetrics: {
    method: 'get',
    path: '/metrics',
    summary: 'Metrics for Prometheus',
    access: 'admin:read',
    answers: { 200: file('text/plain', 'The text format, version 0.0.4.') },
  },
} satisfies Record<string, Operation>;

const PROBE_ANSWERS = {
  Health: z.object({ alive: z.literal(true) }),
  Readiness: statusSchema.pick({ ready: true, parts: true }),
};

/** Every request of the administration, by its `operationId`. */
export function requestsOfAdministration(): Record<string, Operation> {
  const operations = Object.fromEntries(ADMIN_OPERATIONS.map((one) => [one.route.id, describe(one)]));
  return { ...PROBES, ...operations, ...aboutItself('/v1/errors') };
}

/** The live description of the administration, OpenAPI 3.1. `test/support/openapi.ts` checks every answer against this description. */
export function describeAdministration(): object {
  const answers = ADMIN_OPERATIONS.map(({ answer }) => [answer.name, answer.schema]);
  return {
    openapi: '3.1.0',
    info: {
      title: 'pdfseald, administration',
      version: '1.0.0',
      description:
        'What an administrator can do with the daemon. On a Unix socket, every user who can open the socket can read. On a loopback address, reading requires an API key with the scope `admin:read`, and `Host` must name that address. Changes require an identity: the user whom the kernel reports, or an API key with the scope `admin`. Ignore members that you do not know.',
    },
    servers: [{ url: '/' }],
    // The administration also answers while the service is being stopped.
    paths: describePaths(requestsOfAdministration(), { isRefusing: false }),
    components: describeComponents({
      ...PROBE_ANSWERS,
      ...Object.fromEntries(answers),
      Error: SCHEMAS.Error,
      ErrorEnvelope: SCHEMAS.ErrorEnvelope,
    }),
  };
}

const OWNERS_ONLY =
  'On the Unix socket, by root and the user of the daemon only: an API key does not suffice.';

function describe(one: AnyOperation): Operation {
  const { says, explains, route, role, fields, answer } = one;
  const { method, path, sends = 'query' } = route;
  const all = Object.entries(fields).map(([name, field]) => ({ name, field, at: placeOf(name, route) }));
  const inBody = all.filter(({ at }) => at === 'body').map(({ name, field }) => [name, described(field)]);
  const description = [explains, role === 'owner' ? OWNERS_ONLY : undefined].filter(
    (text) => text !== undefined,
  );
  const body =
    sends === 'json'
      ? {
          required: all.some(({ at, field }) => at === 'body' && isRequired(field)),
          content: {
            'application/json': { schema: inlineSchema(z.strictObject(Object.fromEntries(inBody))) },
          },
        }
      : { required: true, content: { 'text/plain': { schema: { type: 'string' } } } };
  return {
    method,
    path,
    summary: says.replace(/\.$/, ''),
    ...(description.length > 0 && { description: description.join(' ') }),
    access: role === 'reader' ? 'admin:read' : 'admin',
    parameters: all.flatMap(({ name, field, at }) =>
      at === 'body'
        ? []
        : [
            {
              name,
              in: at,
              required: at === 'path' || isRequired(field),
              description: sentence(field.says),
              schema: inlineSchema(field.schema),
            },
          ],
    ),
    ...(inBody.length > 0 && { requestBody: body }),
    answers: { 200: json(answer.name, answer.says) },
    failures: [...new Set(failuresOf(one))],
  };
}

function placeOf(
  name: string,
  { method, path, sends = 'query' }: AnyOperation['route'],
): 'path' | 'query' | 'body' {
  if (path.includes(`{${name}}`)) return 'path';
  if (method === 'get') return 'query';
  return sends === 'json' || (sends !== 'query' && sends.text === name) ? 'body' : 'query';
}

function failuresOf({ route, needs, acts, fields }: AnyOperation): ErrorCode[] {
  const { method, path, sends = 'query', atOnce, failures = [] } = route;
  const all = Object.entries(fields);
  // A place in the path, and a body of text, always have a value.
  const places = all.filter(([, field]) => isRequired(field)).map(([name]) => placeOf(name, route));
  const canLack = places.some((at) => at === 'query' || (at === 'body' && sends === 'json'));
  return [
    ...(method === 'post' || all.length > 0 ? QUERY_FAILURES : []),
    ...(sends === 'json' ? JSON_FAILURES : []),
    ...(typeof sends === 'object' ? (['body_timeout', 'body_too_large'] as const) : []),
    ...(canLack ? (['missing_parameter'] as const) : []),
    // A front has no operations on the store.
    ...(needs === 'store' || path.includes('{') ? (['not_found'] as const) : []),
    ...(acts.length === 0 ? [] : (['storage_full'] as const)),
    ...(atOnce === undefined ? [] : BUSY_FAILURES),
    ...failures,
  ];
}

function described({ says, schema }: Field): z.ZodType {
  return schema.describe(sentence(says));
}

/** A sentence from the phrase of a field. */
function sentence(phrase: string): string {
  return `${phrase.charAt(0).toUpperCase()}${phrase.slice(1)}.`;
}
