import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { until } from './until.ts';

/** Only what processes need to run: no key, no proxy and no configuration of whoever started the tests. */
export const ENVIRONMENT = {
  PATH: process.env.PATH ?? '/usr/bin:/bin',
  HOME: tmpdir(),
  LANG: 'C.UTF-8',
  // Hundreds of processes are started from the same sources: half of their time went into reading those.
  NODE_COMPILE_CACHE: fileURLToPath(new URL('../../node_modules/.cache/compiled', import.meta.url)),
};

const LOG_LINES_MAX = 10_000;

/** A running `pdfseald`. */
export class Daemon {
  readonly child: ChildProcess;
  /** The last lines of its log, parsed, as they come. */
  readonly log: Record<string, unknown>[] = [];
  /** Rejects when the process ends before it listens. */
  readonly listening: Promise<void>;
  readonly #ended: Promise<number | string>;
  #stderr: () => string;

  constructor(child: ChildProcess, port: number) {
    this.child = child;
    this.#stderr = child.stderr ? collect(child.stderr) : () => '';
    this.#ended = once(child, 'close').then(([status, signal]) => (status ?? signal) as number | string);
    this.listening = this.#waitForListening(port);
  }

  get pid(): number {
    return this.child.pid ?? -1;
  }

  /** What it wrote to standard error so far. */
  get stderr(): string {
    return this.#stderr();
  }

  /** SIGTERM, and its exit status (or the signal that ended it). */
  stop(): Promise<number | string> {
    this.child.kill('SIGTERM');
    return this.#ended;
  }

  /** SIGKILL: what a power cut looks like to a process. Resolves when it is gone. */
  kill(): Promise<number | string> {
    this.child.kill('SIGKILL');
    return this.#ended;
  }

  /** Exit status, or the signal that ended it. */
  ended(): Promise<number | string> {
    return this.#ended;
  }

  #waitForListening(port: number): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.child.stdout) this.#readLog(this.child.stdout, resolve);
      else this.#pollPort(port).then(resolve, reject);
      void this.#ended.then((how) => reject(new Error(`pdfseald ended with ${how}: ${this.#stderr()}`)));
    });
  }

  async #pollPort(port: number): Promise<void> {
    const hasEnded = () => this.child.exitCode !== null || this.child.signalCode !== null;
    await until('it listens', async () => hasEnded() || (await isListening(port)));
    if (hasEnded()) await new Promise(() => {}); // How it ended tells why it never listened.
  }

  #readLog(input: NodeJS.ReadableStream, onListening: () => void): void {
    createInterface({ input }).on('line', (line) => {
      const entry = JSON.parse(line) as Record<string, unknown>;
      this.log.push(entry);
      if (this.log.length > LOG_LINES_MAX) this.log.shift();
      if (entry.msg === 'listening') onListening();
    });
  }
}

/** Whether somebody accepts connections at that port of the loopback. */
export function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}

/** Gathers what a stream gives; the result tells what it was so far. */
export function collect(stream: NodeJS.ReadableStream): () => string {
  const chunks: Buffer[] = [];
  stream.on('data', (chunk: Buffer) => chunks.push(chunk));
  return () => Buffer.concat(chunks).toString();
}
