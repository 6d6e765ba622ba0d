import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { encodeQuery } from '../../src/asn1/timestampQuery.ts';
import { type ConsoleTarget, OTHER_WAYS, type Target, WAYS } from '../journeys/greedy.ts';
import { ask } from '../support/admin.ts';
import { IMPRINT } from '../support/authority.ts';
import { onePage, pdfFile, stream } from '../support/pdf.ts';
import type { Sandbox } from '../support/sandbox.ts';
import { SiteWitness } from '../support/siteWitness.ts';
import { logIn, OWN } from './consoles.ts';
import { number, ratio, table } from './format.ts';
import type { GreedOrder } from './greed.ts';
import { type Load, openLoad } from './http.ts';
import { startDaemon, UNLIMITED } from './servers.ts';
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

/** The way that needs a log whose batches wait for a witness. */
const OF_WITNESS = 'witness repeats';

/**
 * What the seals of one client take while another does its worst, in one way after the other: beside quiet rounds, in turns. `only` names
 * ways; the default is all.
 */
export async function benchFairness(
  plan: FairnessPlan,
  workspace: Workspace,
  progress: (line: string) => void,
  only?: readonly string[],
): Promise<FairnessReport> {
  const greed = workspace.start('greed.ts', []);
  const load = openLoad(workspace);
  const ways = Object.keys({ ...WAYS, ...OTHER_WAYS }).filter((way) => only?.includes(way) ?? true);
  const rows: FairnessRow[] = [];
  for (const [isWitnessed, daemonOf] of [
    [false, openDaemon],
    [true, openWitnessedDaemon],
  ] as const) {
    const waysOfIt = ways.filter((way) => (way === OF_WITNESS) === isWitnessed);
    if (waysOfIt.length === 0) continue;
    const { apiKey, target } = await daemonOf(workspace);
    const measure = () => latency(load, { ...plan, port: target.port, apiKey });
    const order = async (way: string | undefined, isSink = false) => {
      const done = nextMessage(greed);
      greed.send({ way, target, isSink } satisfies GreedOrder);
      await done;
    };
    await measure();
    for (const way of waysOfIt) {
      progress(`fairness: ${way}`);
      rows.push(await rowOf(way, plan.rounds, order, measure));
    }
  }
  return { ...plan, rows };
}

async function rowOf(
  way: string,
  rounds: number,
  order: (way: string | undefined, isSink?: boolean) => Promise<void>,
  measure: () => Promise<Latency>,
): Promise<FairnessRow> {
  const [quiet, beside]: [Latency[], Latency[]] = [[], []];
  for (let round = 0; round < rounds; round += 1) {
    await order(way, true);
    quiet.push(await measure());
    await order(way);
    beside.push(await measure());
    await order(undefined);
  }
  const toQuiet = (field: keyof Latency) =>
    median(beside.map((one, round) => one[field] / (quiet[round]?.[field] ?? Number.NaN)));
  return {
    way,
    quiet: medianOf(quiet),
    beside: medianOf(beside),
    p50ToQuiet: toQuiet('p50Ms'),
    p99ToQuiet: toQuiet('p99Ms'),
  };
}

/** A daemon, the key of the client that is measured, and what the other client needs to be greedy. */
interface Attacked {
  apiKey: string;
  target: Target;
}

async function openDaemon(workspace: Workspace): Promise<Attacked> {
  const { issueKey, apiKey, port, sandbox } = await startDaemon(workspace, {
    stamped: true,
    head: 'compliance_mode = true',
    tables: { webhooks: 'allow = ["127.0.0.0/8"]' },
    tail: `${UNLIMITED}[console]\n`,
  });
  const greedyKey = await issueKey('greedy', 'acme', '--scopes', 'jobs:create,jobs:read,webhooks:manage');
  const console = await openSession(sandbox);
  return { apiKey, target: { ...(await prepare(port, greedyKey)), console } };
}

async function openSession({ dir }: Sandbox): Promise<ConsoleTarget> {
  const state = join(dir, 'state');
  const at = { socketPath: join(state, 'console.sock') };
  const cookie = await logIn(state, 'auditor');
  const page = await ask(at, '/audit', 'GET', { ...OWN, cookie });
  const [, formToken] = /name="token" value="([^"]+)"/.exec(page.text) ?? [];
  if (formToken === undefined) throw new Error(`/audit: ${page.status}`);
  return { at, cookie, formToken };
}

async function openWitnessedDaemon(workspace: Workspace): Promise<Attacked> {
  let witness: SiteWitness | undefined;
  const tables = { witness: 'policy = "policy"\nrequired = true' };
  const { issueKey, apiKey, port } = await startDaemon(
    workspace,
    { stamped: true, tables },
    async (sandbox) => {
      const { logs } = JSON.parse(readFileSync(sandbox.trustFile, 'utf8'));
      const log: string = logs[0].epochs[0].keys[0].vkey;
      witness = await SiteWitness.make(sandbox.dir, 'bench', 'dist');
      workspace.onClose(async () => void (await witness?.kill()));
      witness.name(log);
      await witness.start();
      const policy = `log ${log}\nwitness one ${witness.vkey} ${witness.url}\nquorum one\n`;
      writeFileSync(join(sandbox.dir, 'policy'), policy);
    },
  );
  const target = {
    port,
    apiKey: await issueKey('greedy'),
    witness: { host: '127.0.0.1', port: Number(new URL(witness?.url ?? '').port) },
  };
  return { apiKey, target };
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
