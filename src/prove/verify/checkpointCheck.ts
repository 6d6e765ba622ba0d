import { bytesEqual } from '../../base/bytes.ts';
import { toRfc3339 } from '../../base/clock.ts';
import { cosignaturesIn } from '../../log/cosignature.ts';
import type { Note } from '../../log/note.ts';
import { describeQuorum, meetsQuorum } from '../../log/quorum.ts';
import { type Opened, signersOf } from '../../log/signedCheckpoint.ts';
import { describeKey, kmsKeyId, type LogKey, noteKeyId } from '../../log/verifierKey.ts';
import { parseWitnessPolicy, satisfiesPolicy } from '../../log/witnessPolicy.ts';
import { quote } from '../../manifest/received.ts';
import { isWithin, type TrustedEpoch, type TrustedLog } from '../../manifest/trustFile.ts';
import { type Finding, failed, notShown, passed, unknown } from './finding.ts';

/** Checks the content of the checkpoint against the environment of the manifest. {@link checkQuorum} checks its signatures. */
export function checkCheckpoint(
  environment: string,
  opened: Opened | undefined,
  log: TrustedLog | undefined,
): Finding {
  if (opened === undefined) return failed('not a signed checkpoint');
  const { origin, treeSize } = opened.checkpoint;
  if (log === undefined)
    return unknown(`the trust file does not know the log ${quote(origin)}`, 'log_unknown');
  if (environment !== log.environment)
    return failed(`the log is that of ${log.environment}, the manifest of ${quote(environment)}`);
  return passed(`${origin}, tree_size ${treeSize}`);
}

/**
 * Whether `sealed_at` and the time-stamp are in the same epoch of the log. `genTime` is the time in the token.
 * Exact to the millisecond: a batch that would cross the end of an epoch is sealed again.
 */
export function checkEpoch(
  sealedAt: string,
  log: TrustedLog | undefined,
  epoch: TrustedEpoch | undefined,
  genTime: number | undefined,
): Finding {
  if (log === undefined) return unknown('the log is not known', 'log_unknown');
  if (epoch === undefined) return failed(`the log has no epoch in which something was sealed at ${sealedAt}`);
  const end = epoch.notAfter === undefined ? 'on' : `to ${toRfc3339(epoch.notAfter)}`;
  const span = `from ${toRfc3339(epoch.notBefore)} ${end}`;
  if (genTime !== undefined && !isWithin(epoch, genTime))
    return failed(`sealed in the epoch ${span}, but stamped outside of it, at ${toRfc3339(genTime)}`);
  return passed(`sealed${genTime === undefined ? '' : ' and stamped'} in the epoch ${span}`);
}

/** Whether the keys of the epoch meet its quorum, and which of them signed. Keys of other epochs do not count. */
export function checkQuorum(
  opened: Opened | undefined,
  log: TrustedLog | undefined,
  epoch: TrustedEpoch | undefined,
): Finding & { keys: LogKey[]; isForged?: true } {
  if (opened === undefined) return { ...unknown('there is no checkpoint that could be signed'), keys: [] };
  if (log === undefined || epoch === undefined)
    return { ...unknown('there is no epoch whose keys could have signed'), keys: [] };
  const { keys, forged } = signersOf(opened.note, log.origin, epoch.keys);
  if (forged) {
    const finding = failed(`the signature of ${kmsKeyId(forged)} is wrong`, 'signature_wrong');
    return { ...finding, keys, isForged: true };
  }
  const count = describeQuorum(epoch.quorum, keys);
  return meetsQuorum(epoch.quorum, keys)
    ? { ...passed(`${keys.map(describeKey).join(', ')}: ${count}`), keys }
    : { ...failed(`${count}${explainOthers(opened.note, log, epoch)}`, 'below_quorum'), keys };
}

/**
 * Finding for something signed by a later epoch than the trust file knows. A forgery can look the same, so it is never more than unknown.
 */
export const EPOCH_UNKNOWN = unknown(
  'the trust file does not know that epoch of the log: get a newer trust file from its administrator; if this one is the newest, do not rely on it',
  'epoch_unknown',
);

/**
 * Whether something sealed at that time can belong to a later epoch than the trust file knows: its last epoch had begun, and a key that is
 * in none of its epochs signed in the name of the log.
 */
export function isOfLaterEpoch(note: Note, { origin, epochs }: TrustedLog, sealedAt: number): boolean {
  const known = epochs.flatMap(({ keys }) => keys.map((key) => noteKeyId(origin, key)));
  const isStranger = (keyId: Uint8Array) => !known.some((one) => bytesEqual(one, keyId));
  return (
    sealedAt >= (epochs.at(-1)?.notBefore ?? Infinity) &&
    note.signatures.some(({ name, keyId }) => name === origin && isStranger(keyId))
  );
}

/** Names the keys that signed outside their epochs. */
function explainOthers(note: Note, { origin, epochs }: TrustedLog, { keys }: TrustedEpoch): string {
  const own = new Set(keys.map(({ spki }) => spki));
  const others = epochs.flatMap((epoch) => epoch.keys).filter(({ spki }) => !own.has(spki));
  const strays = [...new Set(signersOf(note, origin, others).keys.map(kmsKeyId))];
  return strays.length === 0 ? '' : `; ${strays.join(', ')} signed, but not in an epoch of that key`;
}

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
