/**
 * Runs in a thread of a companion, whose main thread can hang, for one inside a vendor's module. Ends the process when whoever started it is
 * gone, or when a deadline of its own has passed.
 */
import { Socket } from 'node:net';
import { workerData } from 'node:worker_threads';
import { LIFELINE_FD } from './companionProgram.ts';

/** Left to the main thread for an orderly exit, if it still runs. */
const GRACE_MS = 500;
const CHECK_INTERVAL_MS = 100;

/** One number: when the process is late, in nanoseconds of `process.hrtime`; 0 while nothing limits it. */
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
