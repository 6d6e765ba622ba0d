import { isPinTrouble, isRefusal, type SignerFailure } from './signerFailure.ts';

/** If a signer refuses a request of the log, or if the PIN is wrong, another start does not help; time or an administrator may. */
const REFUSED_PAUSE_MS = 10_000;
/** The same for a PIN that is locked: only the flags of the token are read again, for hours or days. */
const LOCKED_PAUSE_MS = 60_000;
/** This part of the time since the first failure: a signer fails for at most a tenth longer than its token does. */
const SHARE = 0.1;
const PAUSE_MS_MIN = 100;
const PAUSE_MS_MAX = 15_000;
/** Partitions of one device fail at the same time; up to this much of the pause, chosen at random, keeps them from starting together. */
const JITTER = 0.5;

/**
 * Pause before the next start of a signer that has failed for this long, in milliseconds. After a short outage it signs again within 2 s of
 * its token's return; starts that go on failing become rare, because each loads the module and opens sessions. `random`: from 0 to below 1.
 */
export function restartPauseMs(
  failure: Pick<SignerFailure, 'code'>,
  failingMs: number,
  random: () => number = Math.random,
): number {
  if (failure.code === 'CKR_PIN_LOCKED') return LOCKED_PAUSE_MS;
  if (isPinTrouble(failure) || isRefusal(failure.code)) return REFUSED_PAUSE_MS;
  const pauseMs = Math.min(Math.max(failingMs * SHARE, PAUSE_MS_MIN), PAUSE_MS_MAX);
  return pauseMs * (1 + JITTER * random());
}
