import { createHash } from 'node:crypto';
import { sealBatch } from '../support/client.ts';
import { Connection } from './connection.ts';
import { number, ratio, table } from './format.ts';
import { startDaemon } from './servers.ts';
import { median } from './stats.ts';
import type { Workspace } from './workspace.ts';

export interface BatchesPlan {
  /** Digests in a batch, and in as many single creates. */
  digests: number;
  /** Connections that share the single creates. */
  connections: number[];
  rounds: number;
}

export interface BatchesReport {
  digests: number;
  /** Medians, of the batch. */
  batchPerSecond: number;
  singles: {
    connections: number;
    perSecond: number;
    /** Median of the quotients within a round: how many times as fast the batch is. */
    batchToSingles: number;
  }[];
}

/** Blocking seals of the same number of digests: by one batch, and by single creates on some kept-alive connections, in turns. */
export async function benchBatches(
  plan: BatchesPlan,
  workspace: Workspace,
  progress: (line: string) => void,
): Promise<BatchesReport> {
  const { port, apiKey } = await startDaemon(workspace, { regions: ['north', 'south'] });
  const batches: number[] = [];
  const singles = plan.connections.map((): number[] => []);
  const rate = async (work: () => Promise<void>) => {
    const startedAt = performance.now();
    await work();
    return (plan.digests * 1000) / (performance.now() - startedAt);
  };
  for (let round = -1; round < plan.rounds; round++) {
    progress(`batches: round ${round + 1} of ${plan.rounds}`);
    const lines = linesOf(plan.digests);
    const batch = await rate(() => sealInBatch(port, apiKey, lines));
    const single: number[] = [];
    for (const connections of plan.connections) {
      single.push(await rate(() => sealOneByOne(port, apiKey, lines, connections)));
    }
    if (round < 0) continue; // the first one warms up
    batches.push(batch);
    for (const [n, rates] of singles.entries()) rates.push(single[n] ?? Number.NaN);
  }
  return {
    digests: plan.digests,
    batchPerSecond: median(batches),
    singles: plan.connections.map((connections, n) => ({
      connections,
      perSecond: median(singles[n] ?? []),
      batchToSingles: median(
        (singles[n] ?? []).map((value, round) => (batches[round] ?? Number.NaN) / value),
      ),
    })),
  };
}

function linesOf(count: number): string[] {
  return Array.from({ length: count }, (_, n) => {
    const hash = (name: string) => createHash(name).update(`document ${n}`).digest('hex');
    const digests = { document_sha256: hash('sha256'), document_sha512: hash('sha512'), bytes: 10_000 };
    return JSON.stringify({ ...digests, visibility: 'private', mode: 'blocking' });
  });
}

async function sealInBatch(port: number, apiKey: string, lines: string[]): Promise<void> {
  const answers = await sealBatch(`http://127.0.0.1:${port}`, apiKey, lines);
  const sealed = answers.filter(({ job }) => job?.phase === 'completed').length;
  if (sealed !== lines.length) throw new Error(`${sealed} of ${lines.length} digests were sealed`);
}

async function sealOneByOne(
  port: number,
  apiKey: string,
  lines: string[],
  connections: number,
): Promise<void> {
  const queue = lines.values();
  const client = async () => {
    const connection = await Connection.open(port);
    for (const line of queue) {
      const head = [
        'POST /v1/digests/seal HTTP/1.1',
        'Host: 127.0.0.1',
        `Authorization: Bearer ${apiKey}`,
        'Content-Type: application/json',
        `Content-Length: ${line.length}`,
      ];
      const answer = await connection.exchange(
        Buffer.from(`${head.join('\r\n')}\r\n\r\n`),
        Buffer.from(line),
      );
      if (!answer.body.includes('"completed"')) throw new Error(`${answer.status}: ${answer.body}`);
    }
    connection.close();
  };
  await Promise.all(Array.from({ length: connections }, client));
}

export function renderBatches({ digests, batchPerSecond, singles }: BatchesReport): string {
  const rows = singles.map(({ connections, perSecond, batchToSingles }) => [
    `single creates, ${connections} connections`,
    number(perSecond),
    ratio(batchToSingles, 1),
  ]);
  return [
    `${digests.toLocaleString('en-US')} digests sealed, blocking, two partitions, ed25519`,
    table(['by', 'seals/s', 'batch to this'], [['one batch', number(batchPerSecond), ratio(1, 1)], ...rows]),
  ].join('\n');
}
