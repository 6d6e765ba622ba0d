/** The helper process's side of `companion.ts`. */
import { readSync } from 'node:fs';
import { Socket } from 'node:net';
import { Worker } from 'node:worker_threads';
import { STREAM_FD } from './companion.ts';
import { openDatagramAddon } from './journal.ts';
import { siblingModule } from './package.ts';

/** Standard input: its first line has the startup options, and its end means that the parent process has ended. */
export const LIFELINE_FD = 0;
const CHARTER_BYTES_MAX = 1 << 20;
const CHUNK_BYTES = 1 << 16;
const NS_PER_MS = 1_000_000n;

/**
 * The startup options of this process, from its parent: its permissions, and who it works for. Call it once, before the {@link Lifeline}
 * exists.
 */
export function readCharter(): unknown {
  let line = Buffer.alloc(0);
  const chunk = Buffer.alloc(CHUNK_BYTES);
  while (!line.includes('\n') && line.length < CHARTER_BYTES_MAX) {
    const count = readSync(LIFELINE_FD, chunk);
    if (count === 0) break;
    line = Buffer.concat([line, chunk.subarray(0, count)]);
  }
  return JSON.parse(line.toString('utf8'));
}

/** The stream to the process that this one works for. From then on, other processes of the same user cannot read this process's memory. */
export function openStream(): Socket {
  conceal();
  const stream = new Socket({ fd: STREAM_FD, readable: true, writable: true });
  stream.on('error', () => stream.destroy());
  return stream;
}

/**
 * Prevents other processes of the same user from reading this process's memory. Without the add-on, only the user's permissions protect it.
 */
export function conceal(): void {
  try {
    openDatagramAddon().conceal();
  } catch (error) {
    process.stderr.write(`other processes of this user can read the memory of this one: ${error}\n`);
  }
}

interface LifelineAddon {
  /** From then on, a thread ends this process when the other end of the descriptor is closed, or at the time given to {@link endAt}. */
  watch(fd: number): void;
  /** In nanoseconds of `process.hrtime`; 0 for no limit. */
  endAt(ns: bigint): void;
}

/** Ends this process, even if its main thread hangs, when its parent has ended, or when a deadline has passed. */
export class Lifeline {
  readonly #endAt: LifelineAddon['endAt'];
  readonly #underWay = new Set<{ at: bigint }>();

  constructor() {
    this.#endAt = watchByAddon() ?? watchByWorker();
  }

  /** The process ends if `work` takes longer than `timeoutMs`, in milliseconds. */
  async within<T>(timeoutMs: number, work: () => T | Promise<T>): Promise<T> {
    const limit = { at: process.hrtime.bigint() + BigInt(Math.ceil(timeoutMs)) * NS_PER_MS };
    this.#underWay.add(limit);
    this.#update();
    try {
      return await work();
    } finally {
      this.#underWay.delete(limit);
      this.#update();
    }
  }

  #update(): void {
    let first = 0n;
    for (const { at } of this.#underWay) if (first === 0n || at < first) first = at;
    this.#endAt(first);
  }
}

function watchByAddon(): LifelineAddon['endAt'] | undefined {
  try {
    const { watch, endAt } = openDatagramAddon<LifelineAddon>();
    watch(LIFELINE_FD);
    return endAt;
  } catch {
    return undefined;
  }
}

/** Used if the add-on was not built. Starting a helper process then takes a third more processor time. */
function watchByWorker(): LifelineAddon['endAt'] {
  const deadline = new BigInt64Array(new SharedArrayBuffer(8));
  const program = siblingModule('lifelineThread', import.meta.url);
  new Worker(program, { workerData: deadline.buffer }).unref();
  return (ns) => {
    Atomics.store(deadline, 0, ns);
  };
}
