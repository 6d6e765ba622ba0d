import { workerData } from 'node:worker_threads';
import { assert } from '../base/assert.ts';
import type { Engine, EngineName, Hashed } from './engine.ts';
import { openNativeEngine } from './native.ts';
import { openWasmEngine } from './wasm.ts';

/** Given to every worker at its start. */
export interface HashWorkerData {
  /** Where the pool puts the bytes of tasks, so that they are neither cloned nor lost with a worker. */
  slabs: SharedArrayBuffer[];
}

export interface HashTask {
  /** Index of the slab that holds the bytes. */
  slab: number;
  pieces: TaskPiece[];
}

/** A {@link Piece} whose bytes lie in the slab. */
export interface TaskPiece {
  engine: EngineName;
  state?: Uint8Array;
  offset: number;
  length: number;
  last: boolean;
}

const { slabs } = workerData as HashWorkerData;
/** Opened by the first task that asks for it: the pool's probe, unless the pool has no use for it. */
const engines = new Map<EngineName, Promise<Engine>>();

/** What a Piscina worker runs. Keeps nothing between tasks: any worker can do any task, and do it again. */
export async function hash({ slab, pieces }: HashTask): Promise<Hashed[]> {
  const memory = slabs[slab];
  if (memory === undefined) throw new RangeError(`no slab ${slab}`);
  const answers = new Map<TaskPiece, Hashed | undefined>();
  for (const [name, group] of Map.groupBy(pieces, ({ engine }) => engine)) {
    const engine = await engineOf(name);
    const hashed = engine.hash(
      group.map(({ offset, length, ...rest }) => ({
        ...rest,
        bytes: new Uint8Array(memory, offset, length),
      })),
    );
    for (const [i, piece] of group.entries()) answers.set(piece, hashed[i]);
  }
  return pieces.map((piece) => {
    const answer = answers.get(piece);
    assert(answer !== undefined, 'an engine answers every piece');
    return answer;
  });
}

function engineOf(name: EngineName): Promise<Engine> {
  const engine = engines.get(name) ?? openEngine(name);
  engines.set(name, engine);
  return engine;
}

async function openEngine(name: EngineName): Promise<Engine> {
  return name === 'native' ? openNativeEngine() : openWasmEngine();
}
