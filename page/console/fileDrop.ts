/** A document that is chosen, or dropped anywhere on the page: it is hashed locally and not sent. In a PDF that holds its receipt, the document that was sealed is hashed. */
import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';
import { openSealedPdf } from 'pdfseald/verify';
import { takeDropped } from '../browser.ts';
import { find } from '../dom.ts';
import { type Digests, digestFile } from '../hashing.ts';

/** A file and the digests of its document. The file itself is not sent. */
export interface Hashed extends Digests {
  name: string;
  /** For a PDF that holds its receipt: the digest of that receipt, and whether nothing else was added. */
  attached?: { receiptSha256: string; seal: SealedPdf['finding'] };
}

type SealedPdf = Awaited<ReturnType<typeof openSealedPdf>>;

export function takeFiles(then: (hashed: Hashed) => void | Promise<void>): void {
  const zone = find('#drop', HTMLElement);
  const input = find('#file', HTMLInputElement);
  const bar = find('#drop-bar', HTMLProgressElement);
  const work = find('#drop-work', HTMLElement);
  /** Identifies the file being hashed: an older result must not be reported for a newer file. */
  let generation = 0;

  const take = async (file: File | undefined) => {
    if (file === undefined) return;
    generation += 1;
    const current = generation;
    const isOld = () => current !== generation;
    work.className = '';
    work.textContent = zone.dataset.hashing ?? '';
    bar.hidden = false;
    bar.value = 0;
    try {
      const read = async (offset: number, length: number) => {
        if (isOld()) throw new Error('another file was dropped');
        return new Uint8Array(await file.slice(offset, offset + length).arrayBuffer());
      };
      const pdf = await openSealedPdf({ size: file.size, read });
      const { receipt, finding: seal, documentBytes = file.size } = pdf;
      const digests = await digestFile(file.slice(0, documentBytes), (done) => {
        if (isOld()) return false;
        bar.value = done / documentBytes;
        return true;
      });
      if (digests === undefined || isOld()) return;
      work.textContent = '';
      const receiptSha256 = receipt === undefined ? '' : bytesToHex(sha256(utf8ToBytes(receipt)));
      await then({ name: file.name, ...digests, ...(receipt && { attached: { receiptSha256, seal } }) });
    } catch {
      if (isOld()) return;
      work.className = 'bad';
      work.textContent = zone.dataset.unreadable ?? '';
    }
    bar.hidden = true;
  };

  zone.hidden = false;
  input.addEventListener('change', () => {
    void take(input.files?.[0]);
    input.value = '';
  });
  takeDropped(zone, ([file]) => void take(file));
}
