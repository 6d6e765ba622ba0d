import { setTimeout as sleep } from 'node:timers/promises';
import type { PartitionOptions } from '../../src/kms/partitions.ts';
import { askAdmin, parseMetrics, sampleOf } from '../support/admin.ts';
import {
  behindFaulty,
  buildFaultyModule,
  FAULTS,
  type Fault,
  type ModuleFault,
  setFault,
} from '../support/faults.ts';
import type { Sandbox } from '../support/sandbox.ts';
import { bytes, number, ratio, table } from './format.ts';
import { type Load, openLoad, type Server } from './http.ts';
import type { LoadResult } from './load.ts';
import { startDaemon } from './servers.ts';
import { type Latency, latencyOf, medianOf } from './stats.ts';
import type { Workspace } from './workspace.ts';

export interface HsmPlan {
  /** `kms.sessions` of the daemons that are loaded with and without a delay. */
  sessions: number[];
  loads: HsmLoad[];
  rounds: number;
  roundMs: number;
  /** Of three partitions. */
  quorums: number[];
  /** How many of the faults to play. */
  faults: number;
}

export interface HsmLoad {
  documentBytes: number;
  connections: number;
}

type Figures = Latency & { sealsPerSecond: number; slowestMs: number };

/** Medians of the rounds, with and without the delay. */
export interface DelayRow extends HsmLoad {
  sessions: number;
  prompt: Figures;
  slow: Figures;
}

/** Creates that do not wait for their seals. */
interface QueuedFigures {
  acceptedPerSecond: number;
  p50Ms: number;
  p99Ms: number;
  /** From the last answer until no job waits. */
  emptyAfterMs: number;
}

/** Medians of the rounds, with and without the delay. */
export interface QueuedRow extends HsmLoad {
  sessions: number;
  prompt: QueuedFigures;
  slow: QueuedFigures;
}

/** One fault of one partition, from before it strikes until the partition is back. */
export interface EventRow {
  quorum: number;
  fault: string;
  normal: Figures;
  during: Figures;
}

export interface HsmReport {
  delays: DelayRow[];
  queued?: QueuedRow[];
  events: EventRow[];
}

const PHASES = ['queued', 'hashing', 'sealing'];
const EMPTY_POLL_MS = 5;

/** What a small USB HSM takes for a signature. */
const DELAY_MS = 70;
const EVENT_LOAD: HsmLoad = { documentBytes: 10_000, connections: 64 };
const EVENT_SIGN_TIMEOUT_MS = 1000;
/** How long there is load before the fault, with it, and while the partition returns. */
const [BEFORE_MS, STRUCK_MS, RETURN_MS] = [500, 1250, 2000];
const EVENT_MS = BEFORE_MS + STRUCK_MS + RETURN_MS;

/**
 * What the HSM's pace and its failures cost clients: seals per second where each signature of the log takes 70 ms, by the number of sessions, and
 * latencies while one of three partitions is lost. Every request must end in a seal. Time-stamps are prompt.
 */
