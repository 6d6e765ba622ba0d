import { encodeQuery } from '../../src/asn1/timestampQuery.ts';
import { type Target, WAYS } from '../journeys/greedy.ts';
import { IMPRINT } from '../support/authority.ts';
import { onePage, pdfFile, stream } from '../support/pdf.ts';
import { number, ratio, table } from './format.ts';
import type { GreedOrder } from './greed.ts';
import { type Load, openLoad } from './http.ts';
import { startDaemon } from './servers.ts';
import { type Latency, latencyOf, median, medianOf } from './stats.ts';
import { nextMessage, type Workspace } from './workspace.ts';

export interface FairnessPlan {
  connections: number;
  documentBytes: number;
  rounds: number;
  roundMs: number;
}

export interface FairnessRow {
  way: string;
  /** Medians of the rounds. In a quiet round, the greedy client does the same to a server that does nothing. */
  quiet: Latency;
  beside: Latency;
  /** Medians of the quotients within a round. */
  p50ToQuiet: number;
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
  const order = async (way: string | undefined, isSink = false) => {
    const done = nextMessage(child);
    child.send({ way, target, isSink } satisfies GreedOrder);
    await done;
  };
  const load = openLoad(workspace);
  const measure = () => latency(load, { ...plan, port: daemon.port, apiKey: daemon.apiKey });
  await measure();
  const rows: FairnessRow[] = [];
  for (const way of Object.keys(WAYS)) {
    progress(`fairness: ${way}`);
    const [quiet, beside]: [Latency[], Latency[]] = [[], []];
    for (let round = 0; round < plan.rounds; round += 1) {
      await order(way, true);
      quiet.push(await measure());
      await order(way);
      beside.push(await measure());
      await order(undefined);
    }
    const toQuiet = (field: keyof Latency) =>
      median(beside.map((one, round) => one[field] / (quiet[round]?.[field] ?? Number.NaN)));
    rows.push({
      way,
      quiet: medianOf(quiet),
      beside: medianOf(beside),
      p50ToQuiet: toQuiet('p50Ms'),
      p99ToQuiet: toQuiet('p99Ms'),
    });
  }
  return { ...plan, rows };
}

async function latency(load: Load, order: FairnessPlan & { port: number; apiKey: string }): Promise<Latency> {
  const { documentBytes, connections, roundMs: durationMs, port, apiKey } = order;
  const { latenciesMs } = await load({ port, apiKey, documentBytes, connections, durationMs });
  return latencyOf(latenciesMs);
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
  const lines = rows.map(({ way, quiet, beside, p50ToQuiet, p99ToQuiet }) => [
    way,
    ...[quiet.p50Ms, beside.p50Ms].map((ms) => number(ms)),
    ratio(p50ToQuiet, 1),
    ...[quiet.p99Ms, beside.p99Ms].map((ms) => number(ms)),
    ratio(p99ToQuiet, 1),
  ]);
  return [
    `Blocking seals of ${documentBytes / 1000} kB on ${connections} connections, beside another client that does its worst`,
    table(
      ['its way', 'quiet p50 ms', 'p50 ms', 'p50 to quiet', 'quiet p99 ms', 'p99 ms', 'p99 to quiet'],
      lines,
    ),
  ].join('\n');
}
