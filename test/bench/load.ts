import { type Answer, Connection } from './connection.ts';
import { makeUpload, type Upload, type UploadForm } from './upload.ts';

/** What a round is to send. */
export interface LoadOrder {
  port: number;
  apiKey: string;
  /** Default: multipart. */
  form?: UploadForm;
  documentBytes: number;
  connections: number;
  durationMs: number;
}

/** What came of it. Every answer was a 202 with a completed job, or a queued one if it is asynchronous; or there is no result. */
export interface LoadResult {
  seconds: number;
  /** One per seal: from the first byte sent to the last byte received. */
  latenciesMs: number[];
}

export type LoadReply = { result: LoadResult } | { error: string };

/**
 * A closed loop: each connection sends its next document when the last is answered. No request starts after
 * `durationMs`, every started one is waited for, and each connection sends one at least.
 */
async function run(order: LoadOrder): Promise<LoadResult> {
  const { form = 'multipart' } = order;
  const upload = makeUpload(order.documentBytes, order.apiKey, form);
  const phase = form === 'asynchronous' ? 'queued' : 'completed';
  const connections = await Promise.all(
    Array.from({ length: order.connections }, () => Connection.open(order.port)),
  );
  const latenciesMs: number[] = [];
  const startMs = performance.now();
  try {
    await Promise.all(
      connections.map(async (connection) => {
        do latenciesMs.push(await timedSeal(connection, upload, phase));
        while (performance.now() - startMs < order.durationMs);
      }),
    );
  } finally {
    for (const connection of connections) connection.close();
  }
  return { seconds: (performance.now() - startMs) / 1000, latenciesMs };
}

async function timedSeal(connection: Connection, upload: Upload, phase: string): Promise<number> {
  const head = upload.head();
  const startMs = performance.now();
  const answer = await connection.exchange(head, upload.rest);
  const latencyMs = performance.now() - startMs;
  requirePhase(answer, phase);
  return latencyMs;
}

function requirePhase({ status, body }: Answer, phase: string): void {
  if (status === 202 && JSON.parse(body).phase === phase) return;
  throw new Error(`not a ${phase} job: ${status} ${body}`);
}

/** The generator lives in a process of its own; an order in, a reply out. */
process.on('message', async (order: LoadOrder) => {
  const reply: LoadReply = await run(order).then(
    (result) => ({ result }),
    (error: Error) => ({ error: error.message }),
  );
  process.send?.(reply);
});
process.on('disconnect', () => process.exit());
