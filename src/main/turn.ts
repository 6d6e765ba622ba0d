import { setTimeout as sleep } from 'node:timers/promises';
import { stopwatch } from '../base/clock.ts';
import { noteNewestCheckpoint } from '../prove/trail/lastCheckpoint.ts';
import { openStoreAt, type Sequencing } from '../store/engines.ts';
import type { Store } from '../store/store.ts';
import type { Program } from './running.ts';

/** If a server does not answer for this long, the process ends, and its supervisor restarts it. */
export const UNREACHABLE_MS_MAX = 150_000;

/**
 * Opens the store when it is this daemon's turn. If another one may be active at the same log, waits for as long as that is active, but not
 * for a server that never answers. Undefined if this process must stop first.
 */
export async function openInTurn(
  { config, supervision, stopping, logger, onFatal }: Program,
  open: (sequencing: Sequencing) => Promise<Store>,
): Promise<Store | undefined> {
  const silence = new AbortController();
  let standby: AbortController | undefined;
  let reported: string | undefined;
  let elapsedMs: (() => number) | undefined;
  let unreachableMs = 0;
  const onWait: Sequencing['onWait'] = (wait) => {
    const status =
      'holder' in wait
        ? `waits to take over: ${wait.holder} is active`
        : `the database does not answer: ${wait.unreachable}`;
    if (status !== reported) logger.info({ event: 'waiting' }, status);
    reported = status;
    if ('holder' in wait) {
      elapsedMs = undefined;
      unreachableMs = 0;
      supervision.standby(status);
      if (standby !== undefined) return;
      standby = new AbortController();
      noteWhileWaiting({ config, logger }, standby.signal).catch(onFatal);
    } else {
      supervision.starting(status);
      elapsedMs ??= stopwatch();
      unreachableMs += elapsedMs();
      if (unreachableMs > UNREACHABLE_MS_MAX)
        silence.abort(new Error(`the database of the store does not answer: ${wait.unreachable}`));
    }
  };
  try {
    const signal = AbortSignal.any([stopping, silence.signal]);
    return await open({ signal, onLost: onFatal, onWait });
  } catch (error) {
    if (stopping.aborted && error === stopping.reason) return undefined;
    throw error;
  } finally {
    standby?.abort();
  }
}

/**
 * While a daemon waits for its turn, it records the newest checkpoints on its own machine, like the active daemon: so it refuses a database
 * that has lost some of what was released. Problems are logged, because they would also keep this daemon from taking over.
 */
async function noteWhileWaiting(
  { config, logger }: Pick<Program, 'config' | 'logger'>,
  signal: AbortSignal,
): Promise<void> {
  const { store: location, environment, log } = config;
  const note = async () => {
    // As a front does, which does not accept anything that a failover could undo.
    const expected = { environment, logOrigin: log.origin };
    const store = await openStoreAt(location, { front: true, expected });
    await noteNewestCheckpoint(log.lastCheckpointFile, store).finally(() => store.close());
  };
  let reported: string | undefined;
  while (!signal.aborted) {
    const fault = await note().catch((error: Error) => error);
    if (fault instanceof Error && fault.message !== reported && !signal.aborted)
      logger.warn({ event: 'standby_not_ready', err: fault }, `could not take over now: ${fault.message}`);
    reported = fault?.message;
    await sleep(log.lastCheckpointIntervalMs, undefined, { signal }).catch(() => {});
  }
}
