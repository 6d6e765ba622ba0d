/**
 * Runs in a thread of a helper process, whose main thread can hang, for example inside a vendor's module. Ends the process when its parent
 * has ended, or when its own deadline has passed.
 */
import { Socket } from 'node:net';
import { workerData } from 'node:worker_threads';
import { LIFELINE_FD } from './companionProgram.ts';

/** Time for the main thread to exit in an orderly way, if it still runs. */
const GRACE_MS = 500;
const CHECK_INTERVAL_MS = 100;

/** A single number: the deadline, in nanoseconds of `process.hrtime`; 0 for no limit. */
const deadline = new BigInt64Array(workerData as SharedArrayBuffer);

function end(): void {
  process.kill(process.pid, 'SIGKILL');
}

const lifeline = new Socket({ fd: LIFELINE_FD, readable: true, writable: false });
lifeline.on('error', () => lifeline.destroy());
lifeline.on('close', () => setTimeout(end, GRACE_MS));
lifeline.resume();
setInterval(() => {
  const at = Atomics.load(deadline, 0);
  if (at !== 0n && process.hrtime.bigint() > at) end();
}, CHECK_INTERVAL_MS);
