import { toRfc3339 } from '../../base/clock.ts';
import { cosignaturesIn } from '../../log/cosignature.ts';
import type { Opened } from '../../log/signedCheckpoint.ts';
import { parseWitnessPolicy, satisfiesPolicy } from '../../log/witnessPolicy.ts';
import type { TrustedLog } from '../../manifest/trustFile.ts';
import { type Finding, notShown, passed, unknown } from './finding.ts';

/** A witness of the trust file, by its name there, that cosigned the checkpoint; `time` in seconds since the Unix epoch, as it is signed. */
export interface Cosigned {
  label: string;
  time: number;
}

/** The witnesses of the trust file that have cosigned the checkpoint. */
export function cosignersOf(opened: Opened | undefined, log: TrustedLog | undefined): Cosigned[] {
  if (opened === undefined || log?.witnessPolicy === undefined) return [];
  const found = cosignaturesIn(opened.note, parseWitnessPolicy(log.witnessPolicy).witnesses);
  return found.map(({ cosigner, time }) => ({ label: cosigner.label, time }));
}

/**
 * Tells who has seen the checkpoint, and when, by the policy of the trust file. A receipt need not show it: it is issued before witnesses answer.
 * A proof for other tools is asked for to show it, so there too few witnesses leave the verdict open.
 */
export function checkWitnesses(
  cosigned: readonly Cosigned[],
  { witnessPolicy }: TrustedLog,
  shownBy: 'receipt' | 'proof' | 'bundle',
): Finding {
  if (witnessPolicy === undefined) return notShown('the trust file names no witnesses', 'no_witness_policy');
  const policy = parseWitnessPolicy(witnessPolicy);
  const seen = cosigned.map(({ label, time }) => `${label} at ${toRfc3339(time * 1000)}`);
  const said = seen.length === 0 ? 'no witness of the trust file' : seen.join(', ');
  if (cosigned.length > 0 && policy.quorum === undefined)
    return passed(`cosigned by ${said}; the trust file requires none`);
  if (policy.quorum !== undefined && satisfiesPolicy(policy, new Set(cosigned.map(({ label }) => label))))
    return passed(`cosigned by ${said}`);
  if (policy.quorum === undefined || (shownBy !== 'proof' && cosigned.length === 0))
    return notShown(
      `cosigned by ${said}${shownBy === 'receipt' ? '; the bundle of the same job (receipt.bundle.json) can show who witnessed it' : ''}`,
      'witnesses_not_shown',
    );
  const few = `cosigned by ${said}: too few for the policy of the trust file`;
  return shownBy === 'proof' ? unknown(few, 'below_policy') : notShown(few, 'below_policy');
}
