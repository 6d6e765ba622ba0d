import type { ReceivedReceipt } from '../manifest/received.ts';

/** How a check ended, and one line for people why. */
export interface Finding {
  outcome: 'passed' | 'failed' | 'unknown';
  detail: string;
}

export function passed(detail: string): Finding {
  return { outcome: 'passed', detail };
}

export function failed(detail: string): Finding {
  return { outcome: 'failed', detail };
}

/** Neither: what it would take to tell is not at hand. */
export function unknown(detail: string): Finding {
  return { outcome: 'unknown', detail };
}

/** What receipts of one batch have in common: all that signatures, time-stamps and epochs are judged by. */
export type SharedParts = ReturnType<typeof sharedParts>;

export function sharedParts({ algorithm, kms_key_id, sealed_at, manifest, evidence }: ReceivedReceipt) {
  const { log_origin, checkpoint, timestamps, certificates } = evidence;
  return {
    algorithm,
    kms_key_id,
    sealed_at,
    manifest: { environment: manifest.environment },
    evidence: { log_origin, checkpoint, timestamps, certificates },
  };
}
