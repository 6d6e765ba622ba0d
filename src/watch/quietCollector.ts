import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

const CHECK_INTERVAL_MS = 5000;
/** A process is quiet if its event loop was busy for at most this share of the last interval. */
const BUSY_SHARE_MAX = 0.1;
/** The heap must have grown by this much since the last collection. */
const GROWTH_BYTES_MIN = 32 * 2 ** 20;

/** The heap, as measured and collected by a {@link QuietCollector}. */
export interface Heap {
  /** The share of the time since the last call in which the event loop was busy. */
  busyShare(): number;
  /** Bytes that the heap occupies, whether in use or not. */
  bytes(): number;
  /** Collects all garbage, and returns the memory to the system. Never rejects. */
  collect(): Promise<void>;
}

/**
 * Returns the memory of a busy period to the system when the process has become quiet. On its own, V8 considers the daemon busy while its
 * timers run, and keeps the memory for almost two minutes. A collection stops the process for some 50 ms, so it is done only in quiet
 * periods.
 */
export class QuietCollector {
  readonly #heap: Heap;
  readonly #timer: NodeJS.Timeout;
  #bytesBefore: number;

  constructor(heap: Heap = new OwnHeap()) {
    this.#heap = heap;
    this.#bytesBefore = heap.bytes();
    this.#timer = setInterval(() => void this.check(), CHECK_INTERVAL_MS).unref();
  }

  /** Collects if the process is quiet and its heap has grown. Never rejects. */
  async check(): Promise<void> {
    const isQuiet = this.#heap.busyShare() <= BUSY_SHARE_MAX;
    if (!isQuiet || this.#heap.bytes() < this.#bytesBefore + GROWTH_BYTES_MIN) return;
    await this.#heap.collect();
    this.#bytesBefore = this.#heap.bytes();
  }

  close(): void {
    clearInterval(this.#timer);
  }
}

/** The heap of this thread. */
export class OwnHeap implements Heap {
  readonly #collect: NodeJS.GCFunction;
  #last = performance.eventLoopUtilization();

  constructor() {
    setFlagsFromString('--expose-gc');
    this.#collect = runInNewContext('gc') as NodeJS.GCFunction;
    setFlagsFromString('--no-expose-gc');
  }

  busyShare(): number {
    const now = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(now, this.#last);
    this.#last = now;
    return utilization;
  }

  bytes(): number {
    return getHeapStatistics().total_heap_size;
  }

  async collect(): Promise<void> {
    // Any other flavor keeps the emptied pages.
    await this.#collect({ type: 'major', execution: 'async', flavor: 'last-resort' });
  }
}
