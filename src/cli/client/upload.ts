import { createReadStream } from 'node:fs';
import { Readable } from 'node:stream';
import { unusable } from '../../base/atomicFile.ts';
import { OperatorError } from '../../base/errors.ts';
import type { StreamedBody } from './apiClient.ts';

const READ_BYTES = 1 << 18;

/** A `multipart/form-data` create (RFC 7578): the fields, then the file, streamed from disk. */
export function multipartUpload(
  fields: Record<string, string>,
  file: { path: string; bytes: number },
  onSent: (bytes: number) => void,
): StreamedBody {
  const boundary = `pdfseal-${crypto.randomUUID()}`;
  const parts = Object.entries(fields).map(
    ([name, value]) => `--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
  );
  // The server need not know the name of the local file.
  const fileHead =
    'Content-Disposition: form-data; name="file"; filename="document.pdf"\r\nContent-Type: application/pdf';
  const head = Buffer.from(`${parts.join('')}--${boundary}\r\n${fileHead}\r\n\r\n`);
  const tail = Buffer.from(`\r\n--${boundary}--\r\n`);
  return {
    contentType: `multipart/form-data; boundary=${boundary}`,
    bytes: head.length + file.bytes + tail.length,
    open: () => Readable.from(concatenate(head, file, tail, onSent)),
  };
}

async function* concatenate(
  head: Buffer,
  file: { path: string; bytes: number },
  tail: Buffer,
  onSent: (bytes: number) => void,
): AsyncGenerator<Buffer> {
  yield head;
  let sent = 0;
  for await (const chunk of read(file.path)) {
    sent += chunk.length;
    if (sent > file.bytes) break;
    yield chunk;
    onSent(sent);
  }
  if (sent !== file.bytes) throw new OperatorError(`${file.path} changed during the upload`);
  yield tail;
}

async function* read(path: string): AsyncGenerator<Buffer> {
  try {
    yield* createReadStream(path, { highWaterMark: READ_BYTES });
  } catch (cause) {
    throw unusable('read', path, cause);
  }
}
