import type { Client } from './client.ts';
import { parseAnswer, Wire, type WireAnswer } from './wire.ts';

export interface SlowUpload {
  /** Sends the document; resolves to the answer. */
  finish(): Promise<WireAnswer>;
  /** Sends the document, and waits for nothing. */
  send(): void;
  hangUp(): void;
  /** Sends a piece of the document and hangs up. */
  abandon(): void;
}

/** Begins a private upload; resolves when the service has asked for the body, which tells that it holds key and slot. */
export async function slowUpload(
  client: Client,
  document: Uint8Array,
  headers: Record<string, string> = {},
): Promise<SlowUpload> {
  const body = Buffer.concat([
    Buffer.from(`${part('name="visibility"')}private\r\n${part('name="file"; filename="a"')}`),
    document,
    Buffer.from('\r\n--b--\r\n'),
  ]);
  const lines = Object.entries({
    Host: 'localhost',
    Authorization: `Bearer ${client.apiKey}`,
    'Content-Type': 'multipart/form-data; boundary=b',
    'Content-Length': String(body.length),
    Expect: '100-continue',
    Connection: 'close',
    ...headers,
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  const wire = new Wire(Number(new URL(client.baseUrl).port));
  wire.send(`POST /v1/jobs/seal HTTP/1.1\r\n${lines.join('')}\r\n`);
  await wire.until(/^HTTP\/1\.1 100 Continue\r\n\r\n/);
  return {
    finish: async () => {
      wire.send(body);
      await wire.closed;
      const answer = parseAnswer(wire.received.replace(/^HTTP\/1\.1 100 Continue\r\n\r\n/, ''));
      client.check.check({ method: 'POST', path: '/v1/jobs/seal', ...answer });
      return answer;
    },
    send: () => wire.send(body),
    hangUp: () => wire.destroy(),
    abandon: () => {
      wire.send(body.subarray(0, 150));
      wire.destroy();
    },
  };
}

function part(disposition: string): string {
  return `--b\r\nContent-Disposition: form-data; ${disposition}\r\n\r\n`;
}
