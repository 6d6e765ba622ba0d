import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { ServiceError } from '../../src/base/errors.ts';
import type { Hasher } from '../../src/hash/hasher.ts';
import { openHashPool } from '../../src/hash/pool.ts';
import { fc, randomBytes, tries } from '../support/seed.ts';
import {
  answerOf,
  BOUNDARY,
  CONTENT_TYPE,
  field,
  file,
  form,
  openUploads,
  startUpload,
  type TestPart,
  upload,
} from './uploads.ts';

const PDF = Buffer.from('%PDF-1.7\n1 0 obj\n<<>>\nendobj\n%%EOF\n');
const PRIVATE = field('visibility', 'private');

const pool = await openHashPool({
  workers: 1,
  engine: 'native',
  onTrouble: (error) => t.fail(String(error)),
});
t.teardown(() => pool.close());

function digestsOf(data: Uint8Array) {
  const hex = (algorithm: string) => createHash(algorithm).update(data).digest('hex');
  return { sha256: hex('sha256'), sha512: hex('sha512'), bytes: data.length };
}

function pdfOf(bytes: number): Buffer {
  return Buffer.concat([Buffer.from('%PDF-1.7\n'), randomBytes(bytes - 15), Buffer.from('\n%%EOF')]);
}

t.test('a document is received with all fields, in any order', async (t) => {
  const { port } = await openUploads(t, { pool });
  const { sha256 } = digestsOf(PDF);
  const parts = [
    PRIVATE,
    field('purpose', 'invoices'),
    file(PDF),
    field('customer_reference', '\ufeffÄ \r\n😀'),
    field('mode', 'blocking'),
    field('preserve_metadata', 'true'),
    field('checksum_sha256', sha256.toUpperCase()),
  ];
  for (const order of [parts, parts.toReversed()]) {
    t.same(await upload(port, form(...order)), {
      document: digestsOf(PDF),
      request: {
        visibility: 'private',
        mode: 'blocking',
        preserveMetadata: true,
        purpose: 'invoices',
        customerReference: '\ufeffÄ \r\n😀',
        checksumSha256: sha256,
      },
    });
  }
});

t.test('unusual but valid forms are accepted', async (t) => {
  const { port } = await openUploads(t, { pool });
  const disposition = (text: string): TestPart => ({ headers: `Content-Disposition: ${text}`, body: PDF });
  const good = form(PRIVATE, file(PDF));
  for (const [name, body, contentType] of [
    ['a filename without quotes', form(PRIVATE, disposition('form-data; name=file; filename=a.pdf'))],
    ['an empty filename', form(PRIVATE, disposition('form-data; name="file"; filename=""'))],
    ['filename*', form(PRIVATE, disposition("form-data; name=file; filename*=UTF-8''%e2%82%ac.pdf"))],
    [
      'a filename with escapes',
      form(PRIVATE, disposition('form-data; name="file"; filename="a\\"; name=\\".pdf"')),
    ],
    ['a folded header', form(PRIVATE, disposition('form-data;\r\n name=file;\r\n\tfilename="a.pdf"'))],
    [
      'a header of its own',
      form(PRIVATE, { ...file(PDF), headers: `X-1: ${'y'.repeat(9000)}\r\n${file('').headers}` }),
    ],
    ['a filename in latin1', form(PRIVATE, disposition('Form-Data;NAME=file;filename="\xe4.pdf"'))],
    [
      'a file by its type',
      form(PRIVATE, disposition('form-data; name=file\r\nContent-Type: application/pdf')),
    ],
    [
      'a file of any type',
      form(PRIVATE, disposition('form-data; name=file; filename=a\r\nContent-Type: text/html')),
    ],
    [
      'binary transfer encoding',
      form(PRIVATE, { ...file(PDF), headers: `${file('').headers}\r\nContent-Transfer-Encoding: Binary` }),
    ],
    [
      'text with its charset',
      form(
        { headers: `${PRIVATE.headers}\r\nContent-Type: text/plain; charset="UTF-8"`, body: 'private' },
        file(PDF),
      ),
    ],
    ['a preamble and an epilogue', Buffer.concat([Buffer.from('hello\r\n'), good, Buffer.from('bye')])],
    ['an epilogue that looks like a part', Buffer.concat([good, form(field('nonsense', 'x'))])],
    ['a quoted boundary', good, `multipart/form-data; charset=utf-8; boundary="${BOUNDARY}"`],
    ['a boundary in other case', good, `Multipart/Form-Data;Boundary=${BOUNDARY};`],
  ] as const) {
    t.match(await upload(port, body, contentType), { document: digestsOf(PDF) }, name);
  }
});

