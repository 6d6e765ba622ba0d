import * as z from 'zod';
import type { ErrorCode } from '../base/errors.ts';
import { ROLES } from '../base/people.ts';
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
import { RENEWAL_DIGESTS } from '../store/renewalStore.ts';
import { ANSWERS } from './answers.ts';

const CHANGE_FAILURES: ErrorCode[] = ['unknown_parameter', 'duplicate_parameter'];

const change = { method: 'post', access: 'admin', failures: CHANGE_FAILURES } as const;

const WITNESS = {
  witness: z
    .string()
    .optional()
    .describe(
      'Its name in the policy. Not needed where the policy has only one witness, or only one without a URL.',
    ),
};
const WITNESS_FAILURES: ErrorCode[] = ['invalid_parameter', 'missing_parameter', 'not_found'];

const OWNERS_ONLY =
  'On the Unix socket, by root and the user of the daemon only: an API key does not suffice.';

/** The key is the `operationId`. The administration also answers while the service is being stopped. */
const OPERATIONS = {
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
  getStatus: {
    method: 'get',
    path: '/status',
    summary: 'Everything that `pdfseal status` and `doctor` show',
    access: 'admin:read',
    answers: { 200: json('Status', 'The status of the daemon.') },
  },
  getQuotas: {
    method: 'get',
    path: '/quotas',
    summary: 'List what each client has used of its rate and its quotas',
    access: 'admin:read',
    answers: {
      200: json('Quotas', 'All clients that have their own limits or have used part of a limit, by name.'),
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
    ...change,
    path: '/canary',
    summary: 'Seal and verify a canary now',
    answers: { 200: json('Run', 'The result of the run; `verified` can be false.') },
  },
  takePartitionOut: {
    ...change,
    path: '/partitions/{name}/out',
    summary: 'Take a partition out of service for a time',
    parameters: queryParameters({
      for: z
        .string()
        .default('30s')
        .describe('A duration of at most 1h, after which the partition returns by itself.'),
      below_quorum: z
        .boolean()
        .default(false)
        .describe('Take the partition out even if too few partitions are left to sign.'),
    }),
    answers: { 200: json('Partition', 'The partition, withdrawn.') },
    failures: [
      ...CHANGE_FAILURES,
      'invalid_parameter',
      'not_found',
      'partition_not_ready',
      'below_quorum',
      'storage_full',
    ],
  },
  putPartitionIn: {
    ...change,
    path: '/partitions/{name}/in',
    summary: 'Put a partition back into service',
    answers: { 200: json('Partition', 'The partition; it can take a moment until it signs.') },
    failures: [...CHANGE_FAILURES, 'not_found', 'storage_full'],
  },
  requestCosignature: {
    ...change,
    path: '/witness/request',
    summary: 'Get the newest checkpoint for a witness, to be transferred by file',
    description:
      'The checkpoint is kept until its answer comes. The witnesses on the network are asked to cosign it first.',
    parameters: queryParameters({
      ...WITNESS,
      tree_size: z
        .int()
        .min(0)
        .optional()
        .describe('Repeat the request for the checkpoint of that size, which another witness was given.'),
    }),
    answers: { 200: json('WitnessRequest', 'The request.') },
    failures: [...CHANGE_FAILURES, ...WITNESS_FAILURES, 'storage_full'],
  },
  acceptCosignature: {
    ...change,
    path: '/witness/answer',
    summary: 'Accept the answer of a witness that was transferred by file',
    description:
      'Without `raise_fork_alarm=true`, the answer that the witness holds another history of the log is refused, and changes nothing: nothing signs such an answer.',
    parameters: queryParameters({
      ...WITNESS,
      raise_fork_alarm: z
        .boolean()
        .optional()
        .describe(
          'You have made sure that this is the answer of the witness to the unchanged request: if it is a contradiction, raise the fork alarm. Default: false.',
        ),
    }),
    requestBody: { required: true, content: { 'text/plain': { schema: { type: 'string' } } } },
    answers: { 200: json('WitnessOutcome', 'What the answer says.') },
    failures: [...CHANGE_FAILURES, ...WITNESS_FAILURES, 'body_timeout', 'body_too_large', 'storage_full'],
  },
  acceptClock: {
    ...change,
    path: '/clock/accept',
    summary: 'Trust a date that is more than a day ahead',
    description:
      'With `clock.trust = "system"`, the clock is not trusted while it is more than 24 hours ahead of the last trusted date and the time since.',
    answers: { 200: json('AcceptedDate', 'The date that was expected, and the one that is trusted now.') },
    failures: [...CHANGE_FAILURES, 'invalid_request', 'not_found', 'storage_full'],
  },
  stampRenewal: {
    ...change,
    path: '/timestamp',
    summary: 'Get a time-stamp over the root of a renewal',
    description: '`pdfseal renew` asks for it. The time-stamp is verified before it is answered.',
    parameters: queryParameters({
      digest: z.string().describe('The digest to stamp, in hexadecimal.'),
      algorithm: z.enum(RENEWAL_DIGESTS).default('sha512').describe('The hash function of the digest.'),
      authority: z.string().describe('Its name in `timestamp.authorities`.'),
    }),
    answers: { 200: json('RenewalStamp', 'The time-stamp.') },
    failures: [
      ...CHANGE_FAILURES,
      'invalid_parameter',
      'missing_parameter',
      'not_found',
      'too_many_requests',
      'queue_full',
      'timestamp_unavailable',
    ],
  },
  linkConsole: {
    ...change,
    path: '/console/link',
    summary: 'Make a one-time link to the console for a person',
    description: OWNERS_ONLY,
    parameters: queryParameters({
      name: z.string().describe('The person for whom the link is: acts are recorded with this name.'),
      role: z.enum(ROLES).describe('What this person may do.'),
    }),
    answers: { 200: json('ConsoleLink', 'The link, which is nowhere else.') },
    failures: [...CHANGE_FAILURES, 'invalid_parameter', 'not_found', 'storage_full'],
  },
  endConsoleSessions: {
    ...change,
    path: '/console/logout',
    summary: 'End all sessions of the console and all links to it, or those of one person',
    description: OWNERS_ONLY,
    parameters: queryParameters({
      name: z
        .string()
        .optional()
        .describe('The person whose sessions and links are ended. Default: all people.'),
    }),
    answers: { 200: json('ConsoleLogout', 'They are ended.') },
    failures: [...CHANGE_FAILURES, 'invalid_parameter', 'not_found', 'storage_full'],
  },
  ...aboutItself('/v1/errors'),
} satisfies Record<string, Operation>;

/** The live description of the administration, OpenAPI 3.1. `test/support/openapi.ts` checks every answer against this description. */
export function describeAdministration(): object {
  return {
    openapi: '3.1.0',
    info: {
      title: 'pdfseald, administration',
      version: '1.0.0',
      description:
        'The status of the daemon, and drills. On a Unix socket, every user who can open the socket can read. On a loopback address, reading requires an API key with the scope `admin:read`, and `Host` must name that address. Changes require an identity: the user whom the kernel reports, or an API key with the scope `admin`. Ignore members that you do not know.',
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
