/** Runs the cases of `clients/conformance`: one on each line of the input, and its answer on a line of the output. */
import { createHash } from 'node:crypto';
import { createInterface } from 'node:readline';
import {
  Client,
  JobFailed,
  Refused,
  type SealRequest,
  StillRunning,
  Unreachable,
  verifyWebhook,
  WebhookRefused,
} from '../src/index.ts';

interface Case {
  url: string;
  api_key?: string;
  patience: number;
  do: string;
  with: Record<string, unknown>;
}

async function run(one: Case): Promise<object> {
  const given = camelCased(one.with);
  const { url, api_key: apiKey, patience } = one;
  const client = new Client({ url, ...(apiKey !== undefined && { apiKey }), patienceMs: patience * 1000 });
  const id = String(given.id);
  switch (one.do) {
    case 'create':
      return client.create(requestOf(given));
    case 'seal': {
      const { receipt, ...rest } = await client.seal(requestOf(given));
      return { ...rest, receipt: receipt.content };
    }
    case 'job':
      return { job: await client.job(id) };
    case 'wait':
      return { job: await client.wait(id) };
    case 'receipt': {
      const { bytes, content } = await client.receipt(id);
      return { receipt: content, sha256: createHash('sha256').update(bytes).digest('hex') };
    }
    case 'sealed_pdf':
      return { bytes: (await client.sealedPdf(id)).length };
    case 'jobs': {
      const ids: string[] = [];
      for await (const job of client.jobs(given)) ids.push(job.id);
      return { ids };
    }
    case 'webhook': {
      const { body, headers, secrets } = one.with as {
        body: string;
        headers: Record<string, string>;
        secrets: string[];
      };
      return { type: verifyWebhook(body, headers, secrets).type };
    }
    default:
      throw new Error(`there is no operation ${one.do}`);
  }
}

function requestOf({ document, ...rest }: Record<string, unknown>): SealRequest {
  const isDocument = typeof document === 'string';
  return { ...rest, ...(isDocument && { document: new TextEncoder().encode(document) }) } as SealRequest;
}

function camelCased(values: Record<string, unknown>): Record<string, unknown> {
  const name = (text: string) => text.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
  return Object.fromEntries(Object.entries(values).map(([key, value]) => [name(key), value]));
}

const KINDS = [
  [Refused, 'refused'],
  [Unreachable, 'unreachable'],
  [JobFailed, 'job_failed'],
  [StillRunning, 'still_running'],
  [WebhookRefused, 'webhook_refused'],
] as const;

for await (const line of createInterface({ input: process.stdin })) {
  const answer = await run(JSON.parse(line) as Case).then(
    (gives) => ({ gives }),
    (error: Error) => {
      const [, kind = error.stack] = KINDS.find(([type]) => error instanceof type) ?? [];
      const { code, status } = error as Partial<Refused>;
      return { throws: { kind, code, status } };
    },
  );
  console.log(JSON.stringify(answer));
}