const malformed = (name: string, body: Buffer | string, contentType = CONTENT_TYPE) =>
  ({ name, body: Buffer.from(body), contentType, code: 'malformed_multipart' }) as const;
const refused = (code: string, parameter: string | undefined, ...parts: TestPart[]) => ({
  name: `${code} ${parameter} ${parts.map(({ headers }) => headers.split('\r\n')[0]?.slice(38, 60))}`,
  body: form(...parts),
  contentType: CONTENT_TYPE,
  code,
  parameter,
});
const withHeader = (header: string): TestPart => ({ headers: `${file('').headers}\r\n${header}`, body: PDF });
const good = form(PRIVATE, file(PDF)).toString('latin1');

const BASE64 = 'Content-Transfer-Encoding: base64';

const REFUSALS = [
  malformed('an empty body', ''),
  malformed('only a closing boundary cut short', `--${BOUNDARY}-`),
  malformed('not multipart at all', '{"visibility":"private"}'),
  malformed('truncated in the document', good.slice(0, good.indexOf('%%EOF'))),
  malformed('truncated in a header', good.slice(0, good.indexOf('filename'))),
  malformed('truncated before the closing boundary', good.slice(0, good.lastIndexOf('--b'))),
  malformed('truncated in the closing boundary', good.slice(0, good.lastIndexOf('--'))),
  malformed('no boundary', good, 'multipart/form-data'),
  malformed('an empty boundary', good, 'multipart/form-data; boundary='),
  malformed('an empty quoted boundary', good, 'multipart/form-data; boundary=""'),
  malformed('two boundaries', good, `${CONTENT_TYPE}; boundary=other`),
  malformed('a boundary of 71 characters', good, `multipart/form-data; boundary=${'a'.repeat(71)}`),
  malformed('a boundary of 5000 characters', good, `multipart/form-data; boundary=${'a'.repeat(5000)}`),
  malformed('a boundary with a control character', good, 'multipart/form-data; boundary="a\tb"'),
  malformed('a boundary in latin1', good, 'multipart/form-data; boundary=\xe4'),
  malformed('an unclosed quote', good, `multipart/form-data; boundary="${BOUNDARY}`),
  malformed('another boundary', good, 'multipart/form-data; boundary=other'),
  malformed('bare line feeds', good.replaceAll('\r\n', '\n')),
  malformed('bare line feeds in a header', good.replace('; name', ';\n name')),
  malformed('a bare carriage return in a name', good.replace('visibility', 'visi\rbility')),
  malformed('a part without headers', `--${BOUNDARY}\r\n\r\nx\r\n--${BOUNDARY}--`),
  malformed('a part without an end to its headers', `--${BOUNDARY}\r\nA: b\r\n--${BOUNDARY}--`),
  malformed('an empty part', `--${BOUNDARY}\r\n--${BOUNDARY}--`),
  malformed('a part without a disposition', form({ headers: 'Content-Type: text/plain', body: 'x' })),
  malformed('a part without a name', form({ headers: 'Content-Disposition: form-data', body: 'x' })),
  malformed('an empty name', form(field('', 'x'))),
  malformed(
    'a name in name*',
    form({ headers: "Content-Disposition: form-data; name*=UTF-8''file", body: 'x' }),
  ),
  malformed(
    'two names',
    form({ headers: 'Content-Disposition: form-data; name=mode; name=file', body: 'x' }),
  ),
  malformed('a name that is not UTF-8', form(field('\xff', 'x'))),
  malformed('an attachment', form({ headers: 'Content-Disposition: attachment; name=file', body: 'x' })),
  malformed('a line without a colon before base64', form(withHeader(`bad\r\n${BASE64}`))),
  malformed('a bare line feed before base64', form(withHeader(`X: a\nb\r\n${BASE64}`))),
  malformed('a bare carriage return before base64', form(withHeader(`X: a\rb\r\n${BASE64}`))),
  malformed('a nameless header before base64', form(withHeader(`: x\r\n${BASE64}`))),
  malformed('a space before a colon', form(withHeader(BASE64.replace(':', ' :')))),
  malformed('a fold before any header', form({ ...file(PDF), headers: ` x\r\n${file('').headers}` })),
  malformed(
    'too many bytes of headers before base64',
    form(withHeader(`X: ${'y'.repeat(90_000)}\r\n${BASE64}`)),
  ),
  malformed('one byte of headers too many', form(withHeader(`X: ${'y'.repeat(16_384)}`))),
  malformed('text after a delimiter', good.replace(BOUNDARY, `${BOUNDARY}x`)),
  malformed('two dispositions', form(withHeader('Content-Disposition: form-data; name=mode'))),
  malformed('base64', form(withHeader('Content-Transfer-Encoding: base64'))),
  malformed('quoted-printable', form(withHeader('Content-Transfer-Encoding: Quoted-Printable'))),
  malformed(
    'multipart/mixed',
    form({
      ...file(PDF),
      headers: `${file('').headers.replace('application/pdf', 'multipart/mixed; boundary=i')}`,
    }),
  ),
  malformed(
    'UTF-16',
    form({ headers: `${PRIVATE.headers}\r\nContent-Type: text/plain; charset=utf-16le`, body: 'x' }),
  ),
  malformed('17 headers', form(withHeader(Array.from({ length: 15 }, (_, i) => `X-${i}: y`).join('\r\n')))),
  malformed('a huge header', form(withHeader(`X: ${'y'.repeat(200_000)}`))),
  malformed('a header that never ends', `--${BOUNDARY}\r\nX: ${'y'.repeat(200_000)}`),
  malformed('thousands of parts', `--${BOUNDARY}\r\n`.repeat(5000)),
  malformed('a flood in the preamble', 'x'.repeat(300_000) + good),
  malformed('a flood in the epilogue', good + 'x'.repeat(300_000)),
  refused('missing_parameter', 'visibility', file(PDF)),
  refused('missing_file', 'file', PRIVATE),
  refused('missing_file', 'file', PRIVATE, field('file', PDF)),
  refused('missing_file', 'file', PRIVATE, field('source_url', 'https://example.com/a.pdf')),
  refused('file_and_source_url', 'source_url', field('source_url', 'https://example.com/a.pdf'), file(PDF)),
  refused('file_and_source_url', 'source_url', file(PDF), field('source_url', 'https://example.com/a.pdf')),
  refused('duplicate_parameter', 'file', PRIVATE, file(PDF), file(PDF)),
  refused('duplicate_parameter', 'visibility', PRIVATE, PRIVATE, file(PDF)),
  refused('unknown_parameter', undefined, PRIVATE, file(PDF, 'document')),
  refused('unknown_parameter', undefined, PRIVATE, file(PDF, 'mode')),
  refused('unknown_parameter', 'files', PRIVATE, field('files', 'x'), file(PDF)),
  refused('unknown_parameter', '__proto__', PRIVATE, field('__proto__', 'x'), file(PDF)),
  refused('unknown_parameter', '_charset_', field('_charset_', 'utf-16'), PRIVATE, file(PDF)),
  refused('invalid_parameter', 'visibility', field('visibility', 'public'), file(PDF)),
  refused('invalid_parameter', 'preserve_metadata', PRIVATE, field('preserve_metadata', 'yes'), file(PDF)),
  refused('invalid_parameter', 'purpose', PRIVATE, field('purpose', ''), file(PDF)),
  refused('invalid_parameter', 'purpose', PRIVATE, field('purpose', Buffer.of(0x61, 0xff)), file(PDF)),
  refused('invalid_parameter', 'purpose', PRIVATE, field('purpose', Buffer.of(0xed, 0xa0, 0x80)), file(PDF)),
  refused('invalid_parameter', 'purpose', PRIVATE, field('purpose', 'x'.repeat(9000)), file(PDF)),
  refused('not_a_pdf', 'file', PRIVATE, file('')),
  refused('not_a_pdf', 'file', PRIVATE, file('hello')),
  refused('not_a_pdf', 'file', PRIVATE, file(Buffer.concat([PDF, Buffer.alloc(2000)]))),
  refused('document_too_large', 'file', PRIVATE, file(pdfOf(1024 * 1024 + 1))),
  refused(
    'checksum_mismatch',
    'checksum_sha256',
    PRIVATE,
    file(PDF),
    field('checksum_sha256', '0'.repeat(64)),
  ),
];

