import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { chooseEngine } from '../../src/hash/choose.ts';
import { type BatchesPlan, benchBatches } from './batches.ts';
import type { BesidePlan } from './beside.ts';
import { benchConsoles, type ConsolesPlan } from './consoles.ts';
import { benchFairness, type FairnessPlan } from './fairness.ts';
import { benchHash, type HashPlan, keepHash } from './hash.ts';
import { benchHsm, type HsmPlan } from './hsm.ts';
import { benchHttp, type HttpCell, type HttpPlan, openLoad } from './http.ts';
import { benchLarge, type LargePlan } from './large.ts';
import { describeMachine, resultsFile } from './machine.ts';
import { benchPostQuantum } from './postQuantum.ts';
import { type Results, renderResults } from './report.ts';
import { benchScan, type ScanPlan } from './scan.ts';
import { benchSealer, type SealerPlan } from './sealer.ts';
import { startServers } from './servers.ts';
import { benchWebhooks, type WebhooksPlan } from './webhooks.ts';
import { benchWitness } from './witness.ts';
import { Workspace } from './workspace.ts';

const USAGE = `npm run bench -- [--quick | --full] [--only hash|http|large|sealer|hsm|scan|webhooks|batches|fairness|postquantum|witness|console] [--documents N,…] [--connections N,…] [--entries N] [--rounds N] [--dir FOLDER]

  --quick      everything once and briefly, to see that it works; its figures mean little and are not kept
  --full       5 million receipts in the full store; without it 500,000
  --only       one of the parts; the others stay as they were. results/ has a file for each kind of processor, processors/ one for hash
  --documents  sizes for the part http, in bytes; then, and with --connections, the figures are not kept
  --connections  numbers of connections for the part http
  --entries    receipts in the full store
  --rounds     rounds each figure is the median of (5)
  --dir        where stores and uploads are kept during the run: a folder on the disk to be measured (/var/tmp)`;

const RESULTS = resultsFile('results');

interface Plan {
  rounds: number;
  roundMs: number;
  http: HttpPlan;
  hash: HashPlan;
  large: LargePlan;
  sealer: SealerPlan;
  hsm: HsmPlan;
  scan: ScanPlan;
  webhooks: WebhooksPlan;
  batches: BatchesPlan;
  fairness: FairnessPlan;
  postQuantum: BesidePlan;
  witness: BesidePlan;
  console: ConsolesPlan;
}

function makePlan(rounds: number, roundMs: number, connections: number[], entries: number): Plan {
  const brief = rounds === 1;
  const documentBytes = [10_000, 100_000, 1_000_000, 20_000_000];
  return {
    rounds,
    roundMs,
    http: { documentBytes, connections, rounds, roundMs },
    hash: { rounds: brief ? 3 : 100 },
    large: { documentBytes: brief ? 2 ** 26 : 2 ** 30, rounds: brief ? 1 : 3 },
    sealer: { inFlight: [1, 64, 1024], rounds, roundMs, entries },
    webhooks: { inFlight: [1, 64, 1024], rounds, roundMs, pending: 10_000 },
    batches: { digests: 1_000, connections: [1, 16], rounds },
    fairness: { connections: 8, documentBytes: 10_000, rounds, roundMs },
    postQuantum: { connections: [64], documentBytes: 10_000, rounds, roundMs },
    witness: { connections: [1, 64], documentBytes: 10_000, rounds, roundMs },
    console: {
      ...{ connections: [64], documentBytes: 10_000, rounds },
      // A beat of the streams, and three.
      ...{ consoles: 50, roundMs: brief ? roundMs : 10_000, restMs: 30_000 },
    },
    hsm: {
      sessions: [2, 8],
      loads: [64, 256].map((n) => ({ documentBytes: 10_000, connections: n })),
      rounds,
      roundMs,
      quorums: brief ? [2] : [1, 2],
      faults: brief ? 2 : 8,
    },
    scan: {
      loads: [10_000, 1_000_000].flatMap((size) =>
        connections.map((n) => ({ documentBytes: size, connections: n })),
      ),
      rounds,
      roundMs,
    },
  };
}

