import { bytesEqual } from '../../base/bytes.ts';
import { type Opened, openCheckpoint } from '../../log/signedCheckpoint.ts';
import { parseTlogProof } from '../../log/tlogProof.ts';
import { type Bundle, parseBundle } from '../../manifest/bundle.ts';
import { quote, type ReceivedManifest } from '../../manifest/received.ts';
import type { TrustedEpoch, TrustedLog } from '../../manifest/trustFile.ts';
import { type Cosigned, checkWitnesses, cosignersOf } from './checkpointCheck.ts';
import { type Finding, failed, isOpen } from './finding.ts';
import { checkLeaf } from './manifestCheck.ts';
import { findSigners } from './tlogProofCheck.ts';

/** The bundle in parsed JSON, unverified; undefined for any other value. */
export function bundleIn(value: unknown): Bundle | undefined {
  const parsed = parseBundle(value);
  return parsed?.kind === 'bundle' ? parsed.bundle : undefined;
}

/** The receipt in parsed JSON of a bundle, unverified; any other value as it is. */
export function receiptIn(value: unknown): unknown {
  const bundle = bundleIn(value);
  return bundle ? bundle.receipt : value;
}

/**
 * Checks who has witnessed the log with the leaf of the receipt in it, by the later checkpoint in a bundle. The proof must hold, whether or not
 * the trust file asks for witnesses. Any text is safe.
 */
export function checkLaterProof(
  text: string,
  manifest: ReceivedManifest,
  opened: Opened | undefined,
  log: TrustedLog,
  epoch: TrustedEpoch | undefined,
): { finding: Finding; cosigned: Cosigned[] } {
  const without = (finding: Finding) => ({ finding, cosigned: [] });
  const wrong = (detail: string) => without(failed(detail, 'proof_wrong'));
  const proof = parseTlogProof(text);
  const later = proof && openCheckpoint(proof.checkpoint);
  if (proof === undefined || proof.extra !== undefined || later === undefined)
    return wrong('tlog_proof is not a C2SP tlog-proof of version 1 without extra data');
  const { origin, treeSize, root } = later.checkpoint;
  if (origin !== log.origin) return wrong(`tlog_proof is of another log, ${quote(origin)}`);
  if (opened?.checkpoint.treeSize === treeSize && !bytesEqual(opened.checkpoint.root, root))
    return without(
      failed(`the log signed two trees of ${treeSize} leaves: show both to its administrator`, 'log_forked'),
    );
  const leaf = checkLeaf(manifest, proof, later.checkpoint);
  if (isOpen(leaf.outcome)) return wrong(`tlog_proof: ${leaf.detail}`);
  const { quorum } = findSigners(later, log, epoch);
  if (isOpen(quorum.outcome)) return without({ ...quorum, detail: `tlog_proof: ${quorum.detail}` });
  const cosigned = cosignersOf(later, log);
  return { finding: checkWitnesses(cosigned, log, 'bundle'), cosigned };
}
