import { z } from 'zod';
import type { ErrorCode } from '../base/errors.ts';
import { ANY_REQUEST, describeItself, failures, file, header, json, secured } from '../http/openapiParts.ts';
import { SCHEMAS, type Schema } from '../http/openapiSchemas.ts';
import { ANSWERS } from './statusSchema.ts';

/** It answers while the service is being stopped, too. */
const ANY = ANY_REQUEST.filter((code) => code !== 'shutting_down');
const READ: ErrorCode[] = [...ANY, 'authentication_required', 'invalid_api_key', 'insufficient_scope'];
const CHANGE: ErrorCode[] = [...READ, 'unknown_parameter', 'duplicate_parameter'];

/** The live description of the administration, OpenAPI 3.1. `test/support/openapi.ts` holds every answer to it. */
export function describeAdministration(): object {
  const answers = Object.fromEntries(
    Object.entries(ANSWERS).map(([name, schema]) => [name, toSchema(schema)]),
  );
  return {
    openapi: '3.1.0',
    info: {
      title: 'pdfseald, administration',
      version: '1.0.0',
      description:
        'How the daemon is, and drills. On a Unix socket whoever may open it may read. On a loopback address that takes an API key with the scope `admin:read`, and `Host` must name that address. What changes something takes an identity: a user whom the kernel names, or an API key with the scope `admin`. Ignore members you do not know.',
    },
    servers: [{ url: '/' }],
    paths: {
      '/healthz': { get: getHealth },
      '/readyz': { get: getReadiness },
      '/status': { get: getStatus },
      '/quotas': { get: getQuotas },
      '/metrics': { get: getMetrics },
      '/canary': { post: singCanary },
      '/partitions/{name}/out': { parameters: [partitionName], post: takePartitionOut },
      '/partitions/{name}/in': { parameters: [partitionName], post: putPartitionIn },
      '/openapi.json': { get: getOpenapi },
      '/v1/errors': { get: getErrorIndex },
      '/v1/errors/{code}': { parameters: [errorCodeParameter], get: getErrorPage },
    },
    components: {
      schemas: { ...answers, Error: SCHEMAS.Error, ErrorEnvelope: SCHEMAS.ErrorEnvelope },
      headers: {
        'X-Request-Id': header(
          '^req_[0-9A-Za-z]+$',
          'Unique per request; `request_id` of the error envelope.',
        ),
        'Seal-Trace-Id': header(
          '^[0-9a-f]{32}$',
          'Correlation id, lent from a valid W3C `traceparent` or made here.',
        ),
      },
      securitySchemes: { apiKey: { type: 'http', scheme: 'bearer', bearerFormat: 'seal_<environment>_…' } },
    },
  };
}

/** As OpenAPI 3.1 has it. Whoever reads an answer is to ignore members he does not know, so none are excluded. */
function toSchema(schema: z.ZodType): Schema {
  const { $schema: _, ...converted } = z.toJSONSchema(schema, {
    io: 'input',
    override: ({ jsonSchema }) => {
      if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
      if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
      if (jsonSchema.format !== undefined) delete jsonSchema.pattern;
    },
  });
  return converted;
}

const partitionName = {
  name: 'name',
  in: 'path',
  required: true,
  description: 'A region, or `<region>%2F<key label>`.',
  schema: { type: 'string' },
};
const { getOpenapi, getErrorIndex, getErrorPage, errorCodeParameter } = describeItself(ANY);

const getHealth = {
  operationId: 'getHealth',
  summary: 'Whether the process answers at all',
  responses: { 200: json('Health', 'It does.'), ...failures(ANY) },
};

const getReadiness = {
  operationId: 'getReadiness',
  summary: 'Whether documents are sealed, part by part',
  ...secured('admin:read'),
  responses: {
    200: json('Readiness', 'Every part is ready.'),
    ...failures(READ),
    503: json('Readiness', 'At least one is not; its `remedy` says what to do.'),
  },
};

const getStatus = {
  operationId: 'getStatus',
  summary: 'Everything that `pdfseal status` and `doctor` show',
  ...secured('admin:read'),
  responses: { 200: json('Status', 'How things stand.'), ...failures(READ) },
};

const getQuotas = {
  operationId: 'getQuotas',
  summary: 'What each client has used of its rate and its quotas',
  ...secured('admin:read'),
  responses: {
    200: json('Quotas', 'Clients with limits of their own, and all that used something of one; by name.'),
    ...failures(READ),
  },
};

const getMetrics = {
  operationId: 'getMetrics',
  summary: 'Metrics for Prometheus',
  ...secured('admin:read'),
  responses: { 200: file('text/plain', 'The text format, version 0.0.4.'), ...failures(READ) },
};

const singCanary = {
  operationId: 'singCanary',
  summary: 'Seal and verify a canary now',
  ...secured('admin'),
  responses: { 200: json('Run', 'How that went; `verified` may be false.'), ...failures(CHANGE) },
};

const takePartitionOut = {
  operationId: 'takePartitionOut',
  summary: 'Take a partition out of service for a time',
  ...secured('admin'),
  parameters: [
    {
      name: 'for',
      in: 'query',
      description: 'A duration of 1h at most, after which it goes back by itself.',
      schema: { type: 'string', default: '30s' },
    },
    {
      name: 'below_quorum',
      in: 'query',
      description: 'Whether also where too few would be left.',
      schema: { type: 'boolean', default: false },
    },
  ],
  responses: {
    200: json('Partition', 'The partition, withdrawn.'),
    ...failures([...CHANGE, 'invalid_parameter', 'not_found', 'partition_not_ready', 'below_quorum']),
  },
};

const putPartitionIn = {
  operationId: 'putPartitionIn',
  summary: 'Put a partition back into service',
  ...secured('admin'),
  responses: {
    200: json('Partition', 'The partition; it may take a moment until it signs.'),
    ...failures([...CHANGE, 'not_found']),
  },
};
