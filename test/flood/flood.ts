/** Everybody attacks one daemon at once, at its default limits, while honest clients seal: what becomes of these, and of its memory. */
import { type ChildProcess, fork } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Test } from 'tap';
import { Client, isServed, Traffic } from '../support/client.ts';
import { openSandbox } from '../support/sandbox.ts';
import { until } from '../support/until.ts';
import type { Order } from './attack.ts';

const ATTACK = fileURLToPath(new URL('./attack.ts', import.meta.url));
const SAMPLE_MS = 250;
const MIB = 2 ** 20;
/** An honest client has a limit of its own for creates, so a few dozen share one. */
const CLIENTS_PER_KEY = 8;
const PIPELINING_CONNECTIONS = 64;
/** Of each honest client, before the memory is measured for the first time. */
const WARM_SEALS = 40;

export interface FloodPlan {
  /** The attack lasts so long, and longer until that many requests were pipelined without a key. */
  seconds: number;
  pipelined: number;
  /** Connections that say nothing. */
  connections: number;
  honest: number;
}

export interface FloodReport {
  /** Written by the attackers, in each way. */
  sent: Record<string, number>;
  /** Seals that the honest clients got during the attack, and by the one that got fewest. */
  sealed: number;
  fewest: number;
  /** Answers other than a seal. */
  refused: number;
  /** Resident memory of the daemon that is its own, MiB: before, at most during the attack, and after it. */
  beforeMib: number;
  peakMib: number;
  afterMib: number;
  /** How long after the attack the memory was looked at, or was small enough. */
  afterSeconds: number;
}

/** What the daemon may take more than before, during the attack and after it. */
export const PEAK_MIB_MAX = 400;
export const AFTER_MIB_MAX = 100;

/** Rejects if the daemon ends, or an honest client gets no answer. */
export async function flood(t: Pick<Test, 'teardown'>, plan: FloodPlan): Promise<FloodReport> {
  const sandbox = await openSandbox({ code: 'dist' });
  t.teardown(() => sandbox.close());
  const keys = await Promise.all(
    Array.from({ length: Math.ceil(plan.honest / CLIENTS_PER_KEY) }, (_, n) =>
      sandbox.issueKey(`honest${n}`),
    ),
  );
  const greedyKey = await sandbox.issueKey('greedy');
  const daemon = await sandbox.start();
  const first = await Client.connect(sandbox.url, keys[0]);
  const honest = Array.from({ length: plan.honest }, (_, n) => {
    const key = keys[n % keys.length] ?? '';
    return new Traffic(first.as(key), ['blocking']);
  });
  const isWarm = () => honest.every(({ answers }) => answers.length >= WARM_SEALS);
  await until('the daemon has grown to its usual size', isWarm);

  const resident = () => residentMib(daemon.pid);
  const beforeMib = resident();
  let peakMib = beforeMib;
  const sampling = setInterval(() => {
    peakMib = Math.max(peakMib, resident());
  }, SAMPLE_MS);
  const begunAt = Date.now();
  const { port } = sandbox;
  const each = Math.ceil(plan.pipelined / PIPELINING_CONNECTIONS);
  const attacks = [
    { way: 'pipelined', port, connections: PIPELINING_CONNECTIONS, requests: each },
    { way: 'silent', port, connections: plan.connections, requests: 1 },
    { way: 'unread', port, apiKey: greedyKey, connections: PIPELINING_CONNECTIONS, requests: each },
    { way: 'batches', port, apiKey: greedyKey, connections: 16, requests: 1 },
  ] as const satisfies Order[];
  const attackers = attacks.map((order) => new Attacker(order));
  try {
    await sleep(plan.seconds * 1000);
    await until(
      'all is sent, and each honest client has a seal',
      () =>
        (attackers[0]?.sent ?? 0) >= plan.pipelined && honest.every((one) => one.since(begunAt).length > 0),
      3600,
    );
  } finally {
    for (const attacker of attackers) attacker.end();
  }
  const answers = honest.map((one) => one.since(begunAt));
  for (const one of honest) await one.stop();
  clearInterval(sampling);
  const calm = performance.now();
  await until('its memory is given back', () => resident() - beforeMib <= AFTER_MIB_MAX, 600);
  const afterSeconds = Math.round((performance.now() - calm) / 1000);
  const afterMib = resident();
  const ended = await daemon.stop();
  if (ended !== 0) throw new Error(`the daemon ended with ${ended}`);
  const served = answers.map((all) => all.filter(isServed).length);
  return {
    sent: Object.fromEntries(attackers.map(({ way, sent }) => [way, sent])),
    sealed: served.reduce((sum, count) => sum + count, 0),
    fewest: Math.min(...served),
    refused: answers.flat().filter((one) => !isServed(one)).length,
    ...{ beforeMib, peakMib, afterMib, afterSeconds },
  };
}

class Attacker {
  readonly way: string;
  sent = 0;
  readonly #child: ChildProcess;

  constructor(order: Order) {
    this.way = order.way;
    this.#child = fork(ATTACK, [JSON.stringify(order)]);
    this.#child.on('message', (sent: number) => {
      this.sent = sent;
    });
  }

  end(): void {
    this.#child.disconnect();
  }
}

/** Throws once there is no such process. */
/** Without the pages of mapped files: the store grows while many seal, and the kernel takes its pages back if it needs them. */
function residentMib(pid: number): number {
  const [, kib = ''] = /^RssAnon:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Math.round((Number(kib) * 1024) / MIB);
}
