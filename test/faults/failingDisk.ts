/** A round on a disk of its own, which fills, freezes, or breaks: this file is also the program that plays it, in a mount namespace. */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, readdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { collect, ENVIRONMENT } from '../support/daemon.ts';
import type { Code } from '../support/programs.ts';
import { emptyDisk, fillDisk } from '../support/smallDisk.ts';
import { until } from '../support/until.ts';
import { STORE_UNWRITABLE } from './failingCalls.ts';
import { type PlayedRound, playRound, type Round } from './play.ts';
import { SITE } from './workload.ts';

const PROGRAM = fileURLToPath(import.meta.url);
const MIB = 2 ** 20;
const DISK_BYTES = 128 * MIB;
/** Below, no job is accepted; and at a quarter of it, writes wait. */
const FREE_BYTES_MIN = 48 * MIB;
/** So often in a round. */
const EVENTS = 3;
/** So many creates are answered while a fault lasts. */
const ANSWERS = 3;
/** A disk that is full or broken is noticed with the next commits. */
const NOTICE_SECONDS = 60;
const RECOVERY_SECONDS_MAX = 120;

interface DiskOptions {
  code?: Code;
  /** Names of {@link EVENTS_OF_DISK}, each in turn; default: of all, so many as the seed says. */
  events?: string[];
  /** How long a daemon may take to seal again; a mutant that never does is not waited for. */
  recoverySeconds?: number;
}

/** Needs root, for a file system in a namespace: what is mounted there ends with the last process in it. */
export async function failDisk(seed: number, options: DiskOptions = {}): Promise<PlayedRound> {
  const args = ['--mount', '--propagation', 'private', process.execPath, PROGRAM];
  args.push(JSON.stringify({ seed, ...options }));
  const child = spawn('unshare', args, { env: ENVIRONMENT, stdio: ['ignore', 'pipe', 'pipe'] });
  const [stdout, stderr] = [collect(child.stdout), collect(child.stderr)];
  const [status, signal] = (await once(child, 'close')) as [number | null, string | null];
  if (status === 0) return JSON.parse(stdout()) as PlayedRound;
  return { ending: `ended with ${status ?? signal}`, against: stderr().trimEnd().split('\n'), broken: {} };
}

/** An ext4 file system in a file beside the state, mounted over the state of the daemon, which is stopped then. */
class StateDisk {
  readonly #image: string;
  readonly state: string;

