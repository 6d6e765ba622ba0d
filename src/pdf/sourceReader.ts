import { inflateSync, type Zlib } from 'node:zlib';
import type { PdfReader } from './update/attach.ts';
import type { ByteSource } from './window.ts';

/** A source of this process for the planner of sealed PDFs, with the inflater of Node, which is faster than that of browsers. */
export function readerOf(source: ByteSource): PdfReader {
  return {
    size: source.bytes,
    read: (offset, length) => source.read(offset, length),
    inflate: (data, bytesMax) => {
      const options = { maxOutputLength: Math.max(1, bytesMax), info: true };
      const { buffer, engine } = inflateSync(data, options) as unknown as { buffer: Buffer; engine: Zlib };
      // As in browsers, only line ends may follow.
      if (data.subarray(engine.bytesWritten).some((byte) => byte !== 0x0a && byte !== 0x0d))
        throw new RangeError('something follows the data');
      return buffer;
    },
  };
}
