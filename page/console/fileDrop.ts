/** A document that is chosen, or dropped anywhere on the page: it is hashed locally and not sent. */
import { takeDropped } from '../browser.ts';
import { find } from '../dom.ts';
import { type Digests, digestFile } from '../hashing.ts';

/** A file and its digests. The file itself is not sent. */
export interface Hashed extends Digests {
  name: string;
}

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
      const digests = await digestFile(file, (done) => {
        if (isOld()) return false;
        bar.value = done / file.size;
        return true;
      });
      if (digests === undefined || isOld()) return;
      work.textContent = '';
      await then({ name: file.name, ...digests });
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
