/** How much memory is in use, garbage excluded. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');

/** Collects all garbage of this thread. */
export const collectGarbage: () => void = runInNewContext('gc');

/** Bytes of objects and of buffers. */
export function bytesInUse(): number {
  collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
