/**
 * The thread of a stripper that communicates with its parent process, while the main thread searches or waits for bytes. It ends the
 * process when the stream or standard input ends, because the main thread can hang.
 */
import { Socket } from 'node:net';
import { parentPort, workerData } from 'node:worker_threads';
import { LIFELINE_FD, openStream } from '../base/companionProgram.ts';
import { encodeFrame } from '../base/frames.ts';
import { LENGTH_BYTES, type StripperMessage } from './stripperMessages.ts';

const { bytes, arrived } = workerData as { bytes: SharedArrayBuffer; arrived: Int32Array };

function end(): void {
  process.kill(process.pid, 'SIGKILL');
}

const lifeline = new Socket({ fd: LIFELINE_FD, readable: true, writable: false });
lifeline.on('error', end).on('close', end).resume();

const stream = openStream();
stream.on('close', end);

/** The expected input: the length of a document, or the bytes that the main thread waits for. */
let next: Buffer = Buffer.alloc(LENGTH_BYTES);
let filled = 0;
stream.on('data', (chunk: Buffer) => {
  for (let rest = chunk; rest.length > 0; ) {
    if (filled === next.length) return end(); // unexpected bytes
    const count = rest.copy(next, filled);
    rest = rest.subarray(count);
    filled += count;
    if (filled < next.length) continue;
    if (next.buffer === bytes) {
      Atomics.store(arrived, 0, 1);
      Atomics.notify(arrived, 0);
    } else parentPort?.postMessage(Number(next.readBigUInt64BE()));
  }
});

function expect(what: Buffer): void {
  next = what;
  filled = 0;
}

parentPort?.on('message', (message: StripperMessage) => {
  if ('read' in message) expect(Buffer.from(bytes, 0, message.read[1]));
  if ('refused' in message) expect(Buffer.alloc(LENGTH_BYTES));
  stream.write(encodeFrame(message));
});
