import { fileURLToPath } from 'node:url';
import { Piscina } from 'piscina';
import { assert } from '../base/assert.ts';
import { within } from '../base/deadline.ts';
import { siblingModule } from '../base/package.ts';
import { type Engine, type Hashed, type Piece, TASKS_PER_THREAD } from './engine.ts';
import type { SlabPiece, WasmTask, WasmWorkerData } from './wasmWorker.ts';

export interface WasmEngineOptions {
  workers: number;
  /** Called for every lost worker and failed task, to log it. The engine repeats the task. */
  onTrouble: (error: unknown) => void;
  /** A worker that does not answer a task within this time counts as lost; milliseconds, default 10 s. */
  taskTimeoutMs?: number;
  /** The module that the workers run, with the exports of `wasmWorker.ts`. */
  worker?: URL;
}

/** About 3 ms of work, so that documents do not wait long behind a large one. */
const SLAB_BYTES = 512 * 1024;
const ATTEMPTS_MAX = 3;

/**
 * WebAssembly in worker threads. The engine copies the bytes of a task to a slab of shared memory. Workers keep no state, so the engine can
 * send a task again after its worker died: the bytes are still in the slab, and the states in the message.
 */
export class WasmEngine implements Engine {
  readonly tasksMax: number;
  readonly taskBytesMax = SLAB_BYTES;
  readonly shareBytesMin = SLAB_BYTES / 32;
  readonly #piscina: Piscina<WasmTask, Hashed[]>;
  readonly #slabs: SharedArrayBuffer[];
  readonly #freeSlabs: number[];
  readonly #taskTimeoutMs: number;
  readonly #onTrouble: (error: unknown) => void;
  #closed = false;

  constructor({ workers, onTrouble, taskTimeoutMs = 10_000, worker }: WasmEngineOptions) {
    this.tasksMax = workers * TASKS_PER_THREAD;
    this.#slabs = Array.from({ length: this.tasksMax }, () => new SharedArrayBuffer(SLAB_BYTES));
    this.#freeSlabs = [...this.#slabs.keys()];
    this.#taskTimeoutMs = taskTimeoutMs;
    this.#onTrouble = onTrouble;
    this.#piscina = new Piscina({
      filename: fileURLToPath(worker ?? siblingModule('wasmWorker', import.meta.url)),
      name: 'hash',
      minThreads: workers,
      maxThreads: workers,
      concurrentTasksPerWorker: TASKS_PER_THREAD,
      idleTimeout: Number.POSITIVE_INFINITY,
      // The default freezes a worker's event loop between tasks.
      atomics: 'disabled',
      recordTiming: false,
      workerData: { slabs: this.#slabs } satisfies WasmWorkerData,
    });
    this.#piscina.on('error', onTrouble);
  }

  async hash(pieces: readonly Piece[]): Promise<Hashed[]> {
    const slab = this.#freeSlabs.pop();
    assert(slab !== undefined, 'an engine has no more tasks than it takes');
    try {
      return await this.#repeat({ slab, pieces: this.#fill(slab, pieces) });
    } finally {
      this.#freeSlabs.push(slab);
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#piscina.destroy();
  }

  #fill(slab: number, pieces: readonly Piece[]): SlabPiece[] {
    const memory = new Uint8Array(this.#slabs[slab] ?? new ArrayBuffer(0));
    let end = 0;
    return pieces.map(({ chunks, ...rest }) => {
      const offset = end;
      for (const chunk of chunks) {
        memory.set(chunk, end);
        end += chunk.length;
      }
      return { ...rest, offset, length: end - offset };
    });
  }

  async #repeat(task: WasmTask): Promise<Hashed[]> {
    const lost = () => new Error(`no hash worker answered within ${this.#taskTimeoutMs} ms`);
    for (let attempt = 1; ; attempt += 1) {
      try {
        // Piscina never settles a task if the module of its worker can no longer be loaded.
        return await within(this.#taskTimeoutMs, this.#piscina.run(task), lost);
      } catch (error) {
        if (this.#closed) throw error;
        this.#onTrouble(error);
        if (attempt === ATTEMPTS_MAX) throw new Error('a hash task failed for good', { cause: error });
      }
    }
  }
}
