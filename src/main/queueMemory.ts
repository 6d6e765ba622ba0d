import { getHeapStatistics } from 'node:v8';
import type { Logger } from 'pino';
import type { LiveConfig } from '../config/reload.ts';

/** Heap bytes of a waiting job: 1.2 to 3.4 kB were measured. */
const JOB_BYTES_MAX = 3_400;

/**
 * Warns, now and after each reload, about a queue that does not fit into this process's memory. With that many waiting jobs it would run
 * out of memory, and so would every later start, which reads them all.
 */
export function warnOfQueueMemory(live: LiveConfig, logger: Logger): void {
  const heapBytes = getHeapStatistics().heap_size_limit;
  const warn = ({ limits: { queueJobsMax } }: LiveConfig['current']) => {
    if (queueJobsMax * JOB_BYTES_MAX <= heapBytes) return;
    logger.warn(
      { event: 'queue_exceeds_memory', queue_jobs_max: queueJobsMax, heap_bytes: heapBytes },
      `limits.queue_jobs_max is more than this process has memory for: set it to ${Math.floor(heapBytes / JOB_BYTES_MAX)} or less`,
    );
  };
  warn(live.current);
  live.onChange(warn);
}
