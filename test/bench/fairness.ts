import { encodeQuery } from '../../src/asn1/timestampQuery.ts';
import { type Target, WAYS } from '../journeys/greedy.ts';
import { IMPRINT } from '../support/authority.ts';
import { onePage, pdfFile, stream } from '../support/pdf.ts';
import { number, ratio, table } from './format.ts';
import type { GreedOrder } from './greed.ts';
import { type Load, openLoad } from './http.ts';
import { startDaemon } from './servers.ts';
import { latencyOf, median } from './stats.ts';
import { nextMessage, type Workspace } from './workspace.ts';

export interface FairnessPlan {
  connections: number;
  documentBytes: number;
  rounds: number;
  roundMs: number;
}

export interface FairnessRow {
  way: string;
  /** Medians of the rounds. */
  quietP99Ms: number;
  p99Ms: number;
  /** Median of the quotients within a round. */
  p99ToQuiet: number;
}

export interface FairnessReport extends FairnessPlan {
  rows: FairnessRow[];
}

/** What the seals of one client take while another does its worst, in one way after the other: beside quiet rounds, in turns. */
export async function benchFairness(
  plan: FairnessPlan,
  workspace: Workspace,
  progress: (line: string) => void,
): Promise<FairnessReport> {
  const daemon = await startDaemon(workspace, {
    stamped: true,
    head: 'compliance_mode = true',
    tables: { webhooks: 'allow = ["127.0.0.0/8"]' },
  });
  const greedyKey = await daemon.issueKey(
    'greedy',
    'acme',
    '--scopes',
    'jobs:create,jobs:read,webhooks:manage',
  );
  const target = await prepare(daemon.port, greedyKey);
  const child = workspace.start('greed.ts', []);
  const order = async (way: string | undefined) => {
    const done = nextMessage(child);
    child.send({ way, target } satisfies GreedOrder);
    await done;
  };
  const load = openLoad(workspace);
  const p99 = () => p99Of(load, { ...plan, port: daemon.port, apiKey: daemon.apiKey });
  await p99();
  const rows: FairnessRow[] = [];
  for (const way of Object.keys(WAYS)) {
    progress(`fairness: ${way}`);
    const [quiet, beside]: [number[], number[]] = [[], []];
    for (let round = 0; round < plan.rounds; round += 1) {
      quiet.push(await p99());
      await order(way);
      beside.push(await p99());
      await order(undefined);
    }
    const p99ToQuiet = median(beside.map((ms, round) => ms / (quiet[round] ?? Number.NaN)));
    rows.push({ way, quietP99Ms: median(quiet), p99Ms: median(beside), p99ToQuiet });
  }
  return { ...plan, rows };
}

async function p99Of(load: Load, order: FairnessPlan & { port: number; apiKey: string }): Promise<number> {
  const { documentBytes, connections, roundMs: durationMs, port, apiKey } = order;
  const { latenciesMs } = await load({ port, apiKey, documentBytes, connections, durationMs });
  return latencyOf(latenciesMs).p99Ms;
}

/** What the greedy client needs to be greedy with: a large copy, an endpoint. */
async function prepare(port: number, apiKey: string): Promise<Target> {
  const large = pdfFile({ ...onePage(), 5: stream('', Buffer.alloc(24 * 2 ** 20, ' ')) });
  const post = async (path: string, contentType: string, body: Uint8Array<ArrayBuffer> | string) => {
    const headers = { Authorization: `Bearer ${apiKey}`, 'Content-Type': contentType };
    const answer = await fetch(`http://127.0.0.1:${port}/v1/${path}`, { method: 'POST', headers, body });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as { id: string };
  };
  const create = 'jobs/seal?visibility=private&mode=blocking';
  const job = await post(create, 'application/pdf', Uint8Array.from(large));
  const url = JSON.stringify({ url: 'http://127.0.0.1:9/' });
  const endpoint = await post('webhook-endpoints', 'application/json', url);
  return {
    port,
    apiKey,
    copyPath: `/v1/jobs/${job.id}/document.pdf`,
    query: encodeQuery({ imprint: IMPRINT, certReq: true }),
    endpointId: endpoint.id,
  };
}

export function renderFairness({ connections, documentBytes, rows }: FairnessReport): string {
  const lines = rows.map(({ way, quietP99Ms, p99Ms, p99ToQuiet }) => [
    way,
    number(quietP99Ms),
    number(p99Ms),
    ratio(p99ToQuiet, 1),
  ]);
  return [
    `Blocking seals of ${documentBytes / 1000} kB on ${connections} connections, beside another client that does its worst`,
    table(['its way', 'quiet p99 ms', 'p99 ms', 'p99 to quiet'], lines),
  ].join('\n');
}
