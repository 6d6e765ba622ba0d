import { fileURLToPath } from 'node:url';
import { Piscina } from 'piscina';
import { assert } from '../base/assert.ts';
import { toHex } from '../base/bytes.ts';
import { sha256, sha512 } from '../base/crypto.ts';
import { siblingModule } from '../base/siblingModule.ts';
import type { EngineName, Hashed } from './engine.ts';
import { crossChecked, type Hasher } from './hasher.ts';
import { type Digests, Lane } from './lane.ts';
import type { HashTask, HashWorkerData } from './worker.ts';

/**
 * Bytes of one task: enough for 32 documents on the lanes of the native engine at once, and about 3 ms of work for
 * WebAssembly, so nobody waits long behind a large document.
 */
const SLAB_BYTES = 512 * 1024;
/** Two tasks per worker: one under way, one at hand when it is done. */
const SLABS_PER_WORKER = 2;
/** Bytes that are worth a message of their own; less than that goes along with whatever is sent next. */
const TASK_BYTES_MIN = SLAB_BYTES / 2;
/** A document in a crowded task gets at least this much of it. */
const SHARE_BYTES_MIN = 16 * 1024;
/** From here on a document waits, and all of them together (then each keeps one chunk at most). */
const LANE_PENDING_BYTES_MAX = 256 * 1024;
const POOL_PENDING_BYTES_MAX = 16 * 1024 * 1024;
const ATTEMPTS_MAX = 3;

export interface HashPool {
  hasher(): Hasher;
  readonly load: HashLoad;
  /** Ends the workers; documents under way fail. */
  close(): Promise<void>;
}

export interface HashLoad {
  /** Documents that are being hashed, as their bytes arrive. */
  documents: number;
  /** Received, and still to be handed to a worker. */
  pendingBytes: number;
  /** Under way, of so many at most. */
  tasks: number;
  tasksMax: number;
}

export interface HashPoolOptions {
  workers: number;
  engine: EngineName;
  /**
   * The share of documents, 0 to 1, that the native engine and WebAssembly both hash; what they differ about has no digest.
   * Default 0. Without the native engine there is nothing to compare.
   */
  crossCheckShare?: number;
  /** Told of every lost worker and failed task. Tasks are repeated; this is for the log. */
  onTrouble: (error: unknown) => void;
  /** A worker that does not answer a task within this time counts as lost. Default 10 s. */
  taskTimeoutMs?: number;
  /** The module the workers run, with the exports of `worker.ts`. */
  worker?: URL;
}

/** Starts the workers and holds each to a known answer, so that one which cannot load fails here and not in a queue. */
export async function openHashPool(options: HashPoolOptions): Promise<HashPool> {
  const pool = new WorkerPool(options);
  try {
    await pool.probe();
  } catch (error) {
    await pool.close();
    throw new Error('the hash workers did not start', { cause: error });
  }
  return pool;
}

/**
 * A chunk is a task: every event-loop turn gathers what documents have ready into slabs of shared memory and sends each
 * slab to a worker. Workers hold no documents, so a slow upload occupies none, and a task whose worker died is sent
 * again: its bytes are still in the slab, its states still in the message.
 */
class WorkerPool implements HashPool {
  readonly #piscina: Piscina<HashTask, Hashed[]>;
  readonly #slabs: SharedArrayBuffer[];
  readonly #freeSlabs: number[];
  readonly #engine: EngineName;
  readonly #crossCheckShare: number;
  readonly #taskTimeoutMs: number;
  readonly #onTrouble: (error: unknown) => void;
  readonly #lanes = new Set<Lane>();
  readonly #queue: Lane[] = [];
  #pendingBytes = 0;
  #scheduled = false;
  #closed = false;