t.test('each faulty form is refused with its code', async (t) => {
  const { port } = await openUploads(t, { pool });
  for (const { name, body, contentType, code, ...more } of REFUSALS) {
    const received = await upload(port, body, contentType);
    t.match(received, { code, ...('parameter' in more && { parameter: more.parameter }) }, name);
  }
  t.match(await upload(port, form(PRIVATE, file(PDF))), { document: digestsOf(PDF) }, 'and it still works');
});

t.test('a document of exactly the limit is accepted', async (t) => {
  const { port } = await openUploads(t, { pool });
  const document = pdfOf(1024 * 1024);
  t.match(await upload(port, form(PRIVATE, file(document))), { document: digestsOf(document) });
});

t.test('a body that arrived before it was read is received whole', async (t) => {
  const { port } = await openUploads(t, { pool, delayMs: 50 });
  const document = pdfOf(1024 * 1024);
  const parts = [PRIVATE, field('customer_reference', 'x'.repeat(512)), file(document)];
  t.match(await upload(port, form(...parts)), { document: digestsOf(document) });
});

t.test('a body cut anywhere gives the same document', async (t) => {
  const { port } = await openUploads(t, { pool });
  // Beginnings of the delimiter, everywhere: what a parser that keeps too little would lose.
  const tricky = `\r\n--${BOUNDARY.slice(0, -1)}\r\n-\r\r\n--b\r\n--${BOUNDARY.slice(0, 3)}`.repeat(4);
  const document = Buffer.from(`%PDF-${tricky}%%EOF\r`);
  const body = form(
    field('visibility', 'partner'),
    file(document),
    field('customer_reference', tricky.slice(0, 90)),
  );
  const expected = {
    document: digestsOf(document),
    request: {
      visibility: 'partner',
      mode: 'async',
      preserveMetadata: false,
      customerReference: tricky.slice(0, 90),
    },
  };
  const property = fc.asyncProperty(fc.uniqueArray(fc.nat(body.length), { maxLength: 12 }), async (cuts) => {
    const bounds = [0, ...cuts.sort((a, b) => a - b), body.length];
    const pieces = bounds.slice(1).map((end, i) => body.subarray(bounds[i], end));
    assert.deepEqual(await upload(port, pieces), expected);
  });
  await t.resolves(fc.assert(property, { numRuns: tries(150) }));
  t.same(
    await upload(
      port,
      [...body].map((byte) => Buffer.of(byte)),
    ),
    expected,
    'byte by byte',
  );
});

