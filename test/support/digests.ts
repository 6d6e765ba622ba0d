import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import { createInterface } from 'node:readline';
import type { Envelope, JobBody } from './client.ts';

export interface BatchAnswer {
  line: number;
  status: number;
  replayed?: true;
  job?: JobBody;
  receipt?: Record<string, unknown>;
  error?: Envelope['error'];
  retry_after?: number;
}

/** Digests as a caller computes them. */
export function digestsOf(document: Uint8Array) {
  const hash = (name: string) => createHash(name).update(document).digest('hex');
  return { sha256: hash('sha256'), sha512: hash('sha512'), bytes: document.length };
}

/** The fields of a create by digests. */
export function digestFields(document: Uint8Array, more: object = {}): Record<string, unknown> {
  const { sha256, sha512, bytes } = digestsOf(document);
  return { document_sha256: sha256, document_sha512: sha512, bytes, visibility: 'private', ...more };
}

/** Lines of a batch of `count` documents that are told by their number, each with a key of its own. */
export function digestLines(count: number, more: object = {}): string[] {
  return Array.from({ length: count }, (_, n) =>
    JSON.stringify(digestFields(Buffer.from(`document ${n}`), { idempotency_key: `document-${n}`, ...more })),
  );
}

/** A batch that is sent and read at the same time, at the pace of a test. */
export class BatchStream {
  readonly request: ClientRequest;
  readonly answers: BatchAnswer[] = [];
  /** Resolves with everything when the answer has ended; rejects when the connection broke. */
  readonly ended: Promise<BatchAnswer[]>;
  readonly #onAnswer = new Set<() => void>();

  constructor(url: string, apiKey: string) {
    this.request = request(`${url}/v1/batches/seal`, {
      method: 'POST',
      agent: false,
      headers: { Authorization: `Bearer ${apiKey}`, 'Content-Type': 'application/x-ndjson' },
    });
    // What a server that hangs up does to a sender is told by the answer, or by its absence.
    this.request.on('error', () => {});
    this.ended = this.#read();
    this.ended.catch(() => {});
  }

  async #read(): Promise<BatchAnswer[]> {
    const [response] = (await once(this.request, 'response')) as [IncomingMessage];
    for await (const line of createInterface(response)) {
      this.answers.push(JSON.parse(line));
      for (const tell of this.#onAnswer) tell();
    }
    if (!response.complete) throw new Error(`the answer broke off after ${this.answers.length} lines`);
    return this.answers;
  }

  send(...lines: string[]): void {
    this.request.write(lines.map((line) => `${line}\n`).join(''));
  }

  /** Resolves when so many answers have come; rejects when it ended with fewer. */
  async until(count: number): Promise<void> {
    const tooFew = this.ended.then(() => {
      if (this.answers.length < count)
        throw new Error(`only ${this.answers.length} of ${count} answers came`);
    });
    tooFew.catch(() => {}); // as `ended` is
    while (this.answers.length < count) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#onAnswer.add(resolve);
      await Promise.race([promise, tooFew]);
      this.#onAnswer.delete(resolve);
    }
  }

  /** Hangs up, whatever is under way. */
  destroy(): void {
    this.request.destroy();
  }
}

/** Sends all lines and reads all answers, in the order of their lines. */
export async function sealBatch(url: string, apiKey: string, lines: string[]): Promise<BatchAnswer[]> {
  const stream = new BatchStream(url, apiKey);
  stream.send(...lines);
  stream.request.end();
  return (await stream.ended).sort((a, b) => a.line - b.line);
}
