import { closeSync, fdatasyncSync, openSync, readFileSync, rmSync, statfsSync, writeSync } from 'node:fs';
import { cpus, release, totalmem } from 'node:os';
import { join } from 'node:path';
import { childrenOf } from './memory.ts';
import { percentile } from './stats.ts';

export interface Processor {
  name: string;
  vendor: string;
  /** As the processor numbers its kind: x86's family and model, or ARM's architecture and part. */
  family: number;
  model: number;
  /** Its instructions that the hash kernels know, as Linux calls them. */
  features: string[];
}

export interface Machine {
  cpu: string;
  cpuFeatures: string[];
  cores: number;
  memoryBytes: number;
  kernel: string;
  node: string;
  /** Of the folder that holds the stores: 4 KiB written and flushed (fdatasync), again and again. */
  flushP50Ms: number;
  flushP99Ms: number;
}

const TMPFS_MAGIC = 0x01021994;
const FLUSHES = 200;
const HASH_FEATURES = ['avx2', 'avx512f', 'avx512bw', 'avx512vl', 'avx512_vbmi2', 'sha_ni', 'sha2', 'sha512'];

/** What the figures were measured on. Throws when `dir` is in memory: durable writes would cost nothing there. */
export function describeMachine(dir: string): Machine {
  if (statfsSync(dir).type === TMPFS_MAGIC)
    throw new Error(`${dir} is a tmpfs; name a folder on a disk with --dir`);
  const flushesMs = timeFlushes(join(dir, 'flush'));
  const { name, features } = describeProcessor();
  return {
    cpu: name,
    cpuFeatures: features,
    cores: cpus().length,
    memoryBytes: totalmem(),
    kernel: release(),
    node: process.version,
    flushP50Ms: percentile(flushesMs, 0.5),
    flushP99Ms: percentile(flushesMs, 0.99),
  };
}

/** The file in this folder of `test/bench/` for results of this kind of processor. */
export function resultsFile(folder: 'processors' | 'results'): string {
  const { vendor, family, model } = describeProcessor();
  return join(import.meta.dirname, folder, `${vendor}-${family}-${model}.json`);
}

export function describeProcessor(): Processor {
  const info = readFileSync('/proc/cpuinfo', 'utf8');
  const line = (name: string) => new RegExp(`^${name}\\s*:(.*)$`, 'm').exec(info)?.[1]?.trim() ?? '';
  return {
    name: cpus()[0]?.model.trim() ?? 'unknown',
    vendor: line('(?:vendor_id|CPU implementer)'),
    family: Number(line('(?:cpu family|CPU architecture)')),
    model: Number(line('(?:model|CPU part)')),
    features: line('(?:flags|Features)')
      .split(/\s+/)
      .filter((flag) => HASH_FEATURES.includes(flag)),
  };
}

function timeFlushes(path: string): Float64Array {
  const fd = openSync(path, 'w');
  const page = Buffer.alloc(4096, 1);
  const samplesMs = Float64Array.from({ length: FLUSHES }, () => {
    const startMs = performance.now();
    writeSync(fd, page);
    fdatasyncSync(fd);
    return performance.now() - startMs;
  });
  closeSync(fd);
  rmSync(path);
  return samplesMs.sort();
}

/** Processor time the process and its children have used so far, user and system. */
export function cpuSeconds(pid: number): number {
  return childrenOf(pid).reduce((sum, child) => sum + cpuSeconds(child), ownCpuSeconds(pid));
}

/** Of one thread: the main thread of a process has its number. */
export function threadSeconds(pid: number): number {
  return secondsIn(`/proc/${pid}/task/${pid}/stat`);
}

function ownCpuSeconds(pid: number): number {
  return secondsIn(`/proc/${pid}/stat`);
}

function secondsIn(file: string): number {
  // The second field, the program's name, may hold spaces: count from the parenthesis that ends it (proc_pid_stat(5)).
  const [, fields = ''] = /\) (.*)$/s.exec(readFileSync(file, 'utf8')) ?? [];
  const values = fields.split(' ');
  const ticksPerSecond = 100;
  return (Number(values[11]) + Number(values[12])) / ticksPerSecond;
}
