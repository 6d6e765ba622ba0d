import { workerData } from 'node:worker_threads';
import type { Hashed } from './engine.ts';
import { openWasm } from './wasm.ts';

/** The data that every worker gets when it starts. */
export interface WasmWorkerData {
  /** Shared memory for the bytes of tasks, so that the bytes are neither cloned nor lost with a worker. */
  slabs: SharedArrayBuffer[];
}

export interface WasmTask {
  /** Index of the slab that holds the bytes. */
  slab: number;
  pieces: SlabPiece[];
}

/** A piece with its bytes in the slab. */
export interface SlabPiece {
  state?: Uint8Array;
  offset: number;
  length: number;
  last: boolean;
}

const { slabs } = workerData as WasmWorkerData;
const wasm = await openWasm();

/** The function that a Piscina worker runs. It keeps no state between tasks: any worker can run any task, and run it again. */
export function hash({ slab, pieces }: WasmTask): Hashed[] {
  const memory = slabs[slab];
  if (memory === undefined) throw new RangeError(`no slab ${slab}`);
  return pieces.map(({ offset, length, ...rest }) =>
    wasm({ ...rest, bytes: new Uint8Array(memory, offset, length) }),
  );
}