  constructor(dir: string) {
    this.#image = join(dir, 'disk');
    this.state = join(dir, 'state');
    writeFileSync(this.#image, '');
    truncateSync(this.#image, DISK_BYTES);
    run('mkfs.ext4', '-q', '-F', '-m', '0', this.#image);
    const kept = `${this.state}.kept`;
    cpSync(this.state, kept, { recursive: true });
    this.mount();
    move(kept, this.state);
    run('sync', '--file-system', this.state);
  }

  mount(): void {
    run('mount', '-o', 'loop', this.#image, this.state);
  }

  unmount(): void {
    run('umount', this.state);
  }

  /** Signers of a daemon that was killed may still have files open. */
  drop(): void {
    run('umount', '--lazy', this.state);
  }

  remount(option: 'ro' | 'rw' | 'abort'): void {
    run('mount', '-o', `remount,${option}`, this.state);
  }

  /** As an administrator does after the kernel has found the disk broken. */
  repair(): void {
    this.unmount();
    run('e2fsck', '-fy', this.#image);
    this.mount();
  }

  /** Gives the state back to the folder. */
  leave(): void {
    const kept = `${this.state}.kept`;
    cpSync(this.state, kept, { recursive: true });
    this.unmount();
    move(kept, this.state);
  }
}

function move(from: string, to: string): void {
  for (const name of readdirSync(to)) rmSync(join(to, name), { recursive: true });
  cpSync(from, to, { recursive: true, preserveTimestamps: true });
  rmSync(from, { recursive: true });
}

/** e2fsck ends with 1 when it has corrected something. */
function run(command: string, ...args: string[]): void {
  try {
    execFileSync(command, args, { stdio: 'pipe' });
  } catch (error) {
    if (command !== 'e2fsck' || (error as { status?: number }).status !== 1) throw error;
  }
}

const EVENTS_OF_DISK: Record<string, (round: Round, disk: StateDisk) => Promise<void>> = {
  async 'filled and freed'(round, { state }) {
    fillDisk(state, Math.floor(FREE_BYTES_MIN * (0.5 + 0.25 * round.random())));
    await refusesUntil(round, () => emptyDisk(state));
  },

  async 'filled to the last byte and freed'(round, { state }) {
    fillDisk(state, 0);
    await refusesUntil(round, () => emptyDisk(state));
  },

  async 'filled to the last byte, killed, freed'(round, { state }) {
    fillDisk(state, 0);
    await refusesUntil(round, async () => {
      await round.daemon.kill();
      const starting = round.start();
      await sleep(round.random() * 1000);
      emptyDisk(state);
      await starting;
    });
  },

  async frozen(round, { state }) {
    run('fsfreeze', '--freeze', state);
    try {
      await sleep(500 + round.random() * 4000);
    } finally {
      run('fsfreeze', '--unfreeze', state);
    }
  },

  async 'read-only at the start'(round, disk) {
    await round.daemon.stop();
    disk.remount('ro');
    await refusesToStart(round);
    disk.remount('rw');
    await round.start();
  },

  async 'broken, so read-only'(round, disk) {
    disk.remount('abort');
    const ended = await Promise.race([
      round.daemon.ended(),
      sleep(NOTICE_SECONDS * 1000, 'not at all', { ref: false }),
    ]);
    if (ended !== 70 && ended !== STORE_UNWRITABLE)
      round.workload.history.faults.push(`on a disk that became read-only, it ended with ${ended}`);
    await round.daemon.kill();
    await refusesToStart(round);
    disk.repair();
    await round.start();
  },
};

/** A disk that is full: every create is refused, and nothing else is wrong. */
async function refusesUntil({ workload }: Round, free: () => Promise<void> | void): Promise<void> {
  const isRefused = async () => (await workload.sealOne())?.code === 'storage_full';
  await until('a full disk is noticed', isRefused, NOTICE_SECONDS);
  for (let answers = 0; answers < ANSWERS; answers++) {
    const answer = await workload.sealOne();
    if (answer?.status !== 503 || answer.code !== 'storage_full')
      workload.history.faults.push(`on a full disk, a create was answered ${JSON.stringify(answer)}`);
  }
  await free();
}

async function refusesToStart({ sandbox, workload }: Round): Promise<void> {
  const { status, signal, stderr } = await sandbox.pdfseald();
  if (status !== 1 || !stderr.includes('read-only file system'))
    workload.history.faults.push(`on a read-only disk, its start ended with ${status ?? signal}: ${stderr}`);
}

/** Two seeds have all. */
function eventsOf(seed: number): string[] {
  const names = Object.keys(EVENTS_OF_DISK);
  const first = seed * EVENTS + Math.floor(seed / names.length);
  return Array.from({ length: EVENTS }, (_, n) => names[(first + n * 5) % names.length] ?? '');
}

async function disturbDisk(
  round: Round,
  disk: StateDisk,
  { events, recoverySeconds }: Required<Pick<DiskOptions, 'events' | 'recoverySeconds'>>,
): Promise<void> {
  for (const name of events) {
    await round.workload.administer(round.daemon);
    await EVENTS_OF_DISK[name]?.(round, disk);
    const begun = performance.now();
    const isBack = until(`it seals after ${name}`, () => round.workload.isSealing(), recoverySeconds);
    // What has become of the promises shows more.
    await isBack.catch((error) => round.workload.history.faults.push(String(error)));
    round.recoveryMs = Math.max(round.recoveryMs, performance.now() - begun);
  }
}

async function playDisk({
  seed,
  code = 'dist',
  events = eventsOf(seed),
  recoverySeconds = RECOVERY_SECONDS_MAX,
}: DiskOptions & { seed: number }): Promise<PlayedRound> {
  const disturb = async (round: Round) => {
    await round.daemon.stop();
    const disk = new StateDisk(round.sandbox.dir);
    try {
      await round.start();
      await disturbDisk(round, disk, { events, recoverySeconds });
      await round.daemon.stop();
      disk.leave();
    } catch (error) {
      await round.sandbox.kill();
      disk.drop();
      throw error;
    }
    await round.start();
    return 'went on';
  };
  const tail = `${SITE.tail}\n[storage]\nfree_bytes_min = "${FREE_BYTES_MIN / MIB}MiB"\n`;
  return playRound(seed, disturb, { code, site: { tail } });
}

if (process.argv[1] === PROGRAM)
  process.stdout.write(JSON.stringify(await playDisk(JSON.parse(process.argv[2] ?? ''))));
