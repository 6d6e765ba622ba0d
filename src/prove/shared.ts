import type { ReceivedReceipt } from '../manifest/received.ts';

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
