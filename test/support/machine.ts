import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import type { Test } from 'tap';

/** A network of its own, and root in it; root outside does without its users. */
const WAYS = [['--user', '--map-root-user', '--net'], ['--net']];

/** What runs there sees the files of this machine, and no network but its own loopback. */
export class Machine {
  /** What a command line begins with, to run there. */
  readonly enter: readonly string[];

  private constructor(enter: readonly string[]) {
    this.enter = enter;
  }

  /** Throws where the kernel lets this user make no network: as root, or with user namespaces, it does. */
  static async open(t: Test): Promise<Machine> {
    const way = WAYS.find((flags) => spawnSync('unshare', [...flags, 'true']).status === 0);
    if (way === undefined)
      throw new Error('this user may not make a network: allow user namespaces, or be root');
    const script = 'ip link set lo up && echo up && exec sleep infinity';
    const child = spawn('unshare', [...way, 'sh', '-c', script], { stdio: ['ignore', 'pipe', 'inherit'] });
    t.teardown(() => child.kill('SIGKILL'));
    await once(child.stdout, 'data');
    const spaces = way.filter((flag) => flag !== '--map-root-user');
    return new Machine(['nsenter', `--target=${child.pid}`, ...spaces, '--preserve-credentials']);
  }

  /** Runs a program there, and returns what it prints. Throws if it fails. */
  run(cwd: string, ...line: string[]): string {
    const [command = '', ...args] = [...this.enter, ...line];
    return execFileSync(command, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  }
}
