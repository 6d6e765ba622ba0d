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

/** How a document is sent: as a part of a form, or as the whole body with the fields in the query; blocking or not; to get a sealed PDF. */
export type UploadForm = 'multipart' | 'raw' | 'asynchronous' | 'attached';

const FORMS = {
  multipart: {
    query: '',
    contentType: `multipart/form-data; boundary=${BOUNDARY}`,
    before: `${field('visibility', 'private')}${field('mode', 'blocking')}${filePart()}`,
    after: `\r\n--${BOUNDARY}--\r\n`,
  },
  raw: { query: '?visibility=private&mode=blocking', contentType: 'application/pdf', before: '', after: '' },
  attached: {
    query: '?visibility=private&mode=blocking&sealed_pdf=attach',
    contentType: 'application/pdf',
    before: '',
    after: '',
  },
  asynchronous: { query: '?visibility=private', contentType: 'application/pdf', before: '', after: '' },
} as const satisfies Record<UploadForm, object>;

/** A create of a document of exactly `documentBytes`. `apiKey` is empty for the peers: they do not look. */
export function makeUpload(documentBytes: number, apiKey: string, form: UploadForm): Upload {
  const { head, fillerBytes, tail } = makeFrame(documentBytes, apiKey, form);
  return { head, rest: Buffer.concat([filler(fillerBytes), tail]) };
}

/** All of a request but the noise between its head and its tail, of which `fillerBytes` are due. */
export function makeFrame(documentBytes: number, apiKey: string, form: UploadForm) {
  const { query, contentType, before, after } = FORMS[form];
  const header = '%PDF-1.7\n%';
  const head = [
    `POST /v1/jobs/seal${query} HTTP/1.1`,
    'Host: 127.0.0.1',
    `Authorization: Bearer ${apiKey}`,
    `Content-Type: ${contentType}`,
    `Content-Length: ${before.length + documentBytes + after.length}`,
    '\r\n',
  ].join('\r\n');
  const template = Buffer.from(head + before + header);
  const { objects, fillerBytes, end } = onePage(header.length + MARK_BYTES, documentBytes);
  return {
    head: () => Buffer.concat([template, Buffer.from(randomBytes(MARK_BYTES / 2).toString('hex') + objects)]),
    fillerBytes,
    tail: Buffer.from(end + after),
  };
}

/** A sound PDF of one page around noise, which begins at `start` of the document. */
function onePage(start: number, documentBytes: number) {
  const objects = [
    '<< /Type /Catalog /Pages 2 0 R >>',
    '<< /Type /Pages /Kids [3 0 R] /Count 1 >>',
    '<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] >>',
  ].map((text, n) => `\n${n + 1} 0 obj ${text} endobj`);
  // The length of the noise and the offset of the table have the same number of digits in any document.
  const stream = (bytes: number) => `\n4 0 obj << /Length ${String(bytes).padStart(10, '0')} >> stream\n`;
  const places = objects.map((_, n) => start + objects.slice(0, n).join('').length + 1);
  places.push(start + objects.join('').length + 1);
  const rows = places.map((at) => `${String(at).padStart(10, '0')} 00000 n \n`).join('');
  const end = (at: number) =>
    `\nendstream endobj\nxref\n0 5\n0000000000 65535 f \n${rows}trailer\n<< /Size 5 /Root 1 0 R >>\nstartxref\n${String(at).padStart(10, '0')}\n%%EOF\n`;
  const fillerBytes = documentBytes - start - objects.join('').length - stream(0).length - end(0).length;
  const table = documentBytes - end(0).length + '\nendstream endobj\n'.length;
  return { objects: objects.join('') + stream(fillerBytes), fillerBytes, end: end(table) };
}

function field(name: string, value: string): string {
  return `--${BOUNDARY}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`;
}

function filePart(): string {
  const disposition = 'Content-Disposition: form-data; name="file"; filename="document.pdf"';
  return `--${BOUNDARY}\r\n${disposition}\r\nContent-Type: application/pdf\r\n\r\n`;
}

/** Noise, as the compressed streams of a real PDF are, and the same in every run: a key stream of AES-CTR. */
export function filler(bytes: number): Buffer {
  return createCipheriv('aes-128-ctr', Buffer.alloc(16), Buffer.alloc(16)).update(Buffer.alloc(bytes));
}
