import { spawnSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmSync, statfsSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const MIB = 2 ** 20;
const PIECE = Buffer.alloc(MIB, 1);

/**
 * A file system that can be filled: a tmpfs of its own where this user may mount one, else the machine's, of which then only
 * the last {@link SmallDisk.usableBytes} are for us.
 */
export class SmallDisk {
  /** A new folder on it. */
  readonly dir: string;
  /** Whether it is ours alone, so that it can be filled to the last byte. */
  readonly isOwn: boolean;
  readonly mountPoint: string;
  readonly #floorBytes: number;

  constructor(usableBytes: number) {
    this.mountPoint = mkdtempSync(join(tmpdir(), 'pdfseal-disk-'));
    const mount = ['-t', 'tmpfs', '-o', `size=${usableBytes},mode=0755`, 'tmpfs', this.mountPoint];
    this.isOwn = process.getuid?.() === 0 && spawnSync('mount', mount).status === 0;
    const parent = this.isOwn ? this.mountPoint : '/dev/shm';
    this.#floorBytes = this.isOwn ? 0 : statfsFree(parent) - usableBytes;
    this.dir = mkdtempSync(join(parent, 'pdfseal-'));
  }

  /** What `storage.free_bytes_min` must be, so that so many of our bytes have to be free. */
  freeBytesMin(bytes: number): string {
    return `${Math.ceil((this.#floorBytes + bytes) / MIB)}MiB`;
  }

  /** Writes until so many of our bytes are left; with 0, until the disk takes no more. */
  fill(leaveBytes: number): void {
    fillDisk(this.dir, leaveBytes, this.#floorBytes);
  }

  empty(): void {
    emptyDisk(this.dir);
  }

  close(): void {
    rmSync(this.dir, { recursive: true, force: true });
    if (this.isOwn) spawnSync('umount', [this.mountPoint]);
    rmSync(this.mountPoint, { recursive: true, force: true });
  }
}

/** Writes a file into the folder until so many bytes above the floor are left on its disk; with 0, until the disk takes no more. */
export function fillDisk(dir: string, leaveBytes: number, floorBytes = 0): void {
  const file = openSync(ballastIn(dir), 'a');
  try {
    for (;;) {
      const excess = leaveBytes === 0 ? MIB : statfsFree(dir) - floorBytes - leaveBytes;
      if (excess < 4096) return;
      writeSync(file, PIECE, 0, Math.min(excess, MIB));
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
  } finally {
    closeSync(file);
  }
}

/** Removes what {@link fillDisk} wrote. */
export function emptyDisk(dir: string): void {
  rmSync(ballastIn(dir), { force: true });
}

function ballastIn(dir: string): string {
  return join(dir, 'ballast');
}

function statfsFree(path: string): number {
  const { bavail, bsize } = statfsSync(path);
  return bavail * bsize;
}
