import { constants, fstatSync, openSync, writeSync } from 'node:fs';
import { Socket } from 'node:net';
import { toRfc3339 } from './clock.ts';
import { codeOf } from './systemReason.ts';

/** How long a line may wait to be written together with others. */
const LINE_DELAY_MS_MAX = 100;
const LINES_LENGTH_MIN = 4096;
/** Limit on lines that wait for a reader, in UTF-16 code units. */
const WAITING_LENGTH_MAX = 1_048_576;
/** A pipe holds 64 KiB, so a reader can get at least 6 MiB/s. */
const RETRY_MS = 10;
/** How long an exiting process waits for a reader. */
const LAST_LINES_MS_MAX = 500;

/**
 * Writes bytes of whole lines, as many as possible without waiting, and returns how many. Throws an Error with the code EAGAIN if none can
 * be written at the moment, and any other Error if the bytes are lost.
 */
export type LogOutput = (bytes: Buffer) => number;

/**
 * Writes the lines of the log to its output, several at a time, because a system call per line costs a busy daemon a tenth of its time. The
 * remaining lines are written when the process exits, unless an unhandled signal ends it.
 *
 * Work is more important than its log: a full disk or a hanging reader costs lines, but neither time nor memory. Lost lines are counted,
 * and the log states how many are missing as soon as it can be written again.
 *
 * sonic-boom, which pino uses, does not promise that: with a hanging reader or a full disk, a process that flushes it never ends.
 */
export class LogWriter {
  readonly #output: LogOutput;
  #lines: string[] = [];
  #length = 0;
  /** Bytes of lines taken from `#lines` but not yet written; they may begin in the middle of a line. */
  #unwritten: Buffer = Buffer.alloc(0);
  #isBlocked = false;
  /** Whether the output ends in the middle of a line whose rest was lost. */
  #isTorn = false;
  #lost = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(output: LogOutput) {
    this.#output = output;
    process.on('exit', () => this.flushSync());
  }

  write(line: string): void {
    if (this.#length + line.length > WAITING_LENGTH_MAX) {
      this.#lost += 1;
      return;
    }
    this.#lines.push(line);
    this.#length += line.length;
    if (this.#length >= LINES_LENGTH_MIN && !this.#isBlocked) this.#flush();
    else this.#timer ??= setTimeout(() => this.#flush(), LINE_DELAY_MS_MAX).unref();
  }

  /** Writes as much as possible within half a second. pino calls this after `fatal`, when the process is about to exit. */
  flushSync(): void {
    const sleeper = new Int32Array(new SharedArrayBuffer(4));
    for (let waitedMs = 0; ; waitedMs += RETRY_MS) {
      this.#flush();
      if (!this.#isBlocked || waitedMs >= LAST_LINES_MS_MAX) return;
      Atomics.wait(sleeper, 0, 0, RETRY_MS);
    }
  }

  #flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#isBlocked = false;
    try {
      this.#writeUnwritten();
      if (this.#lost > 0) this.#reportLost();
      this.#unwritten = Buffer.from(this.#lines.join(''));
      this.#lines = [];
      this.#length = 0;
      this.#writeUnwritten();
    } catch (error) {
      if (codeOf(error) === 'EAGAIN') this.#tryLater();
      else this.#loseAll();
    }
  }

  #writeUnwritten(): void {
    while (this.#unwritten.length > 0) {
      const written = this.#output(this.#unwritten);
      this.#isTorn = this.#unwritten[written - 1] !== NEWLINE;
      this.#unwritten = this.#unwritten.subarray(written);
    }
  }

  #reportLost(): void {
    const time = toRfc3339(Date.now());
    const report = { level: 'warn', time, event: 'lines_lost', lines: this.#lost, msg: LINES_LOST };
    const line = Buffer.from(`${this.#isTorn ? '\n' : ''}${JSON.stringify(report)}\n`);
    this.#isTorn = this.#output(line) < line.length;
    this.#lost = 0;
  }

  #tryLater(): void {
    this.#isBlocked = true;
    this.#timer = setTimeout(() => this.#flush(), RETRY_MS).unref();
  }

  #loseAll(): void {
    this.#lost += this.#lines.length + this.#unwritten.filter((byte) => byte === NEWLINE).length;
    this.#lines = [];
    this.#length = 0;
    this.#unwritten = Buffer.alloc(0);
  }
}

const LINES_LOST = 'lines of this log are missing here: they could not be written';
const NEWLINE = 0x0a;

/** Writes to a file descriptor of any kind. */
export function toDescriptor(fd: number): LogOutput {
  const ready = withoutBlocking(fd);
  return (bytes) => writeSync(ready, bytes);
}

/**
 * A blocking write would stop the daemon, or, in another thread, its exit. libuv makes a pipe or socket non-blocking when a Socket takes it
 * over; it may belong to another user, so it cannot be opened again. A terminal is opened again because the shell shares it. Files do not
 * block.
 */
function withoutBlocking(fd: number): number {
  const kind = fstatSync(fd);
  if (kind.isFIFO() || kind.isSocket()) sockets.push(new Socket({ fd, readable: false }).unref());
  return kind.isCharacterDevice() ? reopened(fd) : fd;
}

/** Never released: a Socket that is garbage-collected closes its descriptor. */
const sockets: Socket[] = [];

function reopened(fd: number): number {
  try {
    return openSync(`/proc/self/fd/${fd}`, constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  } catch {
    return fd; // another user's terminal
  }
}