t.test('garbage is always refused, and never hangs or crashes the service', async (t) => {
  const { port } = await openUploads(t, { pool });
  const scraps = fc.constantFrom(
    '--',
    '\r\n',
    '\r',
    '\n',
    `--${BOUNDARY}`,
    `\r\n--${BOUNDARY}\r\n`,
    `\r\n--${BOUNDARY}--`,
    'Content-Disposition: form-data; name="visibility"\r\n\r\nprivate',
    `${file('').headers}\r\n\r\n`,
    'Content-Disposition: form-data; name=',
    '%PDF-',
    'x',
    '\0',
    ':',
    ';',
    '"',
  );
  const junk = fc.oneof(
    { weight: 4, arbitrary: scraps },
    { weight: 1, arbitrary: fc.string({ unit: 'binary' }) },
  );
  const property = fc.asyncProperty(fc.array(junk, { maxLength: 30 }), async (pieces) => {
    const { code } = await upload(port, Buffer.from(pieces.join(''), 'utf8'));
    assert.match(
      code ?? 'accepted',
      /^(malformed_multipart|missing_\w+|(duplicate|invalid|unknown)_parameter|not_a_pdf)$/,
    );
  });
  await t.resolves(fc.assert(property, { numRuns: tries(300) }));
  const damage = fc.asyncProperty(fc.nat(good.length - 1), fc.nat(255), async (at, byte) => {
    const body = Buffer.from(good, 'latin1');
    body[at] = byte;
    const { code } = await upload(port, body);
    assert(code === undefined || /^[a-z_]+$/.test(code), code);
  });
  await t.resolves(fc.assert(damage, { numRuns: tries(200) }));
});

