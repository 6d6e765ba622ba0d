import type { ReceivedReceipt } from '../manifest/received.ts';

/** The outcome of a check, and one line that gives the reason. */
export interface Finding {
  outcome: 'passed' | 'failed' | 'unknown';
  detail: string;
}

/** The checks in the order of the report; `trust` only if the trust file cannot be read, `proof` in the place of `receipt` for a tlog-proof, `witnesses` only for a tlog-proof of a log whose trust file has a policy for them, `evidence-record` only with an evidence record. */
export type CheckName =
  | 'trust'
  | 'receipt'
  | 'proof'
  | 'document'
  | 'manifest'
  | 'leaf'
  | 'checkpoint'
  | 'quorum'
  | 'time-stamp'
  | 'epoch'
  | 'witnesses'
  | 'evidence-record';

export interface Check extends Finding {
  name: CheckName;
}

export function passed(detail: string): Finding {
  return { outcome: 'passed', detail };
}

export function failed(detail: string): Finding {
  return { outcome: 'failed', detail };
}

/** Neither passed nor failed: what the check needs is missing. */
export function unknown(detail: string): Finding {
  return { outcome: 'unknown', detail };
}

/** The parts that all receipts of a batch share: signatures, time-stamps and epochs are checked against these. */
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
