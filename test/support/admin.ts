import { type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { ApiCheck, type ApiDescription } from './openapi.ts';
import type { Sandbox } from './sandbox.ts';

export interface AdminAnswer {
  status: number;
  type: string;
  headers: Headers;
  text: string;
  json<T = Record<string, unknown>>(): T;
}

type Place = { socketPath: string } | { host: string; port: number };

/** Asks the administration of a sandbox, at the socket that a configuration without `admin.listen` has. */
export function askAdmin(
  sandbox: Sandbox,
  path: string,
  method: 'GET' | 'POST' = 'GET',
): Promise<AdminAnswer> {
  return askAdminAt({ socketPath: join(sandbox.dir, 'state', 'admin.sock') }, path, method);
}

const checks = new Map<string, ApiCheck>();

/** Asks the administration of a daemon, and holds its answer to the document that it serves. */
export async function askAdminAt(
  at: Place,
  path: string,
  method = 'GET',
  headers: Record<string, string> = {},
): Promise<AdminAnswer> {
  const answer = await ask(at, path, method, headers);
  const key = JSON.stringify(at);
  const check = checks.get(key) ?? new ApiCheck((await ask(at, '/openapi.json')).json<ApiDescription>());
  checks.set(key, check);
  check.check({ method, path, ...answer });
  return answer;
}

export function ask(
  at: Place,
  path: string,
  method = 'GET',
  headers: Record<string, string> = {},
): Promise<AdminAnswer> {
  return new Promise((resolve, reject) => {
    const asked = request({ ...at, path, method, headers, agent: false }, async (response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of response) chunks.push(chunk);
      const text = Buffer.concat(chunks).toString();
      const { statusCode: status = 0 } = response;
      const type = response.headers['content-type'] ?? '';
      resolve({ status, type, headers: headersOf(response), text, json: () => JSON.parse(text) });
    });
    asked.once('error', reject).end();
  });
}

function headersOf({ headersDistinct }: IncomingMessage): Headers {
  const headers = new Headers();
  for (const [name, values = []] of Object.entries(headersDistinct)) headers.set(name, values.join(', '));
  return headers;
}
