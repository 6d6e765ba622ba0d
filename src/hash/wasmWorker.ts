import { workerData } from 'node:worker_threads';
import type { Hashed } from './engine.ts';
import { openWasm } from './wasm.ts';

/** Given to every worker at its start. */
export interface WasmWorkerData {
  /** Where the engine puts the bytes of tasks, so that they are neither cloned nor lost with a worker. */
  slabs: SharedArrayBuffer[];
}

export interface WasmTask {
  /** Index of the slab that holds the bytes. */
  slab: number;
  pieces: SlabPiece[];
}

/** A piece whose bytes lie in the slab. */
export interface SlabPiece {
  state?: Uint8Array;
  offset: number;
  length: number;
  last: boolean;
}

const { slabs } = workerData as WasmWorkerData;
const wasm = await openWasm();

/** What a Piscina worker runs. Keeps nothing between tasks: any worker can do any task, and do it again. */
export function hash({ slab, pieces }: WasmTask): Hashed[] {
  const memory = slabs[slab];
  if (memory === undefined) throw new RangeError(`no slab ${slab}`);
  return pieces.map(({ offset, length, ...rest }) =>
    wasm({ ...rest, bytes: new Uint8Array(memory, offset, length) }),
  );
}
