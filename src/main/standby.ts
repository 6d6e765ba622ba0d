import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Config } from '../config/config.ts';
import { noteNewestCheckpoint } from '../prove/trail/lastCheckpoint.ts';
import { openStoreAt } from '../store/engines.ts';

/**
 * While a daemon waits for its turn, it records the newest checkpoints on its own machine, like the active daemon: so it refuses a database
 * that has lost some of what was released. Ends when the signal aborts. Problems are logged, because they would also keep this daemon from
 * taking over.
 */
export async function noteWhileWaiting(
  config: Config,
  { signal, logger }: { signal: AbortSignal; logger: Logger },
): Promise<void> {
  let told: string | undefined;
  while (!signal.aborted) {
    const fault = await noteOnce(config).catch((error: Error) => error);
    if (fault !== undefined && fault.message !== told && !signal.aborted)
      logger.warn({ event: 'standby_not_ready', err: fault }, `could not take over now: ${fault.message}`);
    told = fault?.message;
    await sleep(config.log.lastCheckpointIntervalMs, undefined, { signal }).catch(() => {});
  }
}

/** Reads the database as a front does, which does not accept anything that a failover could undo. */
async function noteOnce({ store: location, environment, log }: Config): Promise<undefined> {
  const expected = { environment, logOrigin: log.origin };
  const store = await openStoreAt(location, { front: true, expected });
  try {
    await noteNewestCheckpoint(log.lastCheckpointFile, store);
  } finally {
    await store.close();
  }
}
