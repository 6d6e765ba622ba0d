import { type ChildProcess, type ForkOptions, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';

/**
 * The folder and the processes of a run. Whatever ends the run, an error or Ctrl-C too, {@link close} leaves neither
 * behind. The folder holds gigabytes in a full run.
 */
export class Workspace {
  readonly dir: string;
  readonly #closers = new Set<() => Promise<void>>();

  constructor(parent: string) {
    this.dir = mkdtempSync(join(parent, 'pdfseal-bench-'));
  }

  /** A new, empty folder. */
  folder(name: string): string {
    const path = join(this.dir, name);
    mkdirSync(path);
    return path;
  }

  /** Starts a script of ours with a message channel; it ends when the channel closes. */
  start(script: string, args: string[], options: ForkOptions = {}): ChildProcess {
    const child = fork(join(import.meta.dirname, script), args, { serialization: 'advanced', ...options });
    this.onClose(() => stop(child));
    return child;
  }

  /** Something else to undo at the end, such as a daemon to stop. */
  onClose(closer: () => Promise<void>): void {
    this.#closers.add(closer);
  }

  async close(): Promise<void> {
    await Promise.allSettled(Array.from(this.#closers, (closer) => closer()));
    rmSync(this.dir, { recursive: true, force: true });
  }
}

const STOP_TIMEOUT_MS = 10_000;

/** Ends a child by closing its channel, or by force when that does not do, and returns when it is gone. */
export async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  const timer = setTimeout(() => child.kill('SIGKILL'), child.connected ? STOP_TIMEOUT_MS : 0);
  if (child.connected) child.disconnect();
  await exited;
  clearTimeout(timer);
}

/** The next message of a child; rejects when it ends without one. */
export async function nextMessage<T>(child: ChildProcess): Promise<T> {
  const ended = new AbortController();
  const onExit = (code: number | null) => ended.abort(new Error(`${child.spawnfile} ended early (${code})`));
  child.once('exit', onExit);
  try {
    const [message] = await once(child, 'message', { signal: ended.signal });
    return message as T;
  } catch (error) {
    throw ended.signal.aborted ? ended.signal.reason : error;
  } finally {
    child.off('exit', onExit);
  }
}
