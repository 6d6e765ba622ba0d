import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/** Another process, running one of the programs beside this file. It speaks in lines on its standard output. */
export class Child {
  readonly process: ChildProcess;
  readonly lines: string[] = [];
  readonly #exited: Promise<unknown>;
  readonly #output: Promise<unknown>;
  #isGone = false;
  #wake: () => void = () => undefined;

  constructor(program: string, ...args: string[]) {
    const path = fileURLToPath(new URL(program, import.meta.url));
    // Without what tap preloads into every child: it handles signals, which is what these tests are about.
    const command = ['-u', 'NODE_OPTIONS', process.execPath, path, ...args];
    this.process = spawn('env', command, { stdio: ['pipe', 'pipe', 'ignore'] });
    this.#exited = once(this.process, 'exit');
    if (this.process.stdout === null) throw new Error('the child has no output');
    const output = createInterface({ input: this.process.stdout });
    output.on('line', (line) => {
      this.lines.push(line);
      this.#wake();
    });
    this.#output = once(output, 'close');
    void this.gone().then(() => {
      this.#isGone = true;
      this.#wake();
    });
  }

  get pid(): number {
    return this.process.pid ?? 0;
  }

  /** Resolves with the first line that begins so; rejects when the child ends without one. */
  async line(beginning: string): Promise<string> {
    for (;;) {
      const found = this.lines.find((line) => line.startsWith(beginning));
      if (found !== undefined) return found;
      if (this.#isGone)
        throw new Error(
          `the child ended without "${beginning}": ${this.process.exitCode ?? this.process.signalCode}`,
        );
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  say(line: string): void {
    this.process.stdin?.write(`${line}\n`);
  }

  /** Resolves when the child is gone and all it said has been read. */
  async gone(): Promise<void> {
    await Promise.all([this.#exited, this.#output]);
  }

  async kill(): Promise<void> {
    this.process.kill('SIGKILL');
    await this.gone();
  }
}
