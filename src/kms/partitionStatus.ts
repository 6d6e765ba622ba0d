import type { Logger } from 'pino';
import type { KeyAlgorithm } from './keyAlgorithm.ts';
import { isPinRefusal, type SignerFailure, signerRemedy } from './signerFailure.ts';

/**
 * How a partition stands. Only `ready` signs; `withdrawn` was taken out on purpose; `pin_refused` waits for a new PIN file; the
 * others retry by themselves.
 */
export type PartitionState =
  | 'starting'
  | 'ready'
  | 'unavailable'
  | 'pin_refused'
  | 'key_changed'
  | 'key_lost'
  | 'withdrawn'
  | 'closed';

export interface PartitionStatus {
  region: string;
  keyLabel: string;
  algorithm: KeyAlgorithm;
  software?: true;
  state: PartitionState;
  /** When it came into that state; milliseconds since the epoch. */
  since: number;
  /** Code of the newest failure: `CKR_…` or one of ours. */
  lastError?: string;
  /** Verified signatures given since the program started, without probes. */
  signatures: number;
  /** How often its signer would not sign what it was asked ({@link isRefusal}). */
  refusals: number;
  /** Trees that it signed and that the log went on without. */
  treesGivenUp: number;
  /** Children started to replace another. */
  restarts: number;
  /** Sessions that the newest child has opened; 0 before the first. */
  sessions: number;
  /** By what the token refused more of them, a return value of PKCS#11. */
  sessionsRefused?: string;
  /** Process id of the child, while there is one. */
  pid?: number;
}

export function stateAfter(failure: SignerFailure): PartitionState {
  if (isPinRefusal(failure.code)) return 'pin_refused';
  if (failure.code === 'key_changed') return 'key_changed';
  if (failure.code === 'key_not_found' || failure.code === 'key_ambiguous') return 'key_lost';
  return 'unavailable';
}

/** One line for a change of a partition; an alarm where only an administrator can mend it. */
export function logState(logger: Logger, state: PartitionState, failure?: SignerFailure): void {
  const remedy = failure && signerRemedy(failure);
  const record = { state, code: failure?.code, detail: failure?.detail, remedy };
  if (state === 'ready') logger.info({ event: 'partition_back', state }, 'HSM partition ready');
  else if (failure === undefined) logger.info({ state }, `HSM partition ${state}`);
  else if (remedy === undefined && state === 'unavailable')
    logger.warn({ event: 'partition_lost', ...record }, 'HSM partition unavailable, its signer is replaced');
  else
    logger.error(
      { event: 'partition_useless', ...record },
      'HSM partition cannot sign until an administrator repairs it',
    );
}
