/**
 * One, two and three fronts before a daemon that seals: `node test/bench/nodes.ts [--rounds N] [--round-ms N] [--connections N]`. Prints
 * how long one client waits at the daemon that seals and at a front, what a seal costs at each of them, and from it how many processors other
 * rates need. All of them share this machine, so the rates here show only whether the costs add up. At last, the daemon that seals finds at its
 * start what a front accepted in the meantime: how many leaves it adds in a second when it has nothing else to do.
 */
import { once } from 'node:events';
import { cpus } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { installFront } from '../journeys/onDatabase.ts';
import { askAdmin, parseMetrics, sampleOf } from '../support/admin.ts';
import { startPostgres } from '../support/postgres.ts';
import type { Sandbox } from '../support/sandbox.ts';
import { number, ratio, table } from './format.ts';
import { type Load, openLoad } from './http.ts';
import { cpuSeconds, threadSeconds } from './machine.ts';
import { spawnDaemon, startDaemon } from './servers.ts';
import { median, medianOf } from './stats.ts';
import { Workspace } from './workspace.ts';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '3' },
    'round-ms': { type: 'string', default: '3000' },
    connections: { type: 'string', default: '96' },
  },
});
const DOCUMENT_BYTES = 10_000;
const FRONTS_MAX = 3;
const EMPTY_POLL_MS = 20;
const RATES = [1_000, 10_000, 100_000];

/** Milliseconds of processor for each seal. */
interface Costs {
  fronts: number;
  sealing: number;
  /** Of the sealing daemon: what only one processor can do. */
  mainThread: number;
  database: number;
  load: number;
}

interface Round extends Costs {
  sealsPerSecond: number;
}