  constructor(options: HashPoolOptions) {
    const count = options.workers * SLABS_PER_WORKER;
    this.#slabs = Array.from({ length: count }, () => new SharedArrayBuffer(SLAB_BYTES));
    this.#freeSlabs = [...this.#slabs.keys()];
    this.#engine = options.engine;
    this.#crossCheckShare = options.engine === 'native' ? (options.crossCheckShare ?? 0) : 0;
    this.#taskTimeoutMs = options.taskTimeoutMs ?? 10_000;
    this.#onTrouble = options.onTrouble;
    this.#piscina = new Piscina({
      filename: fileURLToPath(options.worker ?? siblingModule('worker', import.meta.url)),
      name: 'hash',
      minThreads: options.workers,
      maxThreads: options.workers,
      concurrentTasksPerWorker: SLABS_PER_WORKER,
      idleTimeout: Number.POSITIVE_INFINITY,
      // The default freezes a worker's event loop between tasks.
      atomics: 'disabled',
      recordTiming: false,
      workerData: { slabs: this.#slabs } satisfies HashWorkerData,
    });
    this.#piscina.on('error', this.#onTrouble);
  }

  hasher(): Hasher {
    const hasher = this.#hasherOf(this.#engine);
    // At random, so that no order of documents can keep one kind of them from being checked.
    return Math.random() < this.#crossCheckShare ? crossChecked(hasher, this.#hasherOf('wasm')) : hasher;
  }

  get load(): HashLoad {
    const tasksMax = this.#slabs.length;
    const tasks = tasksMax - this.#freeSlabs.length;
    return { documents: this.#lanes.size, pendingBytes: this.#pendingBytes, tasks, tasksMax };
  }

  #hasherOf(engine: EngineName): Hasher {
    const lane = new Lane(engine);
    this.#lanes.add(lane);
    return {
      update: (chunk) => this.#update(lane, chunk),
      digest: () => this.#end(lane),
      abort: () => this.#abort(lane),
    };
  }

  async probe(): Promise<void> {
    const engines: EngineName[] = this.#crossCheckShare > 0 ? ['native', 'wasm'] : [this.#engine];
    for (const engine of engines) {
      await Promise.all(
        Array.from({ length: this.#piscina.maxThreads }, (_, slab) => this.#probe(engine, slab)),
      );
    }
  }

  /** Engines take different ways for a document that comes whole and for one in pieces: both are asked. */
  async #probe(engine: EngineName, slab: number): Promise<void> {
    const text = Buffer.from('abc');
    this.#slab(slab).set(text);
    const [begun] = await this.#run({ slab, pieces: [{ engine, offset: 0, length: 1, last: false }] });
    assert(begun !== undefined && 'state' in begun, 'a hash worker gives states');
    const rest = { engine, state: begun.state, offset: 1, length: text.length - 1, last: true };
    const answers = await this.#run({
      slab,
      pieces: [rest, { engine, offset: 0, length: text.length, last: true }],
    });
    assert(answers.length === 2, 'a hash worker answers every piece');
    for (const answer of answers) {
      assert('sha256' in answer, 'a hash worker gives digests');
      assert(answer.sha256 === toHex(sha256(text)), 'the hash workers know SHA-256');
      assert(answer.sha512 === toHex(sha512(text)), 'the hash workers know SHA-512');
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const lane of this.#lanes) this.#abort(lane);
    await this.#piscina.destroy();
  }

  #update(lane: Lane, chunk: Uint8Array): Promise<void> | undefined {
    if (lane.closed) return lane.digests.then(() => {});
    lane.push(chunk);
    this.#pendingBytes += chunk.length;
    this.#enqueue(lane);
    const crowded = this.#pendingBytes >= POOL_PENDING_BYTES_MAX;
    return crowded || lane.pendingBytes >= LANE_PENDING_BYTES_MAX ? lane.room() : undefined;
  }

  #end(lane: Lane): Promise<Digests> {
    lane.ended = true;
    this.#enqueue(lane);
    return lane.digests;
  }

  #abort(lane: Lane): void {
    if (!lane.closed) this.#fail(lane, new Error('the document was abandoned'));
    this.#lanes.delete(lane);
  }

  #enqueue(lane: Lane): void {
    if (lane.place !== 'idle' || !lane.hasWork) return;
    lane.place = 'queued';
    this.#queue.push(lane);
    this.#schedule();
  }

  /** After this turn's sockets have been read: what came in together is hashed together. */
  #schedule(): void {
    if (this.#closed || this.#scheduled || this.#queue.length === 0 || this.#freeSlabs.length === 0) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      if (!this.#closed) this.#dispatch();
    });
  }

  #dispatch(): void {
    const tasks = this.#tasksDue();
    const lanesPerTask = Math.ceil(this.#queue.length / tasks);
    for (let sent = 0; sent < tasks && this.#queue.length > 0; sent += 1) {
      const slab = this.#freeSlabs.pop();
      if (slab !== undefined) void this.#hash(slab, lanesPerTask);
    }
  }

  /**
   * An idle worker gets whatever there is, a busy one only what is worth it: what comes in while it is busy becomes its
   * next task. So small documents share messages, and two large ones still keep two workers busy.
   */
  #tasksDue(): number {
    const busy = this.#slabs.length - this.#freeSlabs.length;
    const atOnce = busy < this.#piscina.maxThreads ? 1 : 0;
    const worthIt = Math.floor(this.#pendingBytes / TASK_BYTES_MIN);
    return Math.min(this.#freeSlabs.length, Math.max(atOnce, worthIt));
  }

  async #hash(slab: number, lanesMax: number): Promise<void> {
    const { lanes, pieces } = this.#gather(this.#slab(slab), lanesMax);
    try {
      const answers = lanes.length > 0 ? await this.#repeat({ slab, pieces }) : [];
      for (const [i, answer] of answers.entries()) lanes[i]?.answer(answer);
    } catch (error) {
      for (const lane of lanes) this.#fail(lane, error);
    }
    this.#freeSlabs.push(slab);
    for (const lane of lanes) {
      lane.place = 'idle';
      if (lane.closed) this.#lanes.delete(lane);
      this.#enqueue(lane);
    }
    this.#schedule();
  }

  /** Fills a slab from the head of the queue, an equal share for each document. */
  #gather(slab: Uint8Array, lanesMax: number): { lanes: Lane[]; pieces: HashTask['pieces'] } {
    const lanes: Lane[] = [];
    const pieces: HashTask['pieces'] = [];
    const share = Math.max(SHARE_BYTES_MIN, Math.floor(SLAB_BYTES / lanesMax));
    let offset = 0;
    while (lanes.length < lanesMax && offset + share <= SLAB_BYTES) {
      const lane = this.#queue.shift();
      if (lane === undefined) break;
      lane.place = 'idle';
      if (!lane.hasWork) continue;
      const { engine } = lane;
      const length = lane.take(slab.subarray(offset, offset + share));
      this.#pendingBytes -= length;
      const last = lane.ended && lane.pendingBytes === 0;
      pieces.push({ engine, ...(lane.state && { state: lane.state }), offset, length, last });
      lane.place = 'busy';
      lanes.push(lane);
      offset += length;
    }
    return { lanes, pieces };
  }

  async #repeat(task: HashTask): Promise<Hashed[]> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.#run(task);
      } catch (error) {
        if (this.#closed) throw error;
        this.#onTrouble(error);
        if (attempt === ATTEMPTS_MAX) throw new Error('a hash task failed for good', { cause: error });
      }
    }
  }

  async #run(task: HashTask): Promise<Hashed[]> {
    // Piscina leaves a task waiting for ever when its worker's module no longer loads.
    const { promise: expired, reject } = Promise.withResolvers<never>();
    const lost = () => reject(new Error(`no hash worker answered within ${this.#taskTimeoutMs} ms`));
    const timer = setTimeout(lost, this.#taskTimeoutMs);
    try {
      return await Promise.race([this.#piscina.run(task), expired]);
    } finally {
      clearTimeout(timer);
    }
  }

  #fail(lane: Lane, error: unknown): void {
    this.#pendingBytes -= lane.pendingBytes;
    lane.fail(error);
  }

  #slab(index: number): Uint8Array {
    const slab = this.#slabs[index];
    assert(slab !== undefined, 'a slab for every index');
    return new Uint8Array(slab);
  }
}
