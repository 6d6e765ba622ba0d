import type { Logger } from 'pino';
import { stopwatch } from '../base/clock.ts';
import type { Sequencing } from '../store/engines.ts';
import type { Supervision } from '../watch/supervision.ts';

/** If a server does not answer for this long, the process ends, and its supervisor restarts it. */
export const UNREACHABLE_MS_MAX = 150_000;

export interface TurnOptions {
  supervision: Pick<Supervision, 'standby' | 'starting'>;
  /** Resolves when this daemon must stop. */
  stopped: Promise<unknown>;
  logger: Logger;
  /** Called once another daemon is known to be active; the signal aborts when this one no longer waits. */
  onStandby(signal: AbortSignal): void;
  onFatal(error: unknown): void;
}

/** How a daemon waits, until the wait is reported as over. */
interface Waiting extends Sequencing {
  over(): void;
}

/** The wait for a turn was ended by a signal. */
class StoppedWaiting extends Error {}

/** Handles the error that ended the wait: if it was a signal, nothing is left to do. Rethrows anything else. */
export function stoppedWaiting(error: unknown, logger: Logger): undefined {
  if (!(error instanceof StoppedWaiting)) throw error;
  logger.info({ event: 'stopped' }, 'stopped');
}

/**
 * How a daemon waits if another one may be active at the same log: for as long as that is active, but not for a server that never answers.
 */
export function waitForTurn({ supervision, stopped, logger, onStandby, onFatal }: TurnOptions): Waiting {
  const abort = new AbortController();
  const standby = new AbortController();
  let isStandby = false;
  stopped.then(() => abort.abort(new StoppedWaiting('stopped')), onFatal);
  let told: string | undefined;
  let elapsedMs: (() => number) | undefined;
  let unreachableMs = 0;
  const giveUpOn = (reason: string) => {
    elapsedMs ??= stopwatch();
    unreachableMs += elapsedMs();
    if (unreachableMs > UNREACHABLE_MS_MAX)
      abort.abort(new Error(`the database of the store does not answer: ${reason}`));
  };
  return {
    over: () => standby.abort(),
    signal: abort.signal,
    onLost: onFatal,
    onWait: (wait) => {
      const status =
        'holder' in wait
          ? `waits to take over: ${wait.holder} is active`
          : `the database does not answer: ${wait.unreachable}`;
      if (status !== told) logger.info({ event: 'waiting' }, status);
      told = status;
      if ('holder' in wait) {
        elapsedMs = undefined;
        unreachableMs = 0;
        supervision.standby(status);
        if (!isStandby) onStandby(standby.signal);
        isStandby = true;
      } else {
        supervision.starting(status);
        giveUpOn(wait.unreachable);
      }
    },
  };
}