const workspace = new Workspace('/var/tmp');
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.once(signal, () => workspace.close().finally(() => process.exit(1)));
try {
  const scope = { teardown: (undo: () => Promise<void>) => workspace.onClose(undo) };
  const postgres = await startPostgres(scope);
  const store = `engine = "postgresql"\nurl = "${postgres.url(await postgres.createDatabase())}"`;
  const regions = ['north', 'south'];
  const { pid, port, apiKey, sandbox, daemon } = await startDaemon(workspace, {
    regions,
    init: false,
    tables: { store },
  });
  const fronts: { pid: number; port: number; load: Load }[] = [];
  for (let number = 1; number <= FRONTS_MAX; number++) {
    const { configFile, port } = await installFront(scope, postgres, sandbox, `front-${number}`);
    fronts.push({ ...(await spawnDaemon(workspace, { configFile, port })), port, load: openLoad(workspace) });
  }
  const measured = () => {
    const of = {
      fronts: fronts.reduce((sum, front) => sum + cpuSeconds(front.pid), 0),
      sealing: cpuSeconds(pid),
      database: cpuSeconds(postgres.pid),
    };
    const load = cpuSeconds(process.pid) - of.fronts - of.sealing - of.database;
    return { ...of, load, mainThread: threadSeconds(pid) };
  };
  const play = async (used: number, durationMs: number): Promise<Round> => {
    const before = measured();
    const connections = Math.floor(Number(values.connections) / used);
    const order = { documentBytes: DOCUMENT_BYTES, apiKey, connections, durationMs };
    const results = await Promise.all(
      fronts.slice(0, used).map(({ port, load }) => load({ ...order, port })),
    );
    const after = measured();
    const seals = results.reduce((sum, { latenciesMs }) => sum + latenciesMs.length, 0);
    const perSeal = (what: keyof Costs) => ((after[what] - before[what]) * 1000) / seals;
    return {
      sealsPerSecond: results.reduce(
        (sum, { seconds, latenciesMs }) => sum + latenciesMs.length / seconds,
        0,
      ),
      fronts: perSeal('fronts'),
      sealing: perSeal('sealing'),
      mainThread: perSeal('mainThread'),
      database: perSeal('database'),
      load: perSeal('load'),
    };
  };
  const roundMs = Number(values['round-ms']);
  const [front] = fronts;
  if (front === undefined) throw new Error('there is no front');
  const waits = [port, front.port].map((port) => ({ port, ms: [] as number[] }));
  // The first turn is not counted.
  for (let turn = -1; turn < Number(values.rounds); turn++)
    for (const { port, ms } of waits) {
      const order = { documentBytes: DOCUMENT_BYTES, apiKey, connections: 1, durationMs: roundMs / 2 };
      const { latenciesMs } = await front.load({ ...order, port });
      if (turn >= 0) ms.push(...latenciesMs);
    }
  const [own = 0, across = 0] = waits.map(({ ms }) => median(ms));
  console.log(
    `one client waits ${number(own)} ms at the daemon that seals, ${number(across)} ms at a front (p50): ${number(across - own)} ms more\n`,
  );
  const rounds = new Map(fronts.map((_, n) => [n + 1, [] as Round[]]));
  for (const used of rounds.keys()) await play(used, roundMs / 2);
  for (let round = 0; round < Number(values.rounds); round++)
    for (const [used, of] of rounds) of.push(await play(used, roundMs));
  const medians = [...rounds].map(([used, of]) => [used, medianOf(of)] as const);
  report(medians);

  const before = await leavesOf(sandbox);
  daemon.kill('SIGTERM');
  await once(daemon, 'exit');
  const order = { documentBytes: DOCUMENT_BYTES, apiKey, connections: Number(values.connections) };
  const backlog = { ...order, form: 'asynchronous', durationMs: 2 * roundMs } as const;
  const { length: accepted } = (await front.load({ ...backlog, port: front.port })).latenciesMs;
  const again = await spawnDaemon(workspace, sandbox);
  const leaves = before + accepted - (await leavesOf(sandbox));
  const start = {
    ms: performance.now(),
    mainThread: threadSeconds(again.pid),
    database: cpuSeconds(postgres.pid),
  };
  while ((await leavesOf(sandbox)) < before + accepted) await sleep(EMPTY_POLL_MS);
  const rate = (leaves * 1000) / (performance.now() - start.ms);
  const perLeaf = (seconds: number) => `${number((seconds * 1000) / leaves)} ms`;
  console.log(
    `\na backlog of ${leaves} jobs: ${number(rate)} leaves/s; for each, the main thread takes`,
    `${perLeaf(threadSeconds(again.pid) - start.mainThread)}, the database ${perLeaf(cpuSeconds(postgres.pid) - start.database)}`,
  );
} finally {
  await workspace.close();
}

async function leavesOf(sandbox: Sandbox): Promise<number> {
  return sampleOf(parseMetrics((await askAdmin(sandbox, '/metrics')).text), 'pdfseal_log_leaves') ?? 0;
}

function total({ fronts, sealing, database, load }: Costs): number {
  return fronts + sealing + database + load;
}

function report(medians: readonly (readonly [number, Round])[]): void {
  const processors = cpus().length;
  const rows = medians.map(([used, round]) => [
    String(used),
    number(round.sealsPerSecond),
    ...[round.fronts, round.sealing, round.mainThread, round.database, round.load].map(
      (ms) => `${number(ms)} ms`,
    ),
    // What all processors could do if each seal costs what it does here.
    ratio(round.sealsPerSecond, (processors * 1000) / total(round)),
  ]);
  const header = [
    'fronts',
    'seals/s',
    'fronts',
    'sealing',
    'its main thread',
    'database',
    'load',
    'to all processors',
  ];
  console.log(table(header, rows));
  const [, costs] = medians[0] ?? [];
  if (costs === undefined) return;
  const needs = RATES.map((rate) => {
    const of = (ms: number) => number((rate * ms) / 1000);
    return [number(rate), of(costs.fronts), of(costs.sealing), of(costs.mainThread), of(costs.database)];
  });
  console.log(
    `\n${table(['seals/s', 'processors of fronts', 'sealing', 'its main thread', 'database'], needs)}`,
  );
}
