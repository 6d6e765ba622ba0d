import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { until } from '../support/until.ts';

/** What a machine has before pdfseald comes: Debian with systemd, a SoftHSM in the place of an HSM, and curl as the client. */
const PACKAGES = ['systemd', 'systemd-sysv', 'dbus', 'softhsm2', 'curl', 'procps', 'libstdc++6'];
const SUITE = 'bookworm';
/** What is made once, Debian's tree for one, and kept from run to run. */
const CACHE = '/var/tmp/pdfseald-appliance';

/** A file or folder of that name in there, made by `make` at the path it is told where it is not there yet. */
export function cached(name: string, make: (draft: string) => void): string {
  const path = join(CACHE, name);
  if (existsSync(path)) return path;
  mkdirSync(CACHE, { recursive: true });
  const draft = `${path}.part`;
  rmSync(draft, { recursive: true, force: true });
  make(draft);
  renameSync(draft, path);
  return path;
}

/** How nspawn ends when the machine asks for a reboot (EXIT_FORCE_RESTART). */
const REBOOT = 133;

export interface Ran {
  status: number | null;
  stdout: string;
  stderr: string;
}

/** A Debian that is really booted, by systemd-nspawn, without a network. */
export class Machine {
  /** Its root folder, seen from outside. */
  readonly root: string;
  #nspawn: ChildProcess;

  private constructor(root: string) {
    this.root = root;
    this.#nspawn = this.#powerOn();
  }

  static async boot(): Promise<Machine> {
    const base = baseTree();
    const root = mkdtempSync(join(CACHE, 'machine-'));
    execFileSync('cp', ['-a', '--reflink=auto', `${base}/.`, root]);
    const machine = new Machine(root);
    await machine.booted();
    return machine;
  }

  #powerOn(): ChildProcess {
    const options = ['--boot', '--private-network', '--register=no', '--keep-unit', '--console=pipe'];
    const nspawn = spawn('systemd-nspawn', [...options, '-M', 'appliance', '-D', this.root], {
      stdio: 'ignore',
    });
    nspawn.once('exit', (status) => {
      if (status === REBOOT) this.#nspawn = this.#powerOn();
    });
    return nspawn;
  }

  /** Resolves when everything that starts at boot has started. */
  async booted(): Promise<void> {
    await until(
      'the machine is up',
      () => /running|degraded/.test(this.run('systemctl is-system-running').stdout),
      120,
    );
  }

  /** Runs a line of shell as root in the machine. */
  run(line: string, input = ''): Ran {
    const leader = this.#leader();
    if (leader === undefined) return { status: null, stdout: '', stderr: 'the machine is down' };
    return spawnSync('nsenter', enter(leader, line), { encoding: 'utf8', input });
  }

  /** Like {@link run}; throws unless it ends with 0. Its standard output, trimmed. */
  must(line: string, input?: string): string {
    const { status, stdout, stderr } = this.run(line, input);
    if (status !== 0) throw new Error(`${line}\nended with ${status}: ${stdout}${stderr}`);
    return stdout.trim();
  }

  /** Starts a line of shell and does not wait. */
  start(line: string): ChildProcess {
    return spawn('nsenter', enter(this.#leader() ?? '', line), { stdio: 'ignore' });
  }

  /** Process id of its init, seen from outside. Throws while the machine is down. */
  get leader(): string {
    const leader = this.#leader();
    if (leader === undefined) throw new Error('the machine is down');
    return leader;
  }

  async reboot(): Promise<void> {
    const before = this.#leader();
    this.run('systemctl reboot');
    await until('the machine goes down', () => this.#leader() !== before, 120);
    await this.booted();
  }

  close(): void {
    this.#nspawn.kill('SIGKILL');
    const leader = this.#leader();
    if (leader !== undefined) process.kill(Number(leader), 'SIGKILL');
    rmSync(this.root, { recursive: true, force: true });
  }

  /** Process id of the machine's init; a reboot makes a new one. */
  #leader(): string | undefined {
    const { pid } = this.#nspawn;
    const file = `/proc/${pid}/task/${pid}/children`;
    return existsSync(file) ? readFileSync(file, 'utf8').split(' ')[0] || undefined : undefined;
  }
}

/** Nothing of the environment comes along: what tap has Node load is not in there. */
function enter(leader: string, line: string): string[] {
  const variables = ['PATH=/usr/sbin:/usr/bin:/sbin:/bin', 'HOME=/root', 'LANG=C.UTF-8'];
  return ['-t', leader, '-a', 'env', '-i', ...variables, 'bash', '-c', line];
}

function baseTree(): string {
  const digest = createHash('sha256')
    .update([SUITE, ...PACKAGES].join())
    .digest('hex')
    .slice(0, 12);
  return cached(`base-${digest}`, (draft) => {
    const args = ['--variant=minbase', `--include=${PACKAGES.join(',')}`, SUITE, draft];
    execFileSync('debootstrap', args, { stdio: ['ignore', 'ignore', 'inherit'] });
  });
}
