import { assert } from '../base/assert.ts';
import { toHex } from '../base/bytes.ts';
import { sha256, sha512 } from '../base/crypto.ts';
import { free } from '../base/memory.ts';
import type { Calibration } from './calibrate.ts';
import type { Engine, EngineName, Hashed, Piece } from './engine.ts';
import { crossChecked, type Hasher } from './hasher.ts';
import { Lane } from './lane.ts';
import { calibrateAddon, openNativeEngine } from './native.ts';
import { WasmEngine, type WasmEngineOptions } from './wasmEngine.ts';

/** If more bytes than this are pending, a document waits; if more are pending in the pool, all wait (and each keeps one chunk at most). */
const LANE_PENDING_BYTES_MAX = 256 * 1024;
const POOL_PENDING_BYTES_MAX = 16 * 1024 * 1024;

export interface HashPool {
  /** With `owned`, the chunks belong to the pool alone. The pool frees their memory as soon as they are hashed. */
  hasher(owned?: boolean): Hasher;
  /** The current load of the pool. */
  readonly load: HashLoad;
  /** Ends the engines. Documents in progress fail. */
  close(): Promise<void>;
}

export interface HashLoad {
  /** Documents in work, including those that wait for more bytes. */
  documents: number;
  /** Bytes that are not yet in a task. */
  pendingBytes: number;
  /** Tasks in work or waiting in the engine, and their largest number. */
  tasks: number;
  tasksMax: number;
}

export interface HashPoolOptions extends WasmEngineOptions {
  engine: EngineName;
  /** Calibration of the native engine; measured now if it is not given. */
  calibration?: Calibration | undefined;
  /**
   * The share of documents, 0 to 1, that both the native engine and WebAssembly hash. A document with different digests fails. Default 0.
   * Without the native engine, nothing can be compared.
   */
  crossCheckShare?: number;
}

/** Starts the threads and tests each engine with known answers, so that a broken engine fails here and not with a document. */
export async function openHashPool(options: HashPoolOptions): Promise<HashPool> {
  const share = options.engine === 'native' ? (options.crossCheckShare ?? 0) : 0;
  const pool = new EnginePool(
    options.engine === 'native'
      ? openNativeEngine(options.workers, options.calibration ?? calibrateAddon())
      : new WasmEngine(options),
  );
  // The second engine, for documents that both engines hash.
  const other = share > 0 ? new EnginePool(new WasmEngine({ ...options, workers: 1 })) : undefined;
  const close = async () => void (await Promise.all([pool.close(), other?.close()]));
  try {
    await Promise.all([pool.probe(), other?.probe()]);
  } catch (error) {
    await close();
    throw new Error('the hash workers did not start', { cause: error });
  }
  return {
    // Chosen at random, so that no order of documents can exclude one kind from the check.
    hasher: (owned = false) =>
      other && Math.random() < share
        ? crossChecked(pool.hasher(false), other.hasher(false))
        : pool.hasher(owned),
    get load() {
      return pool.load;
    },
    close,
  };
}

/**
 * In every turn of the event loop, the pool gathers the documents' pending bytes into tasks for the engine. Tasks
 * are independent of each other, so a slow upload occupies no thread.
 */
