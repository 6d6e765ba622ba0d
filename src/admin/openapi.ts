import { z } from 'zod';
import type { ErrorCode } from '../base/errors.ts';
import {
  aboutItself,
  describeComponents,
  describePaths,
  file,
  json,
  type Operation,
  queryParameters,
} from '../http/openapiParts.ts';
import { SCHEMAS } from '../http/schemas.ts';
import { ANSWERS } from './statusSchema.ts';

const CHANGE_FAILURES: ErrorCode[] = ['unknown_parameter', 'duplicate_parameter'];

/** By `operationId`. The administration answers while the service is being stopped, too. */
const OPERATIONS = {
  getHealth: {
    method: 'get',
    path: '/healthz',
    summary: 'Whether the process answers at all',
    access: 'anyone',
    answers: { 200: json('Health', 'It does.') },
  },
  getReadiness: {
    method: 'get',
    path: '/readyz',
    summary: 'Whether documents are sealed, part by part',
    access: 'admin:read',
    answers: {
      200: json('Readiness', 'Every part is ready.'),
      503: json('Readiness', 'At least one is not; its `remedy` says what to do.'),
    },
  },
  getStatus: {
    method: 'get',
    path: '/status',
    summary: 'Everything that `pdfseal status` and `doctor` show',
    access: 'admin:read',
    answers: { 200: json('Status', 'How things stand.') },
  },
  getQuotas: {
    method: 'get',
    path: '/quotas',
    summary: 'What each client has used of its rate and its quotas',
    access: 'admin:read',
    answers: {
      200: json('Quotas', 'Clients with limits of their own, and all that used something of one; by name.'),
    },
  },
  getMetrics: {
    method: 'get',
    path: '/metrics',
    summary: 'Metrics for Prometheus',
    access: 'admin:read',
    answers: { 200: file('text/plain', 'The text format, version 0.0.4.') },
  },
  singCanary: {
    method: 'post',
    path: '/canary',
    summary: 'Seal and verify a canary now',
    access: 'admin',
    answers: { 200: json('Run', 'How that went; `verified` may be false.') },
    failures: CHANGE_FAILURES,
  },
  takePartitionOut: {
    method: 'post',
    path: '/partitions/{name}/out',
    summary: 'Take a partition out of service for a time',
    access: 'admin',
    parameters: queryParameters({
      for: z
        .string()
        .default('30s')
        .describe('A duration of 1h at most, after which it goes back by itself.'),
      below_quorum: z.boolean().default(false).describe('Whether also where too few would be left.'),
    }),
    answers: { 200: json('Partition', 'The partition, withdrawn.') },
    failures: [...CHANGE_FAILURES, 'invalid_parameter', 'not_found', 'partition_not_ready', 'below_quorum'],
  },
  putPartitionIn: {
    method: 'post',
    path: '/partitions/{name}/in',
    summary: 'Put a partition back into service',
    access: 'admin',
    answers: { 200: json('Partition', 'The partition; it may take a moment until it signs.') },
    failures: [...CHANGE_FAILURES, 'not_found'],
  },
  ...aboutItself('/v1/errors'),
} satisfies Record<string, Operation>;

/** The live description of the administration, OpenAPI 3.1. `test/support/openapi.ts` holds every answer to it. */
export function describeAdministration(): object {
  return {
    openapi: '3.1.0',
    info: {
      title: 'pdfseald, administration',
      version: '1.0.0',
      description:
        'How the daemon is, and drills. On a Unix socket whoever may open it may read. On a loopback address that takes an API key with the scope `admin:read`, and `Host` must name that address. What changes something takes an identity: a user whom the kernel names, or an API key with the scope `admin`. Ignore members you do not know.',
    },
    servers: [{ url: '/' }],
    paths: describePaths(OPERATIONS, { isRefusing: false }),
    components: describeComponents({
      ...ANSWERS,
      Error: SCHEMAS.Error,
      ErrorEnvelope: SCHEMAS.ErrorEnvelope,
    }),
  };
}
