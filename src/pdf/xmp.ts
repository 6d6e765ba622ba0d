import { Budget } from './budget.ts';
import type { Edit } from './findings.ts';
import { MetadataScan } from './metadataScan.ts';
import type { ByteSource } from './window.ts';

/**
 * Finds all XMP of a PDF document, and how to remove it in place. XMP is:
 *
 * - metadata streams (ISO 32000-2, 14.3.2) of the catalog and of any other object, in the newest and every earlier revision, reachable or
 *   not: streams of the type Metadata, and streams that contain a packet and are referred to by Metadata entries at most. The object
 *   becomes an empty dictionary, so neither its filters nor its length matter, and readers find no metadata rather than damaged metadata.
 *   (If it became null, the hint tables of a linearized file would still count it);
 * - the XMP of JPEG and JPEG 2000 images: the content of its segment or box becomes spaces, which decoders skip.
 *
 * Everything that can be read as an object is scanned, wherever it begins in the file. Every stream is decoded, and the output of each
 * filter is searched, including attached PDF documents. Throws NotStrippable for data that cannot be decoded with certainty, because one
 * reader might see XMP where another does not; for a packet in any other place, because it belongs to something else (an attachment, a
 * form, a string); and for an encrypted or signed document. The Info dictionary is not XMP.
 *
 * Memory is bounded for any document, and the work is proportional to its length.
 */
export async function findXmp(source: ByteSource, budget = Budget.for(source.bytes)): Promise<Edit[]> {
  return new MetadataScan(source, budget).run();
}

/** Applies edits to data that begins at `position` of the document. */
export function applyEdits(data: Buffer, position: number, edits: readonly Edit[]): void {
  for (const { start, end, text } of edits) {
    const from = Math.max(0, start - position);
    const to = Math.min(data.length, end - position);
    if (from >= to) continue;
    data.fill(0x20, from, to);
    for (let i = 0; i < text.length; i += 1) {
      const at = start + i - position;
      if (at >= 0 && at < to) data[at] = text.charCodeAt(i);
    }
  }
}
