import { request } from 'node:http';
import { join } from 'node:path';
import type { Sandbox } from './sandbox.ts';

export interface AdminAnswer {
  status: number;
  type: string;
  text: string;
  json<T = Record<string, unknown>>(): T;
}

/** Asks the administration of a sandbox, at the socket that a configuration without `admin.listen` has. */
export function askAdmin(
  sandbox: Sandbox,
  path: string,
  method: 'GET' | 'POST' = 'GET',
): Promise<AdminAnswer> {
  return ask({ socketPath: join(sandbox.dir, 'state', 'admin.sock') }, path, method);
}

export function ask(
  at: { socketPath: string } | { host: string; port: number },
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
      resolve({ status, type, text, json: () => JSON.parse(text) });
    });
    asked.once('error', reject).end();
  });
}