/** Those whose rounds are the run's. */
const PARTS = [
  'http',
  'hsm',
  'scan',
  'sealer',
  'batches',
  'webhooks',
  'fairness',
  'postquantum',
  'witness',
  'console',
];

async function run(plan: Plan, only: string | undefined, workspace: Workspace): Promise<Results> {
  const runs = (part: string) => only === undefined || only === part;
  const results: Results = {
    measuredAt: new Date().toISOString(),
    machine: describeMachine(workspace.dir),
    hashEngine: chooseEngine('auto', { info: () => {}, warn: console.warn }).engine,
    rounds: Object.fromEntries(PARTS.filter(runs).map((part) => [part, plan.rounds])),
    roundMs: plan.roundMs,
  };
  if (runs('hash')) results.hash = await benchHash(plan.hash);
  if (runs('http')) results.http = await runHttp(plan.http, workspace);
  if (runs('large')) results.large = await benchLarge(plan.large, workspace, progress);
  if (runs('hsm')) results.hsm = await benchHsm(plan.hsm, workspace, progress);
  if (runs('scan')) results.scan = await benchScan(plan.scan, workspace, progress);
  if (runs('sealer')) results.sealer = await benchSealer(plan.sealer, workspace, progress);
  if (runs('batches')) results.batches = await benchBatches(plan.batches, workspace, progress);
  if (runs('fairness')) results.fairness = await benchFairness(plan.fairness, workspace, progress);
  if (runs('postquantum'))
    results.postQuantum = await benchPostQuantum(plan.postQuantum, workspace, progress);
  if (runs('witness')) results.witness = await benchWitness(plan.witness, workspace, progress);
  if (runs('console')) results.console = await benchConsoles(plan.console, workspace, progress);
  if (runs('webhooks')) results.webhooks = await benchWebhooks(plan.webhooks, workspace, progress);
  return results;
}

async function runHttp(plan: HttpPlan, workspace: Workspace): Promise<HttpCell[]> {
  const servers = await startServers(workspace);
  const cells: HttpCell[] = [];
  for await (const cell of benchHttp(plan, servers, openLoad(workspace))) {
    progress(`http: ${cell.documentBytes} bytes, ${cell.connections} connections: done`);
    cells.push(cell);
  }
  return cells;
}

/** What is known of parts that were not measured now: of another run, but of the same kind. */
function earlier(): Partial<Results> {
  return existsSync(RESULTS) ? (JSON.parse(readFileSync(RESULTS, 'utf8')) as Partial<Results>) : {};
}

/** Where the run has got to; on stderr, so that stdout is the report. */
function progress(line: string): void {
  process.stderr.write(`${line}\n`);
}

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    full: { type: 'boolean', default: false },
    only: { type: 'string' },
    documents: { type: 'string' },
    connections: { type: 'string' },
    entries: { type: 'string' },
    rounds: { type: 'string', default: '5' },
    dir: { type: 'string', default: '/var/tmp' },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  console.log(USAGE);
  process.exit();
}

const entries = Number(values.entries ?? (values.full ? 5_000_000 : 500_000));
const plan = values.quick
  ? makePlan(1, 300, [1, 16], Number(values.entries ?? 20_000))
  : makePlan(Number(values.rounds), 2000, [1, 16, 64], entries);
if (values.documents !== undefined) plan.http.documentBytes = values.documents.split(',').map(Number);
if (values.connections !== undefined) plan.http.connections = values.connections.split(',').map(Number);
const isPartial = values.quick || values.documents !== undefined || values.connections !== undefined;
const workspace = new Workspace(values.dir);
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.once(signal, () => workspace.close().finally(() => process.exit(1)));
}
try {
  const results = await run(plan, values.only, workspace);
  console.log(renderResults(results));
  const { hash, ...others } = results;
  if (!values.quick && hash !== undefined) keepHash(hash);
  if (!isPartial && values.only !== 'hash') {
    const before = earlier();
    const merged = { ...before, ...others, rounds: { ...before.rounds, ...others.rounds } };
    writeFileSync(RESULTS, `${JSON.stringify(merged, undefined, 2)}\n`);
  }
} finally {
  await workspace.close();
}
