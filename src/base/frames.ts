import type { Duplex } from 'node:stream';

const LENGTH_BYTES = 4;

/** A JSON message preceded by its length in bytes: 32 bits, most significant byte first. */
export function encodeFrame(message: unknown): Buffer {
  const body = Buffer.from(JSON.stringify(message));
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt32BE(body.length);
  return Buffer.concat([length, body]);
}

/**
 * Passes each message of a stream to `onMessage`, as `JSON.parse` returns it. A message that is longer than `bytesMax` or not JSON destroys
 * the stream with a corresponding error.
 */
export function readFrames(stream: Duplex, bytesMax: number, onMessage: (message: unknown) => void): void {
  let held: Buffer = Buffer.alloc(0);
  stream.on('data', (chunk: Buffer) => {
    held = held.length === 0 ? chunk : Buffer.concat([held, chunk]);
    while (held.length >= LENGTH_BYTES) {
      const end = LENGTH_BYTES + held.readUInt32BE();
      if (end > LENGTH_BYTES + bytesMax) return void stream.destroy(new Error('a message is too long'));
      if (held.length < end) return;
      const message = parseMessage(held.subarray(LENGTH_BYTES, end));
      if (message === undefined) return void stream.destroy(new Error('a message is not JSON'));
      held = held.subarray(end);
      onMessage(message);
    }
  });
}

/** Undefined if it is not JSON, which cannot represent undefined. */
function parseMessage(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'));
  } catch {
    return undefined;
  }
}
