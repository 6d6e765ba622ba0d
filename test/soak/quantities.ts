/** What of a running daemon must not grow, and how it is read. */
import { readdirSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { childrenOf } from '../bench/memory.ts';
import { askAdmin, parseMetrics, sampleOf } from '../support/admin.ts';
import type { Sandbox } from '../support/sandbox.ts';

/** Names as the table shows them, and the most by which each may grow in an hour. */
export const LIMITS = {
  'daemon: objects that outlived a collection, MiB': 8,
  'daemon: buffers, MiB': 8,
  // Collectors take more from the system for as long as the load grows, and give little back.
  'daemon: memory of its own, MiB': 64,
  'signers: memory of their own, MiB': 32,
  'egress: memory of its own, MiB': 32,
  'daemon: descriptors': 6,
  'signers: descriptors': 6,
  'egress: descriptors': 6,
  'all: threads': 3,
  // What else the machine does delays both.
  'event loop: delay (99 %), times that of the soak': 1,
  'store: bytes in use per leaf': 200,
  // As many as change while a backup reads, which takes longer with a larger store.
  'store: free pages, MiB': 128,
  'store: age of the oldest reader, s': 60,
} as const;

export type Quantity = keyof typeof LIMITS;

const MIB = 2 ** 20;

const ownDelay = monitorEventLoopDelay({ resolution: 10 });
ownDelay.enable();

/** By how much the daemon's delay is longer than that of this process since the last reading. */
function delayOf(daemonSeconds: number): number {
  const ownSeconds = ownDelay.percentile(99) / 1e9;
  ownDelay.reset();
  return daemonSeconds / ownSeconds;
}

/** All of them at one moment. */
export async function readQuantities(sandbox: Sandbox, pid: number): Promise<Record<Quantity, number>> {
  const metrics = parseMetrics((await askAdmin(sandbox, '/metrics')).text);
  const metric = (name: string) => {
    const value = sampleOf(metrics, name);
    if (value === undefined) throw new Error(`there is no metric ${name}`);
    return value;
  };
  const free = metric('pdfseal_store_free_bytes');
  const old = metrics.filter(
    ({ name, labels: { space = '' } }) =>
      name === 'nodejs_heap_space_size_used_bytes' && !space.startsWith('new'),
  );
  const family = familyOf(pid);
  const sum = (role: string | undefined, read: (pid: number) => number) =>
    family
      .filter((member) => role === undefined || member.role === role)
      .reduce((total, member) => total + read(member.pid), 0);
  return {
    'daemon: objects that outlived a collection, MiB': old.reduce((all, { value }) => all + value, 0) / MIB,
    'daemon: buffers, MiB': metric('nodejs_external_memory_bytes') / MIB,
    'daemon: memory of its own, MiB': sum('daemon', ownMemory) / MIB,
    'signers: memory of their own, MiB': sum('signer', ownMemory) / MIB,
    'egress: memory of its own, MiB': sum('egress', ownMemory) / MIB,
    'daemon: descriptors': sum('daemon', descriptors),
    'signers: descriptors': sum('signer', descriptors),
    'egress: descriptors': sum('egress', descriptors),
    'all: threads': sum(undefined, threads),
    'event loop: delay (99 %), times that of the soak': delayOf(metric('nodejs_eventloop_lag_p99_seconds')),
    'store: bytes in use per leaf': (metric('pdfseal_store_bytes') - free) / metric('pdfseal_log_leaves'),
    'store: free pages, MiB': free / MIB,
    'store: age of the oldest reader, s': metric('pdfseal_store_oldest_reader_age_seconds'),
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
