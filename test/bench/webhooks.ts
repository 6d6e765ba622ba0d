import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { number, ratio, table } from './format.ts';
import { type Ask, fill, StoreMaker } from './sealer.ts';
import type { SealerResult } from './sealerProcess.ts';
import { median, medianOf } from './stats.ts';
import type { Workspace } from './workspace.ts';

export interface WebhooksPlan {
  /** Numbers of jobs kept between acceptance and outcome. */
  inFlight: number[];
  rounds: number;
  roundMs: number;
  /** Webhooks that wait for the dead endpoint before the first round. */
  pending: number;
}

/** `without`: nobody has an endpoint. `told`: the client has a dead one. `others`: another client has it. */
type Case = 'without' | 'told' | 'others';
const CASES: Case[] = ['without', 'told', 'others'];

export interface WebhooksRow {
  inFlight: number;
  /** Medians of the rounds. */
  results: Record<Case, SealerResult>;
  /** Medians of the quotients of rates within a round. */
  rates: Record<Case, number>;
}

export interface WebhooksReport {
  pending: number;
  rows: WebhooksRow[];
}

/**
 * What a dead endpoint with a full backlog costs the sealer: the same stores and processes side by side, in turns. The endpoint accepts
 * connections and never says a word.
 */
export async function benchWebhooks(
  plan: WebhooksPlan,
  workspace: Workspace,
  progress: (line: string) => void,
): Promise<WebhooksReport> {
  const url = await openDeadEndpoint(workspace);
  const stores = await StoreMaker.open(workspace, 'webhook-partitions');
  const paths = new Map<Case, string>();
  for (const which of CASES) paths.set(which, await stores.make(`webhooks-${which}`));
  const use = <T>(which: Case, work: (ask: Ask) => Promise<T>) =>
    stores.use(paths.get(which) ?? '', work, which === 'without' ? '' : url);
  for (const which of CASES) await use(which, (ask) => fill(plan.pending, ask, progress));

  const samples: { which: Case; inFlight: number; round: number; result: SealerResult }[] = [];
  for (let round = 0; round < plan.rounds; round++) {
    progress(`webhooks: round ${round + 1} of ${plan.rounds}`);
    for (const inFlight of plan.inFlight) {
      for (const n of CASES.keys()) {
        const which = CASES[(n + round) % CASES.length] ?? 'without';
        const order = { inFlight, ...(which === 'others' && { clientId: 'cl_other' }) };
        await use(which, async (ask) => {
          await ask({ ...order, durationMs: plan.roundMs / 4 });
          samples.push({ which, inFlight, round, result: await ask({ ...order, durationMs: plan.roundMs }) });
        });
      }
    }
  }

  const rows = plan.inFlight.map((inFlight) => {
    const own = samples.filter((one) => one.inFlight === inFlight);
    const rateOf = (which: Case, round: number) =>
      own.find((one) => one.which === which && one.round === round)?.result.entriesPerSecond ?? Number.NaN;
    const rounds = Array.from({ length: plan.rounds }, (_, round) => round);
    const each = <T>(make: (which: Case) => T) =>
      Object.fromEntries(CASES.map((which) => [which, make(which)])) as Record<Case, T>;
    return {
      inFlight,
      results: each((which) =>
        medianOf(own.filter((one) => one.which === which).map(({ result }) => result)),
      ),
      rates: each((which) => median(rounds.map((round) => rateOf(which, round) / rateOf('without', round)))),
    };
  });
  return { pending: plan.pending, rows };
}

async function openDeadEndpoint(workspace: Workspace): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => {}));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  workspace.onClose(async () => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

const NAMES: Record<Case, string> = {
  without: 'no endpoint',
  told: 'dead endpoint, its own client',
  others: 'dead endpoint of another client',
};

export function renderWebhooks({ pending, rows }: WebhooksReport): string {
  const lines = rows.flatMap(({ inFlight, results, rates }) =>
    CASES.map((which, n) => {
      const { entriesPerSecond, p50Ms, p99Ms, cpuMsPerEntry } = results[which];
      const figures = [entriesPerSecond, p50Ms, p99Ms, cpuMsPerEntry].map(number);
      return [n === 0 ? `${inFlight}` : '', NAMES[which], ...figures, ratio(rates[which], 1)];
    }),
  );
  return [
    `The sealer beside ${pending.toLocaleString('en-US')} webhooks that wait for a dead endpoint, two partitions, ed25519`,
    table(['jobs in flight', 'case', 'entries/s', 'p50 ms', 'p99 ms', 'CPU ms/entry', 'rate to none'], lines),
  ].join('\n');
}
