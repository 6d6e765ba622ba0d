import type { LoadOrder, LoadReply, LoadResult } from './load.ts';
import { cpuSeconds } from './machine.ts';
import { type Memory, watchMemory } from './memory.ts';
import { latencyOf, medianOf } from './stats.ts';
import { nextMessage, type Workspace } from './workspace.ts';

/** A server under load: pdfseald, by a form and by raw bodies or with its log in PostgreSQL, or one of its peers. */
export interface Server {
  name: 'pdfseald' | 'raw' | 'postgresql' | 'obvious' | 'hashing' | 'bare';
  pid: number;
  port: number;
  /** Empty where the server does not look. */
  apiKey: string;
}

export interface HttpPlan {
  documentBytes: number[];
  connections: number[];
  rounds: number;
  roundMs: number;
}

/** One server at one document size and number of connections; medians of the rounds. */
export interface HttpFigures extends Memory {
  sealsPerSecond: number;
  megabytesPerSecond: number;
  p50Ms: number;
  p95Ms: number;
  p99Ms: number;
  /** Of the server and its child processes. */
  cpuMsPerSeal: number;
}

export interface HttpCell {
  documentBytes: number;
  connections: number;
  servers: Record<Server['name'], HttpFigures>;
}

export type Load = (order: LoadOrder) => Promise<LoadResult>;

/** A load generator in a process of its own. Rejects when any answer was not a completed seal. */
export function openLoad(workspace: Workspace): Load {
  const child = workspace.start('load.ts', []);
  return async (order) => {
    const reply = nextMessage<LoadReply>(child);
    child.send(order);
    const answer = await reply;
    if ('error' in answer) throw new Error(answer.error);
    return answer.result;
  };
}

/**
 * Every size with every number of connections. The servers take turns, A B C A B C: what else the machine does in the
 * meantime then falls on all of them, and their ratios stay true where the figures themselves do not.
 */
export async function* benchHttp(plan: HttpPlan, servers: Server[], load: Load): AsyncGenerator<HttpCell> {
  for (const documentBytes of plan.documentBytes) {
    for (const connections of plan.connections) {
      const order = { documentBytes, connections, durationMs: plan.roundMs };
      for (const server of servers) await runRound(server, { ...order, durationMs: plan.roundMs / 4 }, load);
      const samples: { server: Server; figures: HttpFigures }[] = [];
      for (let round = 0; round < plan.rounds; round++) {
        for (const server of servers) samples.push({ server, figures: await runRound(server, order, load) });
      }
      const medianFor = (server: Server) =>
        medianOf(samples.filter((one) => one.server === server).map((one) => one.figures));
      const medians = servers.map((server) => [server.name, medianFor(server)]);
      yield { documentBytes, connections, servers: Object.fromEntries(medians) };
    }
  }
}

type RoundOrder = Omit<LoadOrder, 'port' | 'apiKey' | 'form'>;

async function runRound(server: Server, order: RoundOrder, load: Load): Promise<HttpFigures> {
  const memory = watchMemory(server.pid);
  const cpuBefore = cpuSeconds(server.pid);
  const { port, apiKey, name } = server;
  const form = name === 'raw' ? 'raw' : 'multipart';
  const { seconds, latenciesMs } = await load({ ...order, port, apiKey, form });
  const seals = latenciesMs.length;
  return {
    sealsPerSecond: seals / seconds,
    megabytesPerSecond: (seals * order.documentBytes) / seconds / 1e6,
    ...latencyOf(latenciesMs),
    cpuMsPerSeal: ((cpuSeconds(server.pid) - cpuBefore) * 1000) / seals,
    ...memory(),
  };
}
