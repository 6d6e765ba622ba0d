import assert from 'node:assert/strict';
import t from 'tap';
import { FormParser } from '../../../src/http/multipart/form.ts';
import { fc, tries } from '../../support/seed.ts';

const BOUNDARY = 'b:longer than seven';

/** The parts of a body that arrives in these pieces: what each is called, and what is in it. */
function partsOf(pieces: Buffer[]): { name: string; isFile: boolean; content: string }[] {
  const parts: { name: string; isFile: boolean; content: string }[] = [];
  const form = new FormParser(BOUNDARY, (part) => {
    const chunks: Buffer[] = [];
    return {
      write: (bytes) => void chunks.push(bytes),
      end: () => void parts.push({ ...part, content: Buffer.concat(chunks).toString('latin1') }),
    };
  });
  for (const piece of pieces) form.write(Buffer.from(piece));
  form.end();
  return parts;
}

function cut(body: Buffer, cuts: number[]): Buffer[] {
  const bounds = [0, ...cuts.map((at) => at % (body.length + 1)).sort((a, b) => a - b), body.length];
  return bounds.slice(1).map((end, n) => body.subarray(bounds[n], end));
}

// Beginnings of the delimiter, and what is nearly one.
const scrap = fc.constantFrom(
  '\r',
  '\n',
  '\r\n',
  '--',
  '\r\n--',
  `\r\n--${BOUNDARY.slice(0, -1)}`,
  '-',
  'x',
  '\xff',
);
const content = fc.array(scrap, { maxLength: 12 }).map((scraps) => scraps.join(''));
const sent = fc.array(fc.record({ isFile: fc.boolean(), content }), { minLength: 1, maxLength: 5 });

function bodyOf(parts: { isFile: boolean; content: string }[]): Buffer {
  const lines = parts.map(({ isFile, content }, n) => {
    const filename = isFile ? '; filename="f"\r\nContent-Type: application/octet-stream' : '';
    return `--${BOUNDARY}\r\nContent-Disposition: form-data; name="p${n}"${filename}\r\n\r\n${content}\r\n`;
  });
  return Buffer.from(`${lines.join('')}--${BOUNDARY}--\r\n`, 'latin1');
}

t.test('a body cut anywhere has the parts that another parser finds', async (t) => {
  const type = `multipart/form-data; boundary="${BOUNDARY}"`;
  const property = fc.asyncProperty(sent, fc.array(fc.nat(), { maxLength: 8 }), async (parts, cuts) => {
    const body = bodyOf(parts);
    const found = partsOf(cut(body, cuts));
    const expected = parts.map(({ isFile, content }, n) => ({ name: `p${n}`, isFile, content }));
    assert.deepEqual(found, expected);
    assert.deepEqual(partsOf(Array.from(body, (byte) => Buffer.of(byte))), expected, 'byte by byte');
    const form = await new Response(new Uint8Array(body), { headers: { 'Content-Type': type } }).formData();
    for (const { name, isFile, content } of found) {
      const value = form.get(name);
      const bytes =
        typeof value === 'string'
          ? Buffer.from(content, 'latin1').toString()
          : Buffer.from(new Uint8Array((await value?.arrayBuffer()) ?? [])).toString('latin1');
      assert.equal(typeof value === 'string' ? value : bytes, isFile ? content : bytes);
    }
  });
  await t.resolves(fc.assert(property, { numRuns: tries(500) }));
});

t.test('any input is read the same or refused, wherever it is cut', async (t) => {
  const line = fc.constantFrom(
    `--${BOUNDARY}`,
    `--${BOUNDARY}--`,
    '--',
    '\r\n',
    '\r\n\r\n',
    'Content-Disposition: form-data; name="a"',
    'X: y',
    ':',
    ' ',
  );
  const property = fc.property(
    fc.array(line, { maxLength: 14 }),
    fc.array(fc.nat(), { maxLength: 6 }),
    (lines, cuts) => {
      const body = Buffer.from(lines.join(''), 'latin1');
      const outcome = (pieces: Buffer[]) => {
        try {
          return partsOf(pieces);
        } catch (error) {
          return (error as Error).message;
        }
      };
      assert.deepEqual(outcome(cut(body, cuts)), outcome([body]));
    },
  );
  t.doesNotThrow(() => fc.assert(property, { numRuns: tries(3000) }));
});

t.test('a delimiter does not end the headers of a part', async (t) => {
  const head = `--${BOUNDARY}\r\nContent-Disposition: form-data; name="a"`;
  for (const [what, body] of [
    ['a delimiter in place of a header', `${head}\r\n--${BOUNDARY}\r\nX: y\r\n\r\nz\r\n--${BOUNDARY}--`],
    ['a delimiter in place of the content', `${head}\r\n\r\n--${BOUNDARY}--`],
  ] as const) {
    const bytes = Buffer.from(body);
    t.throws(() => partsOf([bytes]), { code: 'malformed_multipart' }, what);
    for (let at = 0; at < bytes.length; at++) {
      t.throws(() => partsOf([bytes.subarray(0, at), bytes.subarray(at)]), { code: 'malformed_multipart' });
    }
  }
  t.same(partsOf([Buffer.from(`${head}\r\n\r\n\r\n--${BOUNDARY}--`)]), [
    { name: 'a', isFile: false, content: '' },
  ]);
});
