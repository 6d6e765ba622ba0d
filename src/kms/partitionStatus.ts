import type { Logger } from 'pino';
import type { KeyAlgorithm } from './keyAlgorithm.ts';
import { isPinRefusal, type SignerFailure, signerRemedy } from './signerFailure.ts';

/**
 * State of a partition. Only `ready` signs; `withdrawn` was taken out on purpose; `pin_refused` waits for a new PIN file; the others retry
 * by themselves.
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
  /** Time at which it entered that state; milliseconds since the epoch. */
  since: number;
  /** Code of the newest failure: `CKR_…` or one of our own. */
  lastError?: string;
  /** Number of verified signatures since the program started, without probes. */
  signatures: number;
  /** Number of times that its signer refused to sign ({@link isRefusal}). */
  refusals: number;
  /** Number of trees that it signed and that the log went on without. */
  treesGivenUp: number;
  /** Number of children started after the first. */
  restarts: number;
  /** Sessions that the newest child has opened; 0 before the first. */
  sessions: number;
  /** PKCS#11 return value with which the token refused more sessions. */
  sessionsRefused?: string;
  /** Process id of the child, while there is one. */
  pid?: number;
}

const KEY_LOST = new Set(['key_not_found', 'key_ambiguous', 'private_key_missing']);

export function stateAfter(failure: SignerFailure): PartitionState {
  if (isPinRefusal(failure.code)) return 'pin_refused';
  if (failure.code === 'key_changed') return 'key_changed';
  if (KEY_LOST.has(failure.code)) return 'key_lost';
  return 'unavailable';
}

/** Logs one line for a change of a partition; an alarm if only an administrator can correct it. */
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
