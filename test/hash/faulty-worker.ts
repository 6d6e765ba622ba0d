import { randomBytes } from 'node:crypto';
import { workerData } from 'node:worker_threads';
import type { Hashed } from '../../src/hash/engine.ts';
import {
  hash as hashSoundly,
  type SlabPiece,
  type WasmTask,
  type WasmWorkerData,
} from '../../src/hash/wasmWorker.ts';

const { slabs } = workerData as WasmWorkerData;

/**
 * As `wasmWorker.ts`, but a piece that starts with `die` or `hang` and a count above zero makes it do so. The count goes down
 * in the slab first, where the engine's repetition finds it. A document in one piece that holds `mishash` gets a wrong digest, another one each time.
 */
export async function hash(task: WasmTask): Promise<Hashed[]> {
  const slab = Buffer.from(slabs[task.slab] ?? new ArrayBuffer(0));
  for (const { offset } of task.pieces) {
    if (countDown(slab, offset, 'die')) process.exit(1);
    if (countDown(slab, offset, 'hang')) await new Promise(() => {});
  }
  const answers = hashSoundly(task);
  return answers.map((answer, i) => (isMishashed(slab, task.pieces[i]) ? withWrongSha512(answer) : answer));
}

function isMishashed(slab: Buffer, piece: SlabPiece | undefined): boolean {
  return piece !== undefined && slab.subarray(piece.offset, piece.offset + piece.length).includes('mishash');
}

function withWrongSha512(hashed: Hashed): Hashed {
  return 'state' in hashed ? hashed : { ...hashed, sha512: randomBytes(64).toString('hex') };
}

function countDown(slab: Buffer, offset: number, word: string): boolean {
  const at = offset + word.length;
  const count = slab[at] ?? 0;
  if (slab.toString('latin1', offset, at) !== word || count === 0) return false;
  slab[at] = count - 1;
  return true;
}
