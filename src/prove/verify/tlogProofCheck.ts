import { bytesEqual } from '../../base/bytes.ts';
import type { DocumentDigests } from '../../job/job.ts';
import { type Opened, openCheckpoint } from '../../log/signedCheckpoint.ts';
import { parseTlogProof } from '../../log/tlogProof.ts';
import type { LogKey } from '../../log/verifierKey.ts';
import { parseUniqueJson } from '../../manifest/jcs.ts';
import { encodeManifest } from '../../manifest/manifest.ts';
import { parseManifest, quote, type ReceivedManifest } from '../../manifest/received.ts';
import { epochOf, type TrustedEpoch, type TrustedLog, type TrustFile } from '../../manifest/trustFile.ts';
import {
  checkCheckpoint,
  checkEpoch,
  checkQuorum,
  checkWitnesses,
  cosignersOf,
  EPOCH_UNKNOWN,
  isOfLaterEpoch,
} from './checkpointCheck.ts';
import { type Finding, failed, type NamedFinding, passed, unknown } from './finding.ts';
import { checkDocument, checkLeaf, type Matched, noteOnSource, subjectFault } from './manifestCheck.ts';
import { checkTimes } from './timesCheck.ts';

/**
 * Checks what a C2SP tlog-proof proves of a document, with the manifest in its `extra`. The proof can lead to any later checkpoint than that of
 * the receipt. It has no time-stamp, so where the epoch requires one, the verdict on the time is open. Any text is safe.
 */
export function checkTlogProof(
  text: string,
  document: DocumentDigests | undefined,
  trust: TrustFile,
  at: number,
): { checks: NamedFinding[]; matches?: Matched } {
  const wrong = (detail: string) => ({ checks: [{ name: 'proof' as const, ...failed(detail) }] });
  const parsed = parseTlogProof(text);
  if (parsed === undefined) return wrong('not a C2SP tlog-proof of version 1');
  const manifest = parsed.extra && readManifest(parsed.extra);
  if (manifest === undefined) return wrong('its line "extra" is not the canonical form of a manifest');
  const opened = openCheckpoint(parsed.checkpoint);
  const log = trust.logs.find(({ origin }) => origin === opened?.checkpoint.origin);
  const sealedAt = manifest.sealed_at;
  const epoch = log && epochOf(log, Date.parse(sealedAt));
  const fault = subjectFault(manifest, 'document');
  const { matches, ...compared } = checkDocument(manifest, document);
  const { quorum, signedIn } = findSigners(opened, log, epoch);
  const checks: NamedFinding[] = [
    { name: 'proof', ...passed('a C2SP tlog-proof with its manifest') },
    { name: 'document', ...compared },
    {
      name: 'manifest',
      ...(fault === undefined
        ? passed(`${quote(manifest.job_id)}, sealed at ${sealedAt}${noteOnSource(manifest)}`)
        : failed(fault)),
    },
    { name: 'leaf', ...checkLeaf(manifest, parsed, opened?.checkpoint) },
    { name: 'checkpoint', ...checkCheckpoint(manifest.environment, opened, log) },
    { name: 'quorum', ...quorum },
    {
      name: 'time-stamp',
      ...(epoch?.timestamps === 'none'
        ? passed('none; sealed_at is the service’s own word', 'own_word')
        : unknown('a tlog-proof has none: the receipt tells when the document was sealed')),
    },
    {
      name: 'epoch',
      ...(signedIn !== undefined
        ? unknown(
            `a later epoch signed the checkpoint: the receipt tells whether it was sealed at ${sealedAt}`,
          )
        : checkEpoch(sealedAt, log, epoch, undefined)),
    },
  ];
  const cosigned = cosignersOf(opened, log);
  if (log !== undefined) checks.push({ name: 'witnesses', ...checkWitnesses(cosigned, log, 'proof') });
  checks.push({ name: 'times', ...checkTimes(manifest, { stamps: [], cosigned }, at) });
  return { checks, ...(matches && { matches }) };
}

/** The manifest in the `extra` of a proof; undefined unless it is one in canonical form. Any bytes are safe. */
export function readManifest(extra: Uint8Array): ReceivedManifest | undefined {
  try {
    const value = parseUniqueJson(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(extra));
    const manifest = parseManifest(value);
    return manifest && bytesEqual(encodeManifest(manifest), extra) ? manifest : undefined;
  } catch {
    return undefined;
  }
}

/**
 * A later checkpoint contains the leaf too, and the keys of its own epoch signed it. It does not prove that the leaf was there in the epoch
 * of `sealed_at`: who has later keys could date it back. A trust file can be older than the checkpoint. `signedIn` is the later epoch.
 */
export function findSigners(
  opened: Opened | undefined,
  log: TrustedLog | undefined,
  epoch: TrustedEpoch | undefined,
): { quorum: Finding; keys: LogKey[]; signedIn?: TrustedEpoch } {
  const { keys, isForged, ...quorum } = checkQuorum(opened, log, epoch);
  if (quorum.outcome !== 'failed' || isForged || log === undefined || epoch === undefined)
    return { quorum, keys };
  for (const later of log.epochs.filter(({ notBefore }) => notBefore > epoch.notBefore)) {
    const { keys, outcome, detail } = checkQuorum(opened, log, later);
    if (outcome === 'passed') return { quorum: passed(detail), keys, signedIn: later };
  }
  const isOpen = log.epochs.at(-1)?.notAfter === undefined;
  // The checkpoint of a proof can be of any time.
  const isLater = opened !== undefined && isOfLaterEpoch(opened.note, log, Infinity);
  return isOpen && (keys.length === 0 || isLater) ? { quorum: EPOCH_UNKNOWN, keys } : { quorum, keys };
}
