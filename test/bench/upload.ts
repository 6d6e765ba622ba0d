import { createCipheriv, randomBytes } from 'node:crypto';

/** An HTTP request with one document, in two parts so that 20 MB need not be copied to make each document unique. */
export interface Upload {
  /** Request head, form fields and the start of the document, with a fresh mark in it: no two documents are equal. */
  head(): Buffer;
  /** All that follows, shared by every request. */
  rest: Buffer;
}

const BOUNDARY = 'pdfseal-bench-5f0c1e7a9b3d';
const MARK_BYTES = 24;

/** A blocking create of a document of exactly `documentBytes`. `apiKey` is empty for the peers: they do not look. */
export function makeUpload(documentBytes: number, apiKey: string): Upload {
  const open = `${field('visibility', 'private')}${field('mode', 'blocking')}${filePart()}%PDF-1.7\n%`;
  const [eof, close] = ['\n%%EOF\n', `\r\n--${BOUNDARY}--\r\n`];
  const fillerBytes = documentBytes - '%PDF-1.7\n%'.length - MARK_BYTES - eof.length;
  const rest = Buffer.concat([filler(fillerBytes), Buffer.from(eof), Buffer.from(close)]);
  const template = Buffer.from(requestHead(open.length + MARK_BYTES + rest.length, apiKey) + open);
  return {
    head: () => Buffer.concat([template, Buffer.from(randomBytes(MARK_BYTES / 2).toString('hex'))]),
    rest,
  };
}

function requestHead(contentBytes: number, apiKey: string): string {
  return [
    'POST /v1/jobs/seal HTTP/1.1',
    'Host: 127.0.0.1',
    `Authorization: Bearer ${apiKey}`,
    `Content-Type: multipart/form-data; boundary=${BOUNDARY}`,
    `Content-Length: ${contentBytes}`,
    '\r\n',
  ].join('\r\n');
}

function field(name: string, value: string): string {
  return `--${BOUNDARY}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`;
}

function filePart(): string {
  const disposition = 'Content-Disposition: form-data; name="file"; filename="document.pdf"';
  return `--${BOUNDARY}\r\n${disposition}\r\nContent-Type: application/pdf\r\n\r\n`;
}

/** Noise, as the compressed streams of a real PDF are, and the same in every run: a key stream of AES-CTR. */
function filler(bytes: number): Buffer {
  return createCipheriv('aes-128-ctr', Buffer.alloc(16), Buffer.alloc(16)).update(Buffer.alloc(bytes));
}
