import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';
import { until } from './until.ts';

/** `RestartSec=` of systemd, by default. */
const RESTART_MS = 100;
/** It also ends with the process of the test, however that ends. */
const TOGETHER = ['setpriv', '--pdeathsig', 'KILL'];

/**
 * A program behind a PKCS#11 module, with a process group of its own. It ends with `t`, and can be stopped and started before. If it ends by
 * itself, it is started again, as its unit does.
 */
export class DeviceProgram {
  readonly #line: readonly string[];
  readonly #env: Record<string, string>;
  #child: ChildProcess | undefined;

  constructor(t: Pick<Test, 'teardown'>, line: readonly string[], env: Record<string, string>) {
    this.#line = line;
    this.#env = { PATH: '/usr/bin:/bin', ...env };
    t.teardown(() => this.stop());
  }

  /** Resolves once it is `ready`. */
  async start(ready: () => boolean | Promise<boolean>): Promise<void> {
    this.#run();
    await until(`${this.#line.join(' ')} is ready`, ready);
  }

  #run(): void {
    const [program = '', ...args] = [...TOGETHER, ...this.#line];
    const stdio: SpawnOptions['stdio'] = ['ignore', 'ignore', 'inherit'];
    const child = spawn(program, args, { env: this.#env, stdio, detached: true });
    this.#child = child;
    child.once('close', async () => {
      await sleep(RESTART_MS);
      if (this.#child === child) this.#run();
    });
  }

  async stop(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child?.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
    process.kill(-child.pid, 'SIGKILL');
    await once(child, 'close');
  }
}
