/** What of a running daemon must not grow, and how it is read. */
import { readdirSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import type { AdminStatus } from '../../src/admin/statusSchema.ts';
import { childrenOf } from '../bench/memory.ts';
import { askAdmin } from '../support/admin.ts';
import type { Sandbox } from '../support/sandbox.ts';

/** Names as the table shows them, and the most by which each may grow in an hour. */
export const LIMITS = {
  'daemon: memory of its own, MiB': 16,
  'signers: memory of their own, MiB': 16,
  'egress: memory of its own, MiB': 16,
  'daemon: descriptors': 6,
  'signers: descriptors': 6,
  'egress: descriptors': 6,
  'all: threads': 3,
  'event loop: delay (99 %), ms': 20,
  'store: bytes in use per leaf': 200,
  'store: free pages, MiB': 64,
  'store: age of the oldest reader, s': 60,
} as const;

export type Quantity = keyof typeof LIMITS;

const MIB = 2 ** 20;

/** All of them at one moment. */
export async function readQuantities(sandbox: Sandbox, pid: number): Promise<Record<Quantity, number>> {
  const status = (await askAdmin(sandbox, '/status')).json<AdminStatus>();
  const { store, log, event_loop_delay_ms: delay } = status;
  const free = store.free_bytes ?? 0;
  const family = familyOf(pid);
  const sum = (role: string | undefined, read: (pid: number) => number) =>
    family
      .filter((member) => role === undefined || member.role === role)
      .reduce((total, member) => total + read(member.pid), 0);
  return {
    'daemon: memory of its own, MiB': sum('daemon', ownMemory) / MIB,
    'signers: memory of their own, MiB': sum('signer', ownMemory) / MIB,
    'egress: memory of its own, MiB': sum('egress', ownMemory) / MIB,
    'daemon: descriptors': sum('daemon', descriptors),
    'signers: descriptors': sum('signer', descriptors),
    'egress: descriptors': sum('egress', descriptors),
    'all: threads': sum(undefined, threads),
    'event loop: delay (99 %), ms': delay.p99,
    'store: bytes in use per leaf': (store.bytes - free) / Math.max(1, log.tree_size),
    'store: free pages, MiB': free / MIB,
    'store: age of the oldest reader, s': store.oldest_reader?.age_seconds ?? 0,
  };
}

interface Member {
  pid: number;
  role: 'daemon' | 'signer' | 'egress' | 'other';
}

/** The daemon and what it started. */
function familyOf(daemon: number): Member[] {
  const below = (pid: number): Member[] =>
    childrenOf(pid).flatMap((child) => [{ pid: child, role: roleOf(child) }, ...below(child)]);
  return [{ pid: daemon, role: 'daemon' }, ...below(daemon)];
}

/** By the program that a process runs. */
function roleOf(pid: number): Member['role'] {
  const names = ofProcess(() => readFileSync(`/proc/${pid}/cmdline`, 'utf8'), '')
    .split('\0')
    .map((argument) => basename(argument, '.js'));
  return (['egress', 'signer'] as const).find((role) => names.includes(role)) ?? 'other';
}

/** Not what is a page of a file, and shared only in part. */
function ownMemory(pid: number): number {
  const text = ofProcess(() => readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'), '');
  return Number(/^Pss_Anon:\s+(\d+) kB$/m.exec(text)?.[1] ?? 0) * 1024;
}

function descriptors(pid: number): number {
  return ofProcess(() => readdirSync(`/proc/${pid}/fd`).length, 0);
}

function threads(pid: number): number {
  return ofProcess(() => readdirSync(`/proc/${pid}/task`).length, 0);
}

/** A process may end at any moment. */
function ofProcess<T>(read: () => T, gone: T): T {
  try {
    return read();
  } catch {
    return gone;
  }
}
