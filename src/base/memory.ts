/**
 * Frees the memory of bytes that are no longer needed. Otherwise, it accumulates until the garbage collector marks the whole heap, tens of
 * times a second. Bytes in a larger buffer are left as they are.
 */
export function free({ buffer, byteLength }: Uint8Array): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer(0);
}