class EnginePool {
  readonly #engine: Engine;
  readonly #lanes = new Set<Lane>();
  readonly #queue: Lane[] = [];
  #tasks = 0;
  #pendingBytes = 0;
  #scheduled = false;
  #closed = false;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  hasher(owned: boolean): Hasher {
    const lane = new Lane(owned);
    this.#lanes.add(lane);
    return {
      update: (chunk) => this.#update(lane, chunk),
      digest: () => {
        lane.ended = true;
        this.#enqueue(lane);
        return lane.digests;
      },
      abort: () => this.#abort(lane),
    };
  }

  get load(): HashLoad {
    return {
      documents: this.#lanes.size,
      pendingBytes: this.#pendingBytes,
      tasks: this.#tasks,
      tasksMax: this.#engine.tasksMax,
    };
  }

  async probe(): Promise<void> {
    await Promise.all(Array.from({ length: this.#engine.tasksMax }, () => this.#probe()));
  }

  /** Engines treat a document in one piece and one in several pieces differently. Both ways are tested. */
  async #probe(): Promise<void> {
    const text = Buffer.from('abc');
    const [begun] = await this.#engine.hash([{ chunks: [text.subarray(0, 1)], last: false }]);
    assert(begun !== undefined && 'state' in begun, 'an engine returns states');
    const answers = await this.#engine.hash([
      { state: begun.state, chunks: [text.subarray(1, 2), text.subarray(2)], last: true },
      { chunks: [text], last: true },
    ]);
    assert(answers.length === 2, 'an engine answers every piece');
    for (const answer of answers) {
      assert('sha256' in answer, 'an engine returns digests');
      assert(answer.sha256 === toHex(sha256(text)), 'the hash engine computes SHA-256');
      assert(answer.sha512 === toHex(sha512(text)), 'the hash engine computes SHA-512');
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const lane of this.#lanes) this.#abort(lane);
    await this.#engine.close();
  }

  #update(lane: Lane, chunk: Uint8Array): Promise<void> | undefined {
    if (lane.closed) return lane.digests.then(() => {});
    lane.push(chunk);
    this.#pendingBytes += chunk.length;
    this.#enqueue(lane);
    const crowded = this.#pendingBytes >= POOL_PENDING_BYTES_MAX;
    return crowded || lane.pendingBytes >= LANE_PENDING_BYTES_MAX ? lane.room() : undefined;
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

  /** Runs after all sockets of this turn are read, so that bytes that arrive together are hashed together. */
  #schedule(): void {
    if (this.#closed || this.#scheduled || this.#queue.length === 0 || this.#tasks === this.#engine.tasksMax)
      return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      if (!this.#closed) this.#dispatch();
    });
  }

  #dispatch(): void {
    const tasks = this.#tasksDue();
    const lanesPerTask = Math.ceil(this.#queue.length / tasks);
    for (let sent = 0; sent < tasks && this.#queue.length > 0; sent += 1) void this.#hash(lanesPerTask);
  }

  /**
   * An idle thread gets all pending bytes. A busy thread gets only a full task; bytes that arrive while it is busy become its next task. So
   * small documents share tasks, and two large documents still keep two threads busy.
   */
  #tasksDue(): number {
    const { tasksMax, taskBytesMax } = this.#engine;
    const atOnce = this.#tasks < tasksMax / 2 ? 1 : 0;
    const worthIt = Math.floor(this.#pendingBytes / (taskBytesMax / 2));
    return Math.min(tasksMax - this.#tasks, Math.max(atOnce, worthIt));
  }

  /** Never rejects: an error fails the documents of the task. */
  async #hash(lanesMax: number): Promise<void> {
    const { lanes, pieces } = this.#gather(lanesMax);
    if (lanes.length === 0) return;
    this.#tasks += 1;
    try {
      const answers: readonly Hashed[] = await this.#engine.hash(pieces);
      for (const [i, answer] of answers.entries()) lanes[i]?.answer(answer);
    } catch (error) {
      for (const lane of lanes) this.#fail(lane, error);
    }
    this.#tasks -= 1;
    for (const [i, lane] of lanes.entries()) {
      if (lane.owned) pieces[i]?.chunks.forEach(free);
      lane.place = 'idle';
      if (lane.closed) this.#lanes.delete(lane);
      this.#enqueue(lane);
    }
    this.#schedule();
  }

  /** Takes documents from the head of the queue, with an equal share for each. */
  #gather(lanesMax: number): { lanes: Lane[]; pieces: Piece[] } {
    const lanes: Lane[] = [];
    const pieces: Piece[] = [];
    let room = this.#engine.taskBytesMax;
    const share = Math.max(this.#engine.shareBytesMin, Math.floor(room / lanesMax));
    while (lanes.length < lanesMax && room >= share) {
      const lane = this.#queue.shift();
      if (lane === undefined) break;
      lane.place = 'idle';
      if (!lane.hasWork) continue;
      const before = lane.pendingBytes;
      const chunks = lane.take(share);
      const taken = before - lane.pendingBytes;
      this.#pendingBytes -= taken;
      room -= taken;
      const last = lane.ended && lane.pendingBytes === 0;
      pieces.push({ state: lane.state, chunks, last });
      lane.place = 'busy';
      lanes.push(lane);
    }
    return { lanes, pieces };
  }

  #fail(lane: Lane, error: unknown): void {
    this.#pendingBytes -= lane.pendingBytes;
    lane.fail(error);
  }
}
