/**
 * Where the processor time of a seal goes: `node test/bench/stages.ts [--round-ms N] [--files]`. One daemon with time-stamps under load,
 * profiled by V8, at one and at 64 connections. The main thread's time is divided among the rooms of `src`: what a library or Node does is
 * put to the account of the innermost file of ours that called it. What none of ours called is Node's own: HTTP, sockets, messages.
 */
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { askAdmin, parseMetrics, sampleOf } from '../support/admin.ts';
import type { Sandbox } from '../support/sandbox.ts';
import { number, table } from './format.ts';
import { openLoad } from './http.ts';
import { cpuSeconds, threadSeconds } from './machine.ts';
import { startDaemon } from './servers.ts';
import type { UploadForm } from './upload.ts';
import { Workspace } from './workspace.ts';

const { values } = parseArgs({
  options: { 'round-ms': { type: 'string', default: '10000' }, files: { type: 'boolean', default: false } },
});
const DIST = new URL('../../dist/', import.meta.url).href;
const DOCUMENT_BYTES = 10_000;
const LOADS: readonly { connections: number; form: UploadForm }[] = [
  { connections: 1, form: 'raw' },
  { connections: 64, form: 'raw' },
  { connections: 64, form: 'multipart' },
];
const SAMPLE_US = 200;
const MS_SHOWN_MIN = 0.005;

/** The part of a file that V8 writes with `--cpu-prof` which is read here. */
interface Profile {
  startTime: number;
  samples: number[];
  /** Microseconds since the sample before. */
  timeDeltas: number[];
  nodes: {
    id: number;
    callFrame: { functionName: string; url: string };
    children?: number[];
  }[];
}

const STEPS = ['sign', 'stamp', 'commit'] as const;

/** A round of load, in the clock of the profile. */
interface Round {
  startUs: number;
  endUs: number;
  seals: number;
  /** From the first byte sent to the last received, and of each step of a batch; milliseconds, on average. */
  latencyMs: number;
  stepsMs: number[];
  /** Of the main thread, and of all that belongs to the daemon; seconds. */
  mainThread: number;
  all: number;
}

const workspace = new Workspace('/var/tmp');
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.once(signal, () => workspace.close().finally(() => process.exit(1)));
try {
  const profiles = workspace.folder('profiles');
  const flags = ['--cpu-prof', `--cpu-prof-dir=${profiles}`, `--cpu-prof-interval=${SAMPLE_US}`];
  const { daemon, pid, port, apiKey, sandbox } = await startDaemon(
    workspace,
    { regions: ['north', 'south'] },
    undefined,
    flags,
  );
  const load = openLoad(workspace);
  const play = async (durationMs: number, { connections, form }: (typeof LOADS)[number]): Promise<Round> => {
    const [mainThread, all, startUs] = [threadSeconds(pid), cpuSeconds(pid), nowUs()];
    const order = { documentBytes: DOCUMENT_BYTES, apiKey, connections, durationMs, port, form };
    const before = await readSteps(sandbox);
    const { latenciesMs } = await load(order);
    const after = await readSteps(sandbox);
    const stepsMs = after.map(({ seconds, batches }, n) => {
      const { seconds: earlier = 0, batches: less = 0 } = before[n] ?? {};
      return ((seconds - earlier) * 1000) / (batches - less);
    });
    return {
      ...{ startUs, endUs: nowUs(), seals: latenciesMs.length, stepsMs },
      latencyMs: latenciesMs.reduce((sum, ms) => sum + ms, 0) / latenciesMs.length,
      ...{ mainThread: threadSeconds(pid) - mainThread, all: cpuSeconds(pid) - all },
    };
  };
  const rounds: Round[] = [];
  for (const kind of LOADS) await play(Number(values['round-ms']) / 2, kind);
  for (const kind of LOADS) rounds.push(await play(Number(values['round-ms']), kind));
  const exited = once(daemon, 'exit');
  daemon.kill('SIGTERM');
  await exited;
  const [file = ''] = readdirSync(profiles).filter((name) => name.includes(`.${pid}.`));
  const profile = JSON.parse(readFileSync(join(profiles, file), 'utf8')) as Profile;
  report(rounds, divide(profile, rounds, stagesOf(profile)));
} finally {
  await workspace.close();
}

