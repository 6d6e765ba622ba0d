import { spawn } from 'node:child_process';
import { once } from 'node:events';
import http from 'node:http';
import https from 'node:https';
import { createRequire } from 'node:module';
import { Readable, Writable } from 'node:stream';
import type * as Commands from '../../src/cli/run.ts';
import { collect, ENVIRONMENT } from './daemon.ts';
import { programFile } from './programs.ts';

export interface RunResult {
  status: number | null;
  /** What ended it where it has no status. */
  signal: NodeJS.Signals | null;
  stdout: string;
  stderr: string;
}

export interface RunOptions {
  /** Added to a nearly empty environment. */
  env?: Record<string, string>;
  cwd?: string;
  /** What it reads from standard input; without it there is none. */
  input?: string | Uint8Array;
}

export interface CommandOptions extends RunOptions {
  /** In a process of its own, for a test of what a process has to itself, or while the test has the same store open. */
  apart?: true;
  /** Standard output is a terminal; not for a process of its own. */
  terminal?: true;
  /** As a person at a terminal, who types `input`; not for a process of its own. */
  person?: true;
}

/** A process has one folder to work in, and opens a store once: meanwhile further commands have processes of their own. */
let isBusy = false;

/** Runs a command line of `pdfseal` in the process of the test, which takes the time of the command alone. */
export async function pdfseal(args: readonly string[], options: CommandOptions = {}): Promise<RunResult> {
  if (options.apart === true || isBusy)
    return runProgram([process.execPath, await programFile('cli', 'src'), ...args], options);
  isBusy = true;
  const home = process.cwd();
  try {
    const { run } = createRequire(import.meta.url)(await programFile('cli/run', 'src')) as typeof Commands;
    process.chdir(options.cwd ?? home);
    return await runHere(run, args, options);
  } finally {
    // The end of a process closes its connections. A later command would be the first to notice that the server did.
    for (const { freeSockets } of [http.globalAgent, https.globalAgent])
      for (const idle of Object.values(freeSockets).flat()) idle?.destroy();
    process.chdir(home);
    isBusy = false;
  }
}

async function runHere(
  run: typeof Commands.run,
  args: readonly string[],
  { env, input, terminal, person }: CommandOptions,
): Promise<RunResult> {
  const sink = (isTTY = false) => Object.assign(new Sink(), isTTY && { isTTY });
  const [stdout, stderr] = [sink(terminal), sink(person)];
  const own = {
    argv: ['node', 'pdfseal', ...args],
    env: { ...ENVIRONMENT, ...env },
    stdin: Object.assign(Readable.from(input === undefined ? [] : [Buffer.from(input)]), {
      isTTY: person === true,
    }),
    stdout,
    stderr,
    exitCode: 0,
  };
  await run(own);
  return { status: own.exitCode, signal: null, stdout: stdout.text, stderr: stderr.text };
}

/** Has what was written as soon as it was. */
class Sink extends Writable {
  readonly #chunks: Buffer[] = [];

  override _write(chunk: Buffer, _: BufferEncoding, done: () => void): void {
    this.#chunks.push(chunk);
    done();
  }

  get text(): string {
    return Buffer.concat(this.#chunks).toString();
  }
}

/** Runs a program, and waits for its end. */
export async function runProgram(
  [program = '', ...args]: readonly string[],
  { env, cwd, input }: RunOptions,
): Promise<RunResult> {
  const child = spawn(program, args, {
    env: { ...ENVIRONMENT, ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
    ...(cwd !== undefined && { cwd }),
  });
  // Who ends before reading it all closes it.
  child.stdin.on('error', () => {}).end(input);
  const [stdout, stderr] = [collect(child.stdout), collect(child.stderr)];
  const [status, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null];
  return { status, signal, stdout: stdout(), stderr: stderr() };
}
