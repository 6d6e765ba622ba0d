import { closeSync, fstatSync, openSync, readSync, writeSync } from 'node:fs';

/** Changes one byte in the middle of a file. */
export function changeByte(file: string): void {
  const handle = openSync(file, 'r+');
  const at = Math.floor(fstatSync(handle).size / 2);
  const byte = Buffer.alloc(1);
  readSync(handle, byte, 0, 1, at);
  writeSync(handle, Buffer.of((byte[0] ?? 0) ^ 1), 0, 1, at);
  closeSync(handle);
}