t.test('a fault is reported in the middle of the body', async (t) => {
  const { port } = await openUploads(t, { pool, documentBytesMax: 10_000_000 });
  const whole = { 'Content-Type': CONTENT_TYPE, 'Content-Length': 5_000_000 };
  for (const [code, ...parts] of [
    ['invalid_parameter', field('mode', 'wrong'), file(PDF)],
    ['not_a_pdf', PRIVATE, file(Buffer.alloc(2000))],
    ['unknown_parameter', field('mdoe', 'x'), file(PDF)],
  ] as const) {
    const socket = startUpload(port, whole);
    socket.write(form(...parts).subarray(0, -20));
    t.match(await answerOf(socket), { code });
  }
});

t.test('an announced length over the limit is refused before the body', async (t) => {
  const { port } = await openUploads(t, { pool });
  const socket = startUpload(port, { 'Content-Type': CONTENT_TYPE, 'Content-Length': 2_000_000 });
  t.match(await answerOf(socket), { code: 'document_too_large', parameter: 'file' });
});

t.test('a chunked body is refused when it exceeds the limit', async (t) => {
  const { port } = await openUploads(t, { pool, documentBytesMax: 100_000 });
  const socket = startUpload(port, { 'Content-Type': CONTENT_TYPE, 'Transfer-Encoding': 'chunked' });
  const body = form(PRIVATE, file(pdfOf(100_500))).subarray(0, -20);
  socket.write(`${body.length.toString(16)}\r\n`);
  socket.write(body);
  t.match(await answerOf(socket), { code: 'document_too_large' });
});

t.test('a body that stops arriving times out', async (t) => {
  const { port } = await openUploads(t, { pool, bodyIdleTimeoutMs: 100 });
  for (const body of [Buffer.alloc(0), form(PRIVATE, file(PDF)).subarray(0, -30)]) {
    const socket = startUpload(port, { 'Content-Type': CONTENT_TYPE, 'Content-Length': 1000 });
    socket.write(body);
    t.match(await answerOf(socket), { code: 'body_timeout' });
  }
});

t.test('a body that arrives slowly but steadily is received', async (t) => {
  const { port } = await openUploads(t, { pool, bodyIdleTimeoutMs: 3000 });
  const body = form(PRIVATE, file(PDF));
  const startedAt = performance.now();
  const socket = startUpload(port, { 'Content-Type': CONTENT_TYPE, 'Content-Length': body.length });
  for (let at = 0; at < body.length; at += 4) {
    socket.write(body.subarray(at, at + 4));
    await sleep(70);
  }
  t.ok(performance.now() - startedAt > 3000, 'it took longer than nothing may come');
  t.match(await answerOf(socket), { document: digestsOf(PDF) });
});

t.test('a body below the minimum speed times out', async (t) => {
  const { port } = await openUploads(t, { pool, bodyIdleTimeoutMs: 500, bodyBytesPerSecondMin: 1000 });
  const socket = startUpload(port, { 'Content-Type': CONTENT_TYPE, 'Content-Length': 1_000_000 });
  socket.write(form(PRIVATE, file(pdfOf(10_000))).subarray(0, -100));
  const drip = setInterval(() => socket.write('x'), 50);
  t.teardown(() => clearInterval(drip));
  t.match(await answerOf(socket), { code: 'body_timeout', message: /1000 bytes per second/ });
});

t.test('time in which the service does not read does not count against the sender', async (t) => {
  const room = Promise.withResolvers<void>();
  const slow = (): Hasher => {
    const hasher = pool.hasher();
    let held = false;
    const update = (chunk: Uint8Array) => {
      const due = hasher.update(chunk);
      if (held) return due;
      held = true;
      return Promise.all([due, room.promise]).then(() => {});
    };
    return { update, digest: () => hasher.digest(), abort: () => hasher.abort() };
  };
  const options = { bodyIdleTimeoutMs: 1000, bodyBytesPerSecondMin: 1000 };
  const { port, received } = await openUploads(t, { pool: { hasher: slow }, ...options });
  const document = pdfOf(50_000);
  const body = form(PRIVATE, file(document));
  const socket = startUpload(port, { 'Content-Type': CONTENT_TYPE, 'Content-Length': body.length });
  socket.write(body.subarray(0, 1000));
  await sleep(2500);
  t.strictSame(received, [], 'it is not blamed');
  room.resolve();
  socket.write(body.subarray(1000));
  t.match(await answerOf(socket), { document: digestsOf(document) });
});

