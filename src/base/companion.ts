import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process';
import { connect, type Socket } from 'node:net';
import type { Duplex, Readable } from 'node:stream';

/** How a helper process is started as a child. */
export interface CompanionProgram {
  /** Path of the program. */
  program: string;
  /** As shown by `ps`. */
  args: readonly string[];
  /** Options of Node. */
  execArgv: readonly string[];
  /** The complete environment of the child. */
  environment: Readonly<Record<string, string>>;
  /** Startup options: its permissions, and who it works for. {@link readCharter} returns them before any data arrives on the stream. */
  charter: unknown;
  /** Called with each line of its output. */
  onOutput(line: string): void;
}

/** The descriptor of a helper process's stream, both in a child and in a unit. */
export const STREAM_FD = 3;
/** Maximum length of a piece of output that is passed on as one line. */
const OUTPUT_LINE_CHARS_MAX = 500;

/**
 * A program that works for this one in a process of its own: a child, or, behind a Unix socket, a child of a unit's spawner. In either case
 * the connection is one stream of bytes. The stream ends when the helper process ends, and the helper process ends when the stream does.
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
    // `gone` has the reason; without a listener, an error of the stream would end this process.
    stream.on('error', () => {});
  }

  /** Starts a child. A failure to start it is reported by `gone`. */
  static start({ charter, onOutput, ...program }: CompanionProgram): Companion {
    const child = startChild(program, charter, ['pipe', 'pipe', 'pipe', 'pipe']);
    const gone = new Promise<string>((resolve) => {
      child.once('exit', (code, signal) => resolve(`the process ended with ${signal ?? `status ${code}`}`));
      child.once('error', (error) => child.pid === undefined && resolve(error.message));
    });
    for (const output of [child.stdout, child.stderr]) splitOutput(output, onOutput);
    return new Companion(child.stdio[STREAM_FD] as Socket, gone, child);
  }

  /** Connects to the socket of a unit. If no process listens there, `gone` reports it. */
  static reach(socket: string): Companion {
    const stream = connect(socket);
    let reason = 'the unit closed the connection';
    stream.once('error', (error) => {
      reason = error.message;
    });
    const gone = new Promise<string>((resolve) => stream.once('close', () => resolve(reason)));
    return new Companion(stream, gone);
  }

  /** Undefined for a unit. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Kills a child; closes the connection to a unit, whose spawner then ends the helper process. */
  kill(): void {
    this.#child?.kill('SIGKILL');
    this.stream.destroy();
  }
}

/** Starts a helper process. Its startup options are sent on its standard input, which stays open while this process lives. */
export function startChild(
  { program, args, execArgv, environment }: Omit<CompanionProgram, 'charter' | 'onOutput'>,
  charter: unknown,
  stdio: StdioOptions,
): ChildProcess {
  const child = spawn(process.execPath, [...execArgv, program, ...args], { env: environment, stdio });
  child.stdin?.on('error', () => {}); // it ended before it read its startup options
  child.stdin?.write(`${JSON.stringify(charter)}\n`);
  return child;
}

/** Passes on the output of a helper process, line by line; a longer line comes in pieces. The pipe's buffer limits the rest. */
function splitOutput(output: Readable | null, onOutput: (line: string) => void): void {
  let begun = '';
  const pass = (line: string) => {
    if (line.trim() !== '') onOutput(line);
  };
  output?.setEncoding('utf8').on('data', (text: string) => {
    const lines = (begun + text).split('\n');
    begun = lines.pop() ?? '';
    for (const line of lines) for (const piece of piecesOf(line)) pass(piece);
    if (begun.length < OUTPUT_LINE_CHARS_MAX) return;
    for (const piece of piecesOf(begun)) pass(piece);
    begun = '';
  });
  output?.on('end', () => pass(begun));
}

function piecesOf(line: string): string[] {
  const count = Math.ceil(line.length / OUTPUT_LINE_CHARS_MAX);
  return Array.from({ length: count }, (_, n) =>
    line.slice(n * OUTPUT_LINE_CHARS_MAX, (n + 1) * OUTPUT_LINE_CHARS_MAX),
  );
}
