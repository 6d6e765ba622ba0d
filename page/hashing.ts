/** Hashes a file of any size without blocking the page. */
import { sha256, sha512 } from '@noble/hashes/sha2.js';
import { bytesToHex } from '@noble/hashes/utils.js';

/** Bytes hashed between two frames: a few milliseconds on a slow computer. */
export const SLICE_BYTES = 131_072;

/** Bytes read at once. */
const READ_BYTES = 4_194_304;

export interface Digests {
  sha256: string;
  sha512: string;
  bytes: number;
}

/**
 * Both digests; undefined once `progress`, which is called after each slice with the number of bytes done, returns false. The page can
 * paint and respond between two slices. WebCrypto is faster, but would need the whole file in memory.
 */
export async function digestFile(
  file: Blob,
  progress: (done: number) => boolean,
): Promise<Digests | undefined> {
  const [short, long] = [sha256.create(), sha512.create()];
  for (let from = 0; from < file.size; from += READ_BYTES) {
    const bytes = new Uint8Array(await file.slice(from, from + READ_BYTES).arrayBuffer());
    for (let at = 0; at < bytes.length; at += SLICE_BYTES) {
      const slice = bytes.subarray(at, at + SLICE_BYTES);
      short.update(slice);
      long.update(slice);
      if (!progress(from + at + slice.length)) return undefined;
      await nextTask();
    }
  }
  return { sha256: bytesToHex(short.digest()), sha512: bytesToHex(long.digest()), bytes: file.size };
}

/** Unlike a timer, a message is never throttled: neither to four milliseconds each, nor to a second in a background tab. */
function nextTask(): Promise<void> {
  const { port1, port2 } = new MessageChannel();
  return new Promise((resolve) => {
    const told = () => {
      port1.close();
      resolve();
    };
    port1.addEventListener('message', told);
    port1.start();
    port2.postMessage(undefined);
  });
}
