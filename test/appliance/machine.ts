import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { until } from '../support/until.ts';

/** What a machine has before pdfseald comes: Debian with systemd, a SoftHSM in the place of an HSM, and curl as the client. */
const PACKAGES = ['systemd', 'systemd-sysv', 'dbus', 'softhsm2', 'curl', 'procps', 'libstdc++6'];
/** The release of Debian that is booted. */
const RELEASE = process.env.DEBIAN_RELEASE ?? 'bookworm';
const NAME = 'appliance';
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

/** Two systemds in one control group would take each other's processes for their own. */
const IN_ITS_GROUPS = `
  for tree in /sys/fs/cgroup /sys/fs/cgroup/systemd /sys/fs/cgroup/unified; do
    [ -e "$tree/cgroup.procs" ] || continue
    mkdir -p "$tree/$0" && echo $$ >"$tree/$0/cgroup.procs"
  done
  exec systemd-nspawn "$@"`;

/** How nspawn ends when the machine asks for a reboot (EXIT_FORCE_RESTART). */
const REBOOT = 133;

export interface MachineOptions {
  /** Its name, and a folder of its own in each tree of control groups, so that several run at once. */
  name?: string;
  /** Debian packages beside those that every machine has. */
  packages?: readonly string[];
  /** Path of the network namespace that it has together with others. Default: one of its own. */
  network?: string;
  /** Folders of this computer that several machines share, each as `<folder>:<where it is in the machine>`. */
  shared?: readonly string[];
}

export interface Ran {
  status: number | null;
  stdout: string;
  stderr: string;
}

/** A Debian that is really booted, by systemd-nspawn, without a network. */
export class Machine {
  /** Its root folder, seen from outside. */
  readonly root: string;
  readonly #options: MachineOptions;
  #nspawn: ChildProcess;

  private constructor(root: string, options: MachineOptions) {
    this.root = root;
    this.#options = options;
    this.#nspawn = this.#powerOn();
  }

  static async boot(options: MachineOptions = {}): Promise<Machine> {
    const base = baseTree(options.packages);
    const root = mkdtempSync(join(CACHE, 'machine-'));
    execFileSync('cp', ['-a', '--reflink=auto', `${base}/.`, root]);
    writeFileSync(join(root, 'etc/hostname'), `${options.name ?? NAME}\n`);
    const machine = new Machine(root, options);
    await machine.booted();
    return machine;
  }

  #powerOn(): ChildProcess {
    const { name = NAME, network, shared = [] } = this.#options;
    const options = ['--boot', '--register=no', '--keep-unit', '--console=pipe', '-M', name, '-D', this.root];
    // A machine lets its processes lock memory; a container does not by default.
    options.push('--system-call-filter=@memlock');
    options.push(network === undefined ? '--private-network' : `--network-namespace-path=${network}`);
    for (const folder of shared) options.push(`--bind=${folder}`);
    const nspawn = spawn('sh', ['-c', IN_ITS_GROUPS, `pdfseal-${name}-${process.pid}`, ...options], {
      stdio: 'ignore',
      // Releases have no other hierarchy by default, and systemd filters addresses in no other.
      env: { ...process.env, UNIFIED_CGROUP_HIERARCHY: '1' },
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

  /** As by the switch: nothing in it ends in order. */
  powerOff(): void {
    const leader = this.#leader();
    this.#nspawn.kill('SIGKILL');
    if (leader !== undefined) process.kill(Number(leader), 'SIGKILL');
  }

  /** After {@link powerOff}. */
  async powerOn(): Promise<void> {
    await until('it is off', () => this.#nspawn.signalCode !== null);
    this.#nspawn = this.#powerOn();
    await this.booted();
  }

  close(): void {
    this.powerOff();
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

function baseTree(more: readonly string[] = []): string {
  const packages = [...PACKAGES, ...more];
  const digest = createHash('sha256')
    .update([RELEASE, ...packages].join())
    .digest('hex')
    .slice(0, 12);
  return cached(`base-${digest}`, (draft) => {
    const args = ['--variant=minbase', `--include=${packages.join(',')}`, RELEASE, draft];
    execFileSync('debootstrap', args, { stdio: ['ignore', 'ignore', 'inherit'] });
  });
}