export async function benchHsm(
  plan: HsmPlan,
  workspace: Workspace,
  progress: (line: string) => void,
): Promise<HsmReport> {
  const module = buildFaultyModule(workspace.folder('module'));
  const equip = (partition: PartitionOptions) => behindFaulty(partition, module);
  const load = openLoad(workspace);
  const seal: Seal = async ({ port, apiKey }, order, durationMs) =>
    figuresOf(await load({ port, apiKey, ...order, durationMs }));

  const delays: DelayRow[] = [];
  const queued: QueuedRow[] = [];
  for (const sessions of plan.sessions) {
    const tables = { kms: `sessions = ${sessions}` };
    const single = await startDaemon(workspace, { regions: ['local'], tables, equip });
    for (const order of plan.loads) {
      const { documentBytes, connections } = order;
      progress(`hsm: ${sessions} sessions, ${documentBytes} bytes, ${connections} connections`);
      const send: Send<Figures> = (order, durationMs) => seal(single, order, durationMs);
      delays.push({ sessions, ...(await inTurns(plan, order, single, send)) });
    }
    progress(`hsm: ${sessions} sessions, asynchronous`);
    const send: Send<QueuedFigures> = (order, durationMs) => sendQueued(load, single, order, durationMs);
    queued.push({ sessions, ...(await inTurns(plan, EVENT_LOAD, single, send)) });
  }
  const events: EventRow[] = [];
  for (const quorum of plan.quorums) {
    const tables = { kms: `sign_timeout = "${EVENT_SIGN_TIMEOUT_MS}ms"` };
    const daemon = await startDaemon(workspace, { regions: ['eu', 'us', 'ap'], quorum, tables, equip });
    await seal(daemon, EVENT_LOAD, EVENT_MS / 2);
    const normal = await seal(daemon, EVENT_LOAD, EVENT_MS);
    for (const [turn, fault] of FAULTS.slice(0, plan.faults).entries()) {
      progress(`hsm: quorum ${quorum} of 3, ${fault.name}`);
      const [during] = await Promise.all([
        seal(daemon, EVENT_LOAD, EVENT_MS),
        playFault(fault, turn, daemon),
      ]);
      events.push({ quorum, fault: fault.name, normal, during });
    }
  }
  return { delays, queued, events };
}

type Seal = (server: Server, order: HsmLoad, durationMs: number) => Promise<Figures>;

type Send<F> = (order: HsmLoad, durationMs: number) => Promise<F>;

/** By turns with a prompt HSM and with a slow one. */
async function inTurns<F extends { [K in keyof F]: number }>(
  { rounds, roundMs }: HsmPlan,
  order: HsmLoad,
  server: { partitions: PartitionOptions[] },
  send: Send<F>,
): Promise<HsmLoad & { prompt: F; slow: F }> {
  const prompt: F[] = [];
  const slow: F[] = [];
  const run = async (into: F[], fault: ModuleFault | undefined) => {
    for (const partition of server.partitions) setFault(partition, fault);
    into.push(await send(order, roundMs));
  };
  await send(order, roundMs / 2);
  for (let round = 0; round < rounds; round++) {
    await run(prompt, undefined);
    await run(slow, { delayed: 'C_Sign', ms: DELAY_MS });
  }
  for (const partition of server.partitions) setFault(partition, undefined);
  return { ...order, prompt: medianOf(prompt), slow: medianOf(slow) };
}

async function sendQueued(
  load: Load,
  { port, apiKey, sandbox }: Server & { sandbox: Sandbox },
  order: HsmLoad,
  durationMs: number,
): Promise<QueuedFigures> {
  const result = await load({ port, apiKey, ...order, form: 'asynchronous', durationMs });
  const endMs = performance.now();
  while ((await waitingJobs(sandbox)) > 0) await sleep(EMPTY_POLL_MS);
  const { p50Ms, p99Ms } = latencyOf(result.latenciesMs);
  const acceptedPerSecond = result.latenciesMs.length / result.seconds;
  return { acceptedPerSecond, p50Ms, p99Ms, emptyAfterMs: performance.now() - endMs };
}

async function waitingJobs(sandbox: Sandbox): Promise<number> {
  const metrics = parseMetrics((await askAdmin(sandbox, '/metrics')).text);
  return PHASES.reduce((sum, phase) => {
    const jobs = sampleOf(metrics, 'pdfseal_jobs', { phase });
    if (jobs === undefined) throw new Error(`no metric of the jobs in the phase ${phase}`);
    return sum + jobs;
  }, 0);
}

async function playFault(
  fault: Fault,
  turn: number,
  daemon: Server & { partitions: PartitionOptions[] },
): Promise<void> {
  const partition = daemon.partitions[turn % daemon.partitions.length];
  if (!partition) throw new Error('a daemon without partitions');
  await sleep(BEFORE_MS);
  const mend = fault.strike(partition, daemon);
  await sleep(STRUCK_MS);
  mend();
}

