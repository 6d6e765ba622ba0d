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
  cwd?: string;
}

/** The folder is that of the whole process, so it is there for one command at a time. */
let isAway = false;

/**
 * Runs a command line of `pdfseal` in the process of the test, which takes the time of the command alone. What a process does
 * besides (start, end by a signal, write to a terminal) needs one: {@link programFile}.
 */
export async function pdfseal(
  args: readonly string[],
  { env = {}, input, cwd }: CommandOptions = {},
): Promise<RunResult> {
  const { run } = createRequire(import.meta.url)(await programFile('cli/run', 'src')) as typeof Commands;
  const [stdout, stderr] = [new Sink(), new Sink()];
  const own = {
    argv: ['node', 'pdfseal', ...args],
    env: { ...ENVIRONMENT, ...env },
    stdin: Readable.from(input === undefined ? [] : [Buffer.from(input)]),
    stdout,
    stderr,
    exitCode: 0,
  };
  await (cwd === undefined ? run(own) : runIn(cwd, () => run(own)));
  return { status: own.exitCode, signal: null, stdout: stdout.text(), stderr: stderr.text() };
}

async function runIn(cwd: string, work: () => Promise<void>): Promise<void> {
  if (isAway) throw new Error('another command is at work in its folder: run one of the two apart');
  const home = process.cwd();
  process.chdir(cwd);
  isAway = true;
  try {
    await work();
  } finally {
    process.chdir(home);
    isAway = false;
  }
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
