/** Writes the files of an archive that tar(1) reads (POSIX.1-2024, pax, ustar interchange format). */

const BLOCK_BYTES = 512;
const MODE = '0000644';

/** One file: header, content, and padding of the last block. `name` has at most 100 bytes; `time` is in seconds since the epoch. */
export function tarFile(name: string, content: Buffer, time: number): Buffer {
  const padding = -content.length & (BLOCK_BYTES - 1);
  return Buffer.concat([headerOf(name, content.length, time), content, Buffer.alloc(padding)]);
}

/** End-of-archive marker. */
export const TAR_END = Buffer.alloc(2 * BLOCK_BYTES);

function headerOf(name: string, bytes: number, time: number): Buffer {
  const header = Buffer.alloc(BLOCK_BYTES);
  header.write(name, 0);
  header.write(MODE, 100);
  for (const at of [108, 116]) header.write(octal(0, 7), at);
  header.write(octal(bytes, 11), 124);
  header.write(octal(Math.floor(time), 11), 136);
  header.write('0', 156);
  header.write('ustar\u000000', 257, 'latin1');
  // The checksum counts its own field as spaces.
  header.fill(' ', 148, 156);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${octal(sum, 6)}\0 `, 148, 'latin1');
  return header;
}

function octal(value: number, digits: number): string {
  return value.toString(8).padStart(digits, '0');
}
