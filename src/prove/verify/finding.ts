import type { ReceivedReceipt } from '../../manifest/received.ts';

/**
 * The reasons that have a code of their own, because a program can act on them. Any other finding has the code of its check and outcome.
 * A code never changes its meaning.
 */
export const REASONS = [
  'accepted_after_sealed',
  'authority_unknown',
  'below_policy',
  'below_quorum',
  'bundle_newer',
  'certificate_expired',
  'cosigned_before_sealed',
  'document_missing',
  'epoch_unknown',
  'in_the_future',
  'log_forked',
  'log_unknown',
  'no_witness_policy',
  'own_word',
  'proof_wrong',
  'receipt_missing',
  'receipt_newer',
  'revocation_not_shown',
  'revoked',
  'revoked_since',
  'signature_wrong',
  'stamped_before_sealed',
  'timestamp_missing',
  'witnesses_not_shown',
] as const;

export type Reason = (typeof REASONS)[number];

/** The outcome of a check, and one line that gives the reason. */
export interface Finding {
  /** `not_shown`: the receipt does not show it, which does not count unless it was required. */
  outcome: 'passed' | 'failed' | 'unknown' | 'not_shown';
  detail: string;
  reason?: Reason;
}

/** The checks in the order of the report; `trust` only if the trust file cannot be read, `seal` only for a PDF that holds its receipt, `bundle` before the receipt in a bundle, `proof` in the place of `receipt` for a tlog-proof, `witnesses` only if the trust file has a policy for them or they are required, `revocation` only with a verified time-stamp, `renewal` only once the time-stamp has ended, `evidence-record` only with an evidence record. */
export type CheckName =
  | 'trust'
  | 'seal'
  | 'bundle'
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
  | 'times'
  | 'revocation'
  | 'renewal'
  | 'evidence-record';

export interface NamedFinding extends Finding {
  name: CheckName;
}

export interface Check extends Omit<NamedFinding, 'reason'> {
  /** Stable: the {@link Reason}, or `<name>_<outcome>`. */
  code: string;
}

export function asCheck({ name, outcome, detail, reason }: NamedFinding): Check {
  return { name, outcome, code: reason ?? `${name}_${outcome}`.replaceAll('-', '_'), detail };
}

/** Whether a check with that outcome keeps a verdict from being good. */
export function isOpen(outcome: Finding['outcome']): boolean {
  return outcome === 'failed' || outcome === 'unknown';
}

/** The finding that decides a verdict that is not good: one that failed, if any did; undefined if none is open. */
export function openIn<One extends Pick<Finding, 'outcome'>>(findings: readonly One[]): One | undefined {
  return (
    findings.find(({ outcome }) => outcome === 'failed') ??
    findings.find(({ outcome }) => outcome === 'unknown')
  );
}

const finding =
  (outcome: Finding['outcome']) =>
  (detail: string, reason?: Reason): Finding => ({ outcome, detail, ...(reason && { reason }) });

export const passed = finding('passed');
export const failed = finding('failed');
/** Neither passed nor failed: what the check needs is missing. */
export const unknown = finding('unknown');
/** The receipt does not show it, which counts only if it was required. */
export const notShown: (detail: string, reason: Reason) => Finding = finding('not_shown');

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
