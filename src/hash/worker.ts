import { workerData } from 'node:worker_threads';
import type { Hashed } from './engine.ts';
import { openWasmEngine } from './wasm.ts';

/** Given to every worker at its start. */
export interface HashWorkerData {
  /** Where the pool puts the bytes of tasks, so that they are neither cloned nor lost with a worker. */
  slabs: SharedArrayBuffer[];
}

export interface HashTask {
  /** Index of the slab that holds the bytes. */
  slab: number;
  pieces: { state?: Uint8Array; offset: number; length: number; last: boolean }[];
}

const { slabs } = workerData as HashWorkerData;
const engine = openWasmEngine();

/** What a Piscina worker runs. Keeps nothing between tasks: any worker can do any task, and do it again. */
export async function hash(task: HashTask): Promise<Hashed[]> {
  const slab = slabs[task.slab];
  if (slab === undefined) throw new RangeError(`no slab ${task.slab}`);
  const pieces = task.pieces.map(({ offset, length, ...rest }) => ({
    ...rest,
    bytes: new Uint8Array(slab, offset, length),
  }));
  return (await engine).hash(pieces);
}
