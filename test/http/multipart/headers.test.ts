import t from 'tap';
import { ServiceError } from '../../../src/base/errors.ts';
import { boundaryOf, decodeUtf8, parsePartHeaders } from '../../../src/http/multipart/headers.ts';
import { fc, tries } from '../../support/seed.ts';

/** The headers as they are sent. */
function block(headers: Record<string, string>): string {
  return Object.entries(headers)
    .map(([name, value]) => `\r\n${name}: ${value}`)
    .join('');
}

const malformed = { code: 'malformed_multipart' };

t.test('the boundary is read from the content type, or refused', async (t) => {
  for (const [contentType, boundary] of [
    ['multipart/form-data; boundary=AaB03x', 'AaB03x'],
    [
      'multipart/form-data; boundary=----WebKitFormBoundaryrGKCBY7qhFd3TrwA',
      '----WebKitFormBoundaryrGKCBY7qhFd3TrwA',
    ],
    ['multipart/form-data; boundary="gc0pJq0M:08jU534c0p"', 'gc0pJq0M:08jU534c0p'],
    ['multipart/form-data; charset=utf-8;boundary="simple boundary"', 'simple boundary'],
    [`multipart/form-data; boundary=${'a'.repeat(70)}`, 'a'.repeat(70)],
  ] as const) {
    t.equal(boundaryOf(contentType), boundary);
  }
  for (const contentType of [
    undefined,
    '',
    'multipart/form-data',
    'multipart/form-data; boundary',
    'multipart/form-data; boundary="ends with a space "',
    'multipart/form-data; boundary=a; BOUNDARY=a',
    'multipart/form-data boundary=a',
    'multipart/form-data; boundary = a',
    'multipart/form-data; boundary="a"b',
  ]) {
    t.throws(() => boundaryOf(contentType), malformed, String(contentType));
  }
});

t.test('a part is a file by its filename or its type', async (t) => {
  for (const [disposition, type, isFile] of [
    ['form-data; name="a"', undefined, false],
    ['form-data; name="a"', 'text/plain; charset=utf-8', false],
    ['form-data; name="a"; filename="b"', 'text/plain; charset=utf-16', true],
    ['form-data; name="a"; filename=', undefined, true],
    ["form-data; name=a; filename*=UTF-8''b", undefined, true],
    ['form-data; name="a"', 'Application/PDF', true],
    ['form-data; name="a"', 'application/octet-stream; x=y', true],
  ] as const) {
    const headers = { 'Content-Disposition': disposition, ...(type && { 'Content-Type': type }) };
    t.same(parsePartHeaders(block(headers)), { name: 'a', isFile }, `${disposition} ${type}`);
  }
});

t.test('names are UTF-8, quoted or not', async (t) => {
  const bytes = Buffer.from('Prüfsumme').toString('latin1');
  for (const text of [`name=${bytes}`, `name="${bytes}"`, `filename="; name=x"; name="${bytes}"`]) {
    t.match(parsePartHeaders(block({ 'content-disposition': `form-data; ${text}` })), { name: 'Prüfsumme' });
  }
  t.match(parsePartHeaders(block({ 'content-disposition': 'form-data; name="a\\"\\\\b"' })), {
    name: 'a"\\b',
  });
});

t.test('text is read as it is, or refused if it is not UTF-8', async (t) => {
  t.equal(decodeUtf8(Buffer.from('\ufeffa\0')), '\ufeffa\0');
  for (const bytes of [[0xff], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xf0, 0x9f, 0x98]]) {
    t.equal(decodeUtf8(Buffer.from(bytes)), undefined);
  }
});

t.test('any header gives a part or is refused as malformed', async (t) => {
  const text = fc.oneof(fc.string(), fc.string({ unit: fc.constantFrom(...'form-data;name="file\\ *\'') }));
  const property = fc.property(text, text, text, (tail, type, encoding) => {
    const headers = { 'content-disposition': `form-data; ${tail}`, 'content-type': type };
    try {
      return parsePartHeaders(block({ ...headers, 'content-transfer-encoding': encoding })).name !== '';
    } catch (error) {
      return error instanceof ServiceError && error.code === 'malformed_multipart';
    }
  });
  t.doesNotThrow(() => fc.assert(property, { numRuns: tries(1000) }));
});