t.test('a client that disconnects leaves nothing', async (t) => {
  const open = new Set<Hasher>();
  const watched = () => {
    const hasher = pool.hasher();
    open.add(hasher);
    const abort = () => {
      open.delete(hasher);
      hasher.abort();
    };
    return { ...hasher, abort };
  };
  const { port, received } = await openUploads(t, {
    pool: { hasher: watched },
    documentBytesMax: 10_000_000,
  });
  const body = form(PRIVATE, file(pdfOf(3_000_000)));
  for (const [i, bytes] of [0, 50, 1000, 2_000_000, body.length - 5].entries()) {
    const socket = startUpload(port, { 'Content-Type': CONTENT_TYPE, 'Content-Length': body.length });
    await new Promise((resolve) => socket.write(body.subarray(0, bytes), resolve));
    socket.resetAndDestroy();
    while (received.length <= i) await sleep(5);
    t.match(received[i], { code: 'incomplete_body' }, `${bytes} bytes sent`);
    t.equal(open.size, 0, 'the hasher was told');
  }
});

t.test('a stop refuses uploads under way and new ones', async (t) => {
  const stop = new AbortController();
  const { port } = await openUploads(t, { pool, signal: stop.signal });
  const socket = startUpload(port, { 'Content-Type': CONTENT_TYPE, 'Content-Length': 1000 });
  socket.write(form(PRIVATE).subarray(0, 50));
  await sleep(50);
  stop.abort(new ServiceError('shutting_down', 'The service is stopping.'));
  t.match(await answerOf(socket), { code: 'shutting_down' });
  t.match(await upload(port, form(PRIVATE, file(PDF))), { code: 'shutting_down' });
});

t.test('a lost hash worker fails one upload, with an error that is not the caller’s', async (t) => {
  const refusing = {
    update: () => undefined,
    digest: () => Promise.reject(new Error('lost')),
    abort: () => {},
  };
  const { port } = await openUploads(t, { pool: { hasher: () => refusing } });
  t.match(await upload(port, form(PRIVATE, file(PDF))), { code: /^not a ServiceError: Error: lost/ });
});

t.test('fast uploads complete next to slow ones', async (t) => {
  const { port } = await openUploads(t, { pool });
  const slow = Array.from({ length: 200 }, () => {
    const socket = startUpload(port, { 'Content-Type': CONTENT_TYPE, 'Content-Length': 10_000 });
    socket.write(form(PRIVATE, file(PDF)).subarray(0, -30));
    return socket;
  });
  const documents = Array.from({ length: 40 }, (_, i) => pdfOf(5000 + i * 7919));
  const received = await Promise.all(
    documents.map((document) => upload(port, form(PRIVATE, file(document)))),
  );
  for (const [i, document] of documents.entries()) t.match(received[i], { document: digestsOf(document) });
  for (const socket of slow) socket.destroy();
});

t.test('memory does not grow with the document', async (t) => {
  const bytes = 128 * 1024 * 1024;
  const { port } = await openUploads(t, { pool, documentBytesMax: bytes * 2 });
  const [head, tail] = form(PRIVATE, file('%PDF-X%%EOF')).toString('latin1').split('X');
  assert(head !== undefined && tail !== undefined);
  const length = head.length + bytes + tail.length;
  const socket = startUpload(port, { 'Content-Type': CONTENT_TYPE, 'Content-Length': length });
  const before = process.memoryUsage.rss();
  let peak = before;
  const chunk = Buffer.alloc(1024 * 1024, 'pdf');
  socket.write(head);
  for (let sent = 0; sent < bytes; sent += chunk.length) {
    if (!socket.write(chunk)) await new Promise((resolve) => socket.once('drain', resolve));
    peak = Math.max(peak, process.memoryUsage.rss());
  }
  socket.write(tail);
  t.match(await answerOf(socket), { document: { bytes: bytes + 10 } });
  t.ok(peak - before < bytes / 2, `grew by ${peak - before} bytes`);
});
