/**
 * Runs in a thread of the signer, whose main thread can hang inside a vendor's module. The parent holds the other end of
 * the pipe and never writes to it: its end, however the parent died, is the signal that nobody needs this process.
 */
import { Socket } from 'node:net';

/** The pipe's file descriptor in the signer: after stdin, stdout, stderr and the IPC channel. */
const LIFELINE_FD = 4;

/** Left to the main thread for an orderly exit, if it still runs. */
const GRACE_MS = 500;

const lifeline = new Socket({ fd: LIFELINE_FD, readable: true, writable: false });
lifeline.on('error', () => lifeline.destroy());
lifeline.on('close', () => setTimeout(() => process.kill(process.pid, 'SIGKILL'), GRACE_MS));
lifeline.resume();
