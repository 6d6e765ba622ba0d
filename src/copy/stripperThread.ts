/**
 * The thread of a stripper that communicates with its parent process, while the main thread searches or waits for bytes. It ends the
 * process when the stream or standard input ends, because the main thread can hang.
 */
import { Socket } from 'node:net';
import { parentPort, workerData } from 'node:worker_threads';
import { LIFELINE_FD, openStream } from '../base/companionProgram.ts';
import { encodeFrame } from '../base/frames.ts';
import { free } from '../base/memory.ts';
import { HEAD_BYTES, isGiven, parseHead, type StripperMessage, type TaskHead } from './stripperMessages.ts';

const { bytes, arrived } = workerData as { bytes: SharedArrayBuffer; arrived: Int32Array };

function end(): void {
  process.kill(process.pid, 'SIGKILL');
}

const lifeline = new Socket({ fd: LIFELINE_FD, readable: true, writable: false });
lifeline.on('error', end).on('close', end).resume();

const stream = openStream();
stream.on('close', end);

/** The expected input: the head of a task, or the bytes that the main thread waits for. */
let next: Buffer = Buffer.alloc(HEAD_BYTES);
let filled = 0;
/** The task whose document is arriving. */
let given: TaskHead | undefined;
/** Whether the main thread asks for the bytes of its document. Then nothing else may arrive. */
let isAsking = false;
let isReady = false;
stream.on('data', (chunk: Buffer) => {
  const tasks: TaskHead[] = [];
  for (let rest = chunk; rest.length > 0; ) {
    if (filled === next.length) return end(); // unexpected bytes
    const count = rest.copy(next, filled);
    rest = rest.subarray(count);
    filled += count;
    if (filled < next.length) continue;
    if (isAsking) {
      Atomics.store(arrived, 0, 1);
      Atomics.notify(arrived, 0);
    } else if (given !== undefined) {
      tasks.push({ ...given, document: next.buffer as ArrayBuffer });
      given = undefined;
      expect(Buffer.alloc(HEAD_BYTES));
    } else {
      const task = parseHead(next);
      if (isGiven(task)) begin(task);
      else {
        isAsking = true;
        tasks.push(task);
      }
    }
  }
  free(chunk);
  // Those that arrive together wake the main thread once.
  const documents = tasks.flatMap(({ document }) => document ?? []);
  if (tasks.length > 0) parentPort?.postMessage(tasks, documents);
});

function begin(task: TaskHead): void {
  // For other tasks it asks for bytes, which says the same.
  if (!isReady) stream.write(encodeFrame({ ready: true } satisfies StripperMessage));
  isReady = true;
  given = task;
  expect(Buffer.allocUnsafeSlow(task.documentBytes));
}

function expect(what: Buffer): void {
  next = what;
  filled = 0;
}

parentPort?.on('message', (messages: StripperMessage[]) => {
  for (const message of messages) {
    if ('read' in message) expect(Buffer.from(bytes, 0, message.read[1]));
    if (isAsking && ('refused' in message || 'plan' in message)) {
      isAsking = false;
      expect(Buffer.alloc(HEAD_BYTES));
    }
  }
  stream.write(Buffer.concat(messages.map(encodeFrame)));
});
