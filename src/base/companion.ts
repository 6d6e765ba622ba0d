import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process';
import { connect, type Socket } from 'node:net';
import type { Duplex, Readable } from 'node:stream';

/** How a companion is started as a child process. */
export interface CompanionProgram {
  /** Path of the program. */
  program: string;
  /** For `ps`. */
  args: readonly string[];
  /** Options of Node. */
  execArgv: readonly string[];
  /** All that it inherits. */
  environment: Readonly<Record<string, string>>;
  /** What it may do and whom for: {@link readCharter} has it before anything comes over the stream. */
  charter: unknown;
  /** Told of each line of its output. */
  onOutput(line: string): void;
}

/** The descriptor of a companion's stream, in a child as in a unit. */
export const STREAM_FD = 3;
/** Longest piece of a companion's output that is passed on as one line. */
const OUTPUT_LINE_CHARS_MAX = 500;

/**
 * A program that works for this one in a process of its own: a child, or a child of a unit's keeper behind a Unix socket. Either way it is one
 * stream of bytes, which ends with the companion, and at whose end the companion ends.
 */
export class Companion {
  readonly stream: Duplex;
  /** Resolves, with the reason, when a child no longer exists, or when the connection to a unit is closed. Never rejects. */
  readonly gone: Promise<string>;
  readonly #child: ChildProcess | undefined;

  private constructor(stream: Duplex, gone: Promise<string>, child?: ChildProcess) {
    this.stream = stream;
    this.gone = gone;
    this.#child = child;
    // `gone` says why; without a listener, an error of the stream would end this process.
    stream.on('error', () => {});
  }

  /** Starts a child. That it cannot be started is a reason to be `gone`. */
  static start({ charter, onOutput, ...program }: CompanionProgram): Companion {
    const child = startChild(program, charter, ['pipe', 'pipe', 'pipe', 'pipe']);
    const gone = new Promise<string>((resolve) => {
      child.once('exit', (code, signal) => resolve(`the process ended with ${signal ?? `status ${code}`}`));
      child.once('error', (error) => child.pid === undefined && resolve(error.message));
    });
    for (const output of [child.stdout, child.stderr]) splitOutput(output, onOutput);
    return new Companion(child.stdio[STREAM_FD] as Socket, gone, child);
  }

  /** Connects to the socket of a unit. That nobody listens is a reason to be `gone`. */
  static reach(socket: string): Companion {
    const stream = connect(socket);
    let reason = 'the unit closed the connection';
    stream.once('error', (error) => {
      reason = error.message;
    });
    const gone = new Promise<string>((resolve) => stream.once('close', () => resolve(reason)));
    return new Companion(stream, gone);
  }

  /** Of a child. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Ends a child by force; closes the connection to a unit, whose keeper then ends the companion. */
  kill(): void {
    this.#child?.kill('SIGKILL');
    this.stream.destroy();
  }
}

/** Starts a companion whose charter is on its standard input, which stays open as long as this process lives. */
export function startChild(
  { program, args, execArgv, environment }: Omit<CompanionProgram, 'charter' | 'onOutput'>,
  charter: unknown,
  stdio: StdioOptions,
): ChildProcess {
  const child = spawn(process.execPath, [...execArgv, program, ...args], { env: environment, stdio });
  child.stdin?.on('error', () => {}); // it ended before it read the charter
  child.stdin?.write(`${JSON.stringify(charter)}\n`);
  return child;
}

/** Passes on the output of a companion, bounded per line and by the buffer of the pipe. */
function splitOutput(output: Readable | null, onOutput: (line: string) => void): void {
  output?.setEncoding('utf8').on('data', (text: string) => {
    for (const line of text.split('\n')) {
      if (line.trim() !== '') onOutput(line.slice(0, OUTPUT_LINE_CHARS_MAX));
    }
  });
}
