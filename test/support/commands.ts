import { createRequire } from 'node:module';
import { Readable, Writable } from 'node:stream';
import type * as Commands from '../../src/cli/run.ts';
import { ENVIRONMENT } from './daemon.ts';
import { programFile } from './programs.ts';

export interface RunResult {
  status: number | null;
  /** What ended it where it has no status. */
  signal: NodeJS.Signals | null;
  stdout: string;
  stderr: string;
}

export interface CommandOptions {
  /** Added to a nearly empty environment. */
  env?: Record<string, string>;
  /** What it reads from standard input; without it there is none. */
  input?: string | Uint8Array;
}

/**
 * Runs a command line of `pdfseal` in the process of the test, which takes the time of the command alone. What a process does
 * besides (start, end by a signal, write to a terminal, have a folder to work in) needs one: {@link programFile}.
 */
export async function pdfseal(
  args: readonly string[],
  { env = {}, input }: CommandOptions = {},
): Promise<RunResult> {
  const { run } = createRequire(import.meta.url)(await programFile('cli/run', 'src')) as typeof Commands;
  const [stdout, stderr] = [new Sink(), new Sink()];
  const process = {
    argv: ['node', 'pdfseal', ...args],
    env: { ...ENVIRONMENT, ...env },
    stdin: Readable.from(input === undefined ? [] : [Buffer.from(input)]),
    stdout,
    stderr,
    exitCode: 0,
  };
  await run(process);
  return { status: process.exitCode, signal: null, stdout: stdout.text(), stderr: stderr.text() };
}

/** Has what was written as soon as it was. */
class Sink extends Writable {
  readonly #chunks: Buffer[] = [];

  override _write(chunk: Buffer, _: BufferEncoding, done: () => void): void {
    this.#chunks.push(chunk);
    done();
  }

  text(): string {
    return Buffer.concat(this.#chunks).toString();
  }
}