function figuresOf({ latenciesMs, seconds }: LoadResult): Figures {
  const slowestMs = latenciesMs.reduce((slowest, one) => Math.max(slowest, one), 0);
  return { sealsPerSecond: latenciesMs.length / seconds, slowestMs, ...latencyOf(latenciesMs) };
}

const DELAY_COLUMNS = [
  'sessions',
  'document, connections',
  'signature',
  'seals/s',
  'p50 ms',
  'p99 ms',
  'rate to prompt',
  'at most',
  'of the least',
];
const QUEUED_COLUMNS = [
  'sessions',
  'signature',
  'accepted/s',
  'p50 ms',
  'p99 ms',
  'to prompt',
  'empty after ms',
];
const EVENT_COLUMNS = ['one of three', 'quorum', 'seals/s', 'p50 ms', 'p99 ms', 'bound', 'slowest ms'];

export function renderHsm({ delays, queued = [], events }: HsmReport): string {
  return [
    `A slow HSM: ${DELAY_MS} ms for each signature. No seal is quicker than its signature, so n connections`,
    `that wait for their answers get n / ${DELAY_MS} ms at most. The last column compares with that, or with the prompt rate if it is less.`,
    table(DELAY_COLUMNS, delays.flatMap(delayRows)),
    '',
    `Asynchronous creates, ${EVENT_LOAD.connections} connections: how many are accepted, and how long after the last answer all are sealed`,
    table(QUEUED_COLUMNS, queued.flatMap(queuedRows)),
    '',
    `A partition is lost and returns under ${EVENT_LOAD.connections} connections; p99 is held to twice the normal one and the`,
    `signer's time-out, ${EVENT_SIGN_TIMEOUT_MS} ms`,
    table(EVENT_COLUMNS, events.flatMap(eventRows)),
  ].join('\n');
}

function delayRows({ sessions, documentBytes, connections, prompt, slow }: DelayRow): string[][] {
  const most = (connections * 1000) / DELAY_MS;
  const cells = (own: Figures) => [
    ...[own.sealsPerSecond, own.p50Ms, own.p99Ms].map(number),
    ratio(own.sealsPerSecond, prompt.sealsPerSecond),
  ];
  const least = Math.min(most, prompt.sealsPerSecond);
  return [
    [`${sessions}`, `${bytes(documentBytes)}, ${connections}`, 'prompt', ...cells(prompt), '', ''],
    ['', '', `${DELAY_MS} ms`, ...cells(slow), number(most), ratio(slow.sealsPerSecond, least)],
  ];
}

function queuedRows({ sessions, prompt, slow }: QueuedRow): string[][] {
  const cells = ({ acceptedPerSecond, p50Ms, p99Ms, emptyAfterMs }: QueuedFigures) => [
    ...[acceptedPerSecond, p50Ms, p99Ms].map(number),
    ratio(acceptedPerSecond, prompt.acceptedPerSecond),
    number(emptyAfterMs),
  ];
  return [
    [`${sessions}`, 'prompt', ...cells(prompt)],
    ['', `${DELAY_MS} ms`, ...cells(slow)],
  ];
}

/** The normal figures once for each quorum. */
function eventRows({ fault, quorum, during, normal }: EventRow, index: number, all: EventRow[]): string[][] {
  const row = (name: string, own: Figures, bound: string) => {
    const latencies = [own.sealsPerSecond, own.p50Ms, own.p99Ms].map(number);
    return [name, `${quorum}`, ...latencies, bound, number(own.slowestMs)];
  };
  const event = row(fault, during, number(2 * normal.p99Ms + EVENT_SIGN_TIMEOUT_MS));
  return all[index - 1]?.quorum === quorum ? [event] : [row('(none)', normal, ''), event];
}
