import { packageVersion } from '../base/package.ts';
import { describeComponents, describePaths } from './openapiParts.ts';
import { OPERATIONS } from './operations.ts';
import { SCHEMAS } from './schemas.ts';
import { describeWebhooks } from './webhookOperations.ts';
import { WEBHOOK_SCHEMAS } from './webhookSchemas.ts';

const JOBS = { name: 'Jobs', description: 'Documents and digests to seal, and their receipts.' };
const WEBHOOKS = { name: 'Webhooks', description: 'Endpoints that receive the end of jobs.' };
const ABOUT = { name: 'About', description: 'The description of this API, and the meaning of its errors.' };

const KEYS = { name: 'Keys', description: 'The caller and its API key.' };

/** The key is the first segment of the path. */
const TAGS: Readonly<Record<string, { name: string; description: string }>> = {
  jobs: JOBS,
  documents: JOBS,
  forms: JOBS,
  sources: JOBS,
  digests: JOBS,
  batches: JOBS,
  'webhook-endpoints': WEBHOOKS,
  me: KEYS,
  keys: KEYS,
  timestamp: { name: 'Time-stamps', description: 'RFC 3161 time-stamps for other applications.' },
  log: { name: 'Log', description: 'The tamper-evident log, for monitors and auditors.' },
  'openapi.json': ABOUT,
  errors: ABOUT,
};

/** The description of this API by itself, OpenAPI 3.1. `test/support/openapi.ts` checks every answer against this description. */
export function describeApi(publicUrl: string): object {
  const tagOf = (path: string) => TAGS[path.split('/')[1] ?? '']?.name;
  return {
    openapi: '3.1.0',
    info: {
      title: 'pdfseald',
      version: packageVersion(),
      description:
        'Seals PDF documents with an HSM into a tamper-evident log; receipts verify offline. `/v1` only ever gains members: ignore members that you do not know. Nothing is compressed: send bodies without `Content-Encoding`. Over TLS, a client certificate that stands for a client replaces the API key.',
    },
    servers: [{ url: `${publicUrl}/v1` }],
    tags: [...new Set(Object.values(TAGS))],
    paths: describePaths(OPERATIONS, { isRefusing: true, tagOf }),
    webhooks: describeWebhooks(WEBHOOKS.name),
    components: describeComponents({ ...SCHEMAS, ...WEBHOOK_SCHEMAS }),
  };
}
