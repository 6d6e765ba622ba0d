import { fromBase64 } from '../../base/bytes.ts';
import type { DocumentDigests } from '../../job/job.ts';
import type { Checkpoint } from '../../log/checkpoint.ts';
import { verifyInclusion } from '../../log/proof.ts';
import { leafHash } from '../../log/tree.ts';
import { leafData } from '../../manifest/manifest.ts';
import type { ReceivedManifest, ReceivedReceipt } from '../../manifest/received.ts';
import { type Finding, failed, passed, unknown } from './finding.ts';

/** The document as received, or the copy made of it without XMP metadata (compliance mode). */
export type Matched = 'document' | 'sealed_document';

/** The copy without metadata is sealed like the document, but the verdict must state which of the two was checked. */
export function checkDocument(
  manifest: ReceivedManifest,
  document: DocumentDigests | undefined,
): Finding & { matches?: Matched } {
  if (document === undefined) return unknown('no document to compare with', 'document_missing');
  const sealed = manifest.document;
  const difference = differenceOf(document, sealed);
  const copy = manifest.sealed_document;
  const text = `${document.bytes} bytes, SHA-256 ${document.sha256}, SHA-512 alike`;
  if (difference === undefined) return { ...passed(text), matches: 'document' };
  if (copy === undefined) return failed(difference);
  if (differenceOf(document, copy) !== undefined)
    return failed(`${difference}; nor is it sealed_document, the copy without XMP metadata`);
  const detail = `sealed_document, the copy without XMP metadata: ${text}; the document that was received has SHA-256 ${sealed.sha256}`;
  return { ...passed(detail), matches: 'sealed_document' };
}

function differenceOf(document: DocumentDigests, sealed: DocumentDigests): string | undefined {
  if (document.bytes !== sealed.bytes) return `${document.bytes} bytes; ${sealed.bytes} were sealed`;
  if (document.sha256 !== sealed.sha256) return `SHA-256 ${document.sha256}; sealed was ${sealed.sha256}`;
  if (document.sha512 !== sealed.sha512) return `SHA-512 ${document.sha512}; sealed was ${sealed.sha512}`;
  return undefined;
}

/** Notes on sources that are easily mistaken for others. The manifest itself states the rest. */
const NOTES: ReadonlyMap<string, string> = new Map([
  ['digest', 'sealed by its digests alone: the service never saw the document, nor was it scanned'],
  ['audit', 'a record of the service’s own audit trail: no client’s document'],
]);

/** A canary is in the log like any other document, so no other check would fail. */
const CANARY = 'a canary, which the service sealed to monitor itself: it does not belong to a client';

/** Why a manifest cannot be about such a subject; undefined if it can. */
export function subjectFault(
  { source }: ReceivedManifest,
  subject: 'document' | 'canary',
): string | undefined {
  if ((source === 'canary') === (subject === 'canary')) return undefined;
  return subject === 'canary' ? 'not a canary' : CANARY;
}

/** A note on the manifest's source for the reader of a passed check; empty if none is needed. */
export function noteOnSource({ source }: ReceivedManifest): string {
  const note = NOTES.get(source);
  return note === undefined ? '' : `; ${note}`;
}

/** Whether the manifest is the given leaf of the checkpoint's tree. In `proof`, a hash that could not be decoded is undefined. */
export function checkLeaf(
  manifest: ReceivedManifest,
  { index, proof }: { index: number; proof: readonly (Uint8Array | undefined)[] },
  checkpoint: Checkpoint | undefined,
): Finding {
  if (checkpoint === undefined) return failed('there is no checkpoint to lead to');
  const hashes = proof.filter((hash) => hash !== undefined);
  const leaf = leafHash(leafData(manifest));
  const included =
    hashes.length === proof.length &&
    verifyInclusion(index, checkpoint.treeSize, leaf, hashes, checkpoint.root);
  if (!included) return failed('the proof does not lead from the manifest to the checkpoint’s root');
  return passed(`leaf_index ${index} in tree_size ${checkpoint.treeSize}`);
}

/** Whether the manifest of a receipt is in the log at the place that the receipt states. */
export function checkReceiptLeaf(
  { manifest, evidence }: ReceivedReceipt,
  checkpoint: Checkpoint | undefined,
): Finding {
  if (checkpoint !== undefined && checkpoint.treeSize !== evidence.tree_size)
    return failed('tree_size is not the checkpoint’s');
  const place = { index: evidence.leaf_index, proof: evidence.inclusion_proof.map(fromBase64) };
  return checkLeaf(manifest, place, checkpoint);
}
