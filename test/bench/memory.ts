import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';

/** The most memory a process held during a while. */
export interface Memory {
  /** All that was resident, as the kernel counts it (VmHWM of proc_pid_status(5)). */
  peakRssBytes: number;
  /** Of that, what is the process's own: heap, buffers, stacks. Sampled. */
  peakAnonBytes: number;
  /** And what are pages of files, programs and the store, which the kernel may take back at any time. Sampled. */
  peakFileBytes: number;
  /** All that was resident of its child processes together, pages they share counted in each. Sampled. */
  childrenRssBytes: number;
}

const SAMPLE_MS = 50;

/** Forgets the peak until now, and watches until it is asked. */
export function watchMemory(pid: number): () => Memory {
  resetPeak(pid);
  let [peakAnonBytes, peakFileBytes, childrenRssBytes] = [0, 0, 0];
  const sample = () => {
    const status = statusOf(pid);
    peakAnonBytes = Math.max(peakAnonBytes, bytesOf(status, 'RssAnon'));
    peakFileBytes = Math.max(peakFileBytes, bytesOf(status, 'RssFile'));
    const children = childrenOf(pid).map((child) => bytesOf(statusOf(child), 'VmRSS'));
    childrenRssBytes = Math.max(
      childrenRssBytes,
      children.reduce((sum, one) => sum + one, 0),
    );
  };
  sample();
  const timer = setInterval(sample, SAMPLE_MS);
  return () => {
    clearInterval(timer);
    sample();
    return {
      peakRssBytes: bytesOf(statusOf(pid), 'VmHWM'),
      peakAnonBytes,
      peakFileBytes,
      childrenRssBytes,
    };
  };
}

export function childrenOf(pid: number): number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number);
}

function resetPeak(pid: number): void {
  const fd = openSync(`/proc/${pid}/clear_refs`, 'w');
  writeSync(fd, '5');
  closeSync(fd);
}

function statusOf(pid: number): string {
  return readFileSync(`/proc/${pid}/status`, 'utf8');
}

function bytesOf(status: string, field: string): number {
  const kibibytes = new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1];
  return Number(kibibytes) * 1024;
}
