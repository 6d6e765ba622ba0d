import { bytesEqual } from '../base/bytes.ts';
import { toTimestamp } from '../base/clock.ts';
import { type Checkpoint, parseCheckpoint } from '../log/checkpoint.ts';
import { noteKeyId, verifySignature } from '../log/keys.ts';
import { type Note, parseNote } from '../log/note.ts';
import { kmsKeyId, receiptAlgorithm } from '../manifest/receipt.ts';
import { quote, type ReceivedReceipt } from '../manifest/received.ts';
import type { TrustedKey, TrustedLog } from '../manifest/trust.ts';
import { type Finding, failed, passed, unknown } from './finding.ts';

/** The log's statement that a receipt carries, as far as it can be read. */
export interface Opened {
  note: Note;
  checkpoint: Checkpoint;
}

/** Whose signatures are on a checkpoint: each key once, however many lines it has. */
export interface Signers {
  keys: TrustedKey[];
  /** A trusted key named by a line that it did not sign. */
  forged?: TrustedKey;
}

export function openCheckpoint(text: string): Opened | undefined {
  const note = parseNote(text);
  const checkpoint = note && parseCheckpoint(note.text);
  return note && checkpoint && { note, checkpoint };
}

/**
 * The trusted keys that signed. Lines of unknown keys are passed over; one wrong signature of a known key spoils the note
 * (C2SP signed-note, "Signatures").
 */
export function signersOf({ text, signatures }: Note, log: TrustedLog): Signers {
  const message = new TextEncoder().encode(text);
  const keys = new Set<TrustedKey>();
  for (const { name, keyId, signature } of signatures) {
    const key = log.keys.find((key) => name === log.origin && bytesEqual(noteKeyId(name, key), keyId));
    if (key === undefined) continue;
    if (!verifySignature(key, message, signature)) return { keys: [], forged: key };
    keys.add(key);
  }
  return { keys: [...keys] };
}

export function checkCheckpoint(
  receipt: ReceivedReceipt,
  opened: Opened | undefined,
  log: TrustedLog | undefined,
  signers: Signers,
): Finding {
  const { log_origin: origin } = receipt.evidence;
  if (opened === undefined) return failed('not a signed checkpoint');
  if (opened.checkpoint.origin !== origin) return failed('log_origin is not the checkpoint’s');
  if (log === undefined) return unknown(`the trust file does not know the log ${quote(origin)}`);
  if (receipt.manifest.environment !== log.environment) {
    return failed(
      `the log is that of ${log.environment}, the manifest of ${quote(receipt.manifest.environment)}`,
    );
  }
  if (signers.forged) return failed(`the signature of ${kmsKeyId(signers.forged)} is wrong`);
  if (signers.keys.length < log.quorum) {
    return failed(`signed by ${signers.keys.length} trusted keys; ${log.quorum} are needed`);
  }
  const named = signers.keys.some(
    (key) => kmsKeyId(key) === receipt.kms_key_id && receiptAlgorithm(key.algorithm) === receipt.algorithm,
  );
  if (!named) return failed('kms_key_id and algorithm are of none of the trusted keys that signed');
  return passed(
    `${origin}, tree_size ${opened.checkpoint.treeSize}, signed by ${signers.keys.map(kmsKeyId).join(', ')}`,
  );
}

/**
 * Whether a quorum of the keys that signed was valid `at` (milliseconds since the epoch). `checkpoint` is what was found of
 * the checkpoint; `at` is undefined where it cannot be told when it was signed.
 */
export function checkKeyValidity(
  checkpoint: Finding,
  log: TrustedLog | undefined,
  signers: Signers,
  at: number | undefined,
): Finding {
  if (checkpoint.outcome !== 'passed' || log === undefined) return unknown('the checkpoint did not pass');
  if (at === undefined) return unknown('the time-stamp did not pass, so there is no time to judge at');
  const valid = signers.keys.filter(
    ({ notBefore = -Infinity, notAfter = Infinity }) => notBefore <= at && at <= notAfter,
  );
  return valid.length >= log.quorum
    ? passed(`${toTimestamp(at)} is within the validity of the keys`)
    : failed(
        `at ${toTimestamp(at)} only ${valid.length} of the keys that signed were valid; ${log.quorum} are needed`,
      );
}
