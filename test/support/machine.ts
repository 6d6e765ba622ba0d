import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import type { Test } from 'tap';

/** A machine of its own has its own root; root outside does without. */
const WAYS = [['--user', '--map-root-user'], []];

export interface MachineOptions {
  /** Options of unshare(1) for what the machine has to itself. */
  apart: readonly string[];
  /** Lines for a shell that runs there first. */
  script: string;
}

/** A network of its own, in which only the loopback is. */
const NETWORK: MachineOptions = { apart: ['--net'], script: 'ip link set lo up' };

/** What runs there sees this machine but for what is apart; by default that is its network. */
export class Machine {
  /** What a command line begins with, to run there. */
  readonly enter: readonly string[];

  private constructor(enter: readonly string[]) {
    this.enter = enter;
  }

  /** Throws if the kernel does not let this user make one: root may, and others if there are user namespaces. */
  static async open(t: Pick<Test, 'teardown'>, options = NETWORK): Promise<Machine> {
    const way = WAYS.find((flags) => isAllowed([...flags, ...options.apart]));
    if (way === undefined)
      throw new Error('this user may not make a machine: allow user namespaces, or be root');
    const spaces = [...way, ...options.apart];
    const script = `set -e\n${options.script}\necho up\nexec sleep infinity`;
    const child = spawn('unshare', [...spaces, 'sh', '-c', script], { stdio: ['ignore', 'pipe', 'inherit'] });
    t.teardown(() => child.kill('SIGKILL'));
    const [isUp] = await Promise.race([once(child.stdout, 'data'), once(child, 'exit')]);
    if (String(isUp) !== 'up\n') throw new Error(`the machine ended with ${isUp}`);
    const entered = spaces.filter((flag) => flag !== '--map-root-user');
    return new Machine(['nsenter', `--target=${child.pid}`, ...entered, '--preserve-credentials']);
  }

  /** Whether this user can make one that has all of this to itself. */
  static isPossible({ apart }: Pick<MachineOptions, 'apart'>): boolean {
    return WAYS.some((flags) => isAllowed([...flags, ...apart]));
  }

  /** Runs a program there, and returns what it prints. Throws if it fails. */
  run(cwd: string, ...line: string[]): string {
    const [command = '', ...args] = [...this.enter, ...line];
    return execFileSync(command, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  }
}

function isAllowed(flags: readonly string[]): boolean {
  return spawnSync('unshare', [...flags, 'true']).status === 0;
}