/** How long each step took so far, in how many batches. */
async function readSteps(sandbox: Sandbox): Promise<{ seconds: number; batches: number }[]> {
  const metrics = parseMetrics((await askAdmin(sandbox, '/metrics')).text);
  const value = (step: string, of: string) =>
    sampleOf(metrics, `pdfseal_step_duration_seconds_${of}`, { step }) ?? 0;
  return STEPS.map((step) => ({ seconds: value(step, 'sum'), batches: value(step, 'count') }));
}

/** As V8's profiler counts: CLOCK_MONOTONIC. */
function nowUs(): number {
  return Number(process.hrtime.bigint() / 1000n);
}

/** For each node of the call tree, the stage it belongs to. */
function stagesOf({ nodes }: Profile): Map<number, string> {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const stages = new Map<number, string>();
  const visit = (id: number, outer: string) => {
    const node = byId.get(id);
    if (node === undefined) return;
    const stage = ownStage(node.callFrame) ?? outer;
    stages.set(id, stage);
    for (const child of node.children ?? []) visit(child, stage);
  };
  const [root] = nodes;
  if (root) visit(root.id, 'Node.js: HTTP, sockets, timers');
  return stages;
}

function ownStage({ functionName, url }: Profile['nodes'][number]['callFrame']): string | undefined {
  if (functionName === '(idle)') return 'idle';
  if (functionName === '(garbage collector)') return 'garbage collection';
  if (functionName === '(program)') return 'Node.js: not in JavaScript';
  const path = url.startsWith(DIST) ? url.slice(DIST.length) : 'base';
  const [room = ''] = path.split('/');
  // What `base` does, it does for another room.
  if (room === 'base') return undefined;
  return values.files ? path : room;
}

/** Milliseconds of the main thread for each seal, by stage, in each round. */
function divide(profile: Profile, rounds: readonly Round[], stages: Map<number, string>) {
  const sums = rounds.map(() => new Map<string, number>());
  let timeUs = profile.startTime;
  for (const [n, id] of profile.samples.entries()) {
    timeUs += profile.timeDeltas[n] ?? 0;
    const stage = stages.get(id);
    const round = rounds.findIndex(({ startUs, endUs }) => timeUs > startUs && timeUs <= endUs);
    const sum = sums[round];
    if (sum === undefined || stage === undefined || stage === 'idle') continue;
    sum.set(stage, (sum.get(stage) ?? 0) + (profile.timeDeltas[n] ?? 0));
  }
  return sums.map((sum, n) => {
    const { mainThread = 0, seals = 1 } = rounds[n] ?? {};
    const busy = [...sum.values()].reduce((total, us) => total + us, 0);
    // The profiler measures time, also while another program has the processor: the kernel knows how much of it was work.
    const msPerSeal = (us: number) => ((us / busy) * mainThread * 1000) / seals;
    return new Map([...sum].map(([stage, us]) => [stage, msPerSeal(us)]));
  });
}

function report(rounds: readonly Round[], divided: readonly ReadonlyMap<string, number>[]): void {
  const msPerSeal = (seconds: number, { seals }: Round) => (seconds * 1000) / seals;
  const stages = [...new Set(divided.flatMap((of) => [...of.keys()]))]
    .filter((stage) => divided.some((of) => (of.get(stage) ?? 0) >= MS_SHOWN_MIN))
    .sort((a, b) => (divided[0]?.get(b) ?? 0) - (divided[0]?.get(a) ?? 0));
  const row = (name: string, ms: (round: Round, n: number) => number) => [
    name,
    ...rounds.map((round, n) => ms(round, n).toFixed(3)),
  ];
  const rows = [
    ...stages.map((stage) => row(stage, (_, n) => divided[n]?.get(stage) ?? 0)),
    row('main thread', (round) => msPerSeal(round.mainThread, round)),
    row('other threads, signers, egress', (round) => msPerSeal(round.all - round.mainThread, round)),
    row('all', (round) => msPerSeal(round.all, round)),
  ];
  const header = ['ms for each seal', ...LOADS.map(({ connections, form }) => `${connections} ${form}`)];
  console.log(`${table(header, rows)}\n`);
  const times = [
    ...STEPS.map((step, n) => row(`${step} (of a batch)`, ({ stepsMs }) => stepsMs[n] ?? 0)),
    row('receipt after', ({ latencyMs }) => latencyMs),
    ['seals', ...rounds.map(({ seals }) => number(seals))],
  ];
  console.log(table(['time in ms', ...header.slice(1)], times));
}
