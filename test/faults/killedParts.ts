/** A process beside the daemon, which holds a key or talks to the network, is killed at one of its steps after the other. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '../support/until.ts';
import { type Outcome, playRound, type Round } from './play.ts';

/** By what their command lines end with, or have in them. */
export const PARTS = {
  'a signer of the log': /\/signer\.js\0eu\0sandbox-/,
  'the signer of time-stamps': /\/signer\.js\0eu\0timestamp-/,
  'the egress process': /\/egress\.js\0/,
} as const;
export type Part = keyof typeof PARTS;

/** What is refused until the only process of its kind is replaced. */
const MEANWHILE: Partial<Record<Part, string>> = { 'the signer of time-stamps': 'timestamp_unavailable' };

/** What a step reads, sends, or leaves on disk. */
const STEPS = [
  'read',
  'recvmsg',
  'write',
  'writev',
  'pwrite64',
  'sendmsg',
  'openat',
  'fdatasync',
  'fsync',
  'rename',
];
const KILLS = 8;
/** Each thread of a part is killed at one of so many calls. */
const NTH_MAX = 24;
/** A part that has nothing to do for so long is not killed. */
const IDLE_MS_MAX = 3_000;
const REPLACED_S_MAX = 30;

/** Whatever part dies, the daemon stays and has it replaced. The key that is left is enough for the quorum, so no request fails. */
export function killPart(part: Part, seed: number): Promise<Outcome> {
  return playRound(seed, async (round) => {
    const { tries } = round.workload.history;
    const before = tries.length;
    let killed = 0;
    for (let kill = 0; kill < KILLS; kill++) if (await killAtStep(part, round)) killed += 1;
    const failed = tries
      .slice(before)
      .find(({ answer }) => (answer?.status ?? 0) >= 500 && answer?.code !== MEANWHILE[part]);
    if (failed?.answer) throw new Error(`a request failed: ${failed.answer.status} ${failed.answer.code}`);
    await until('it seals', () => round.workload.isSealing());
    return killed > 0 ? 'went on' : 'not reached';
  });
}

/** Whether it came so far. Waits for the process in its place. */
async function killAtStep(part: Part, { daemon, random }: Round): Promise<boolean> {
  const find = () => childrenOf(daemon.pid).find((pid) => PARTS[part].test(commandLineOf(pid)));
  const pid = find();
  if (pid === undefined) throw new Error(`there is no process: ${part}`);
  const nth = 1 + Math.floor(random() * NTH_MAX);
  const calls = STEPS.join();
  const what = ['-e', `trace=${calls}`, '-e', `inject=${calls}:signal=SIGKILL:when=${nth}`];
  const strace = spawn('strace', ['-f', '-q', '-o', '/dev/null', ...what, '-p', String(pid)], {
    stdio: 'ignore',
  });
  const ended = once(strace, 'exit');
  const isKilled = await Promise.race([ended.then(() => true), sleep(IDLE_MS_MAX, false, { ref: false })]);
  if (!isKilled) {
    strace.kill('SIGTERM');
    await ended;
    return false;
  }
  await until(`${part} is replaced`, () => ![undefined, pid].includes(find()), REPLACED_S_MAX);
  return true;
}

function childrenOf(pid: number): number[] {
  const threads = readdirSync(`/proc/${pid}/task`);
  const lists = threads.map((thread) => readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8'));
  return lists.flatMap((list) => list.split(' ').filter(Boolean).map(Number));
}

/** Its words, each with a NUL after it; of a process that is gone, nothing. */
function commandLineOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return '';
  }
}
