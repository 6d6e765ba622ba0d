import t from 'tap';
import * as browser from '../../src/base/bytes.browser.ts';
import * as node from '../../src/base/bytes.ts';
import { fc, tries } from '../support/seed.ts';

/** Both must have the same functions, of the same types. */
const IMPLEMENTATIONS: (typeof node)[] = [node, browser];

const plain = (value: unknown) => (value instanceof Uint8Array ? Array.from(value) : value);

function same(ask: (functions: typeof node) => unknown): boolean {
  const [one, other] = IMPLEMENTATIONS.map((functions) => JSON.stringify(plain(ask(functions))));
  return one === other;
}

t.test('byte functions give the same results in Node.js and in a browser', async () => {
  const data = fc.uint8Array({ maxLength: 40 });
  fc.assert(
    fc.property(data, data, fc.string({ unit: 'binary' }), (a, b, text) => {
      const [inside, near] = [new Uint8Array(a.buffer, Math.min(1, a.length)), Uint8Array.from(a)];
      if (near.length > 0) near[near.length - 1] = (near.at(-1) ?? 0) ^ 1;
      return (
        same(({ toBase64 }) => toBase64(inside)) &&
        same(({ toHex }) => toHex(inside)) &&
        same(({ toBinary }) => toBinary(inside)) &&
        same(({ fromHex, toHex }) => fromHex(toHex(a))) &&
        same(({ fromBinary, toBinary }) => fromBinary(toBinary(a))) &&
        same(({ fromUtf8 }) => fromUtf8(text)) &&
        same(({ fromUtf8 }) => fromUtf8(`${text}\ud800`)) &&
        same(({ concatBytes }) => concatBytes([a, b, inside])) &&
        same(({ concatBytes }) => concatBytes([])) &&
        [a, b, inside, near].every(
          (other) =>
            same(({ bytesEqual }) => bytesEqual(a, other)) &&
            same(({ compareBytes }) => Math.sign(compareBytes(a, other))) &&
            same(({ compareBytes }) => Math.sign(compareBytes(other, a))),
        )
      );
    }),
    { numRuns: tries(2000) },
  );
});

t.test('Base64 is read in one spelling only', async (t) => {
  const character = fc.constantFrom(...'AQgw+/-_= \n9zñ');
  fc.assert(
    fc.property(fc.array(character, { maxLength: 9 }), (characters) =>
      same(({ fromBase64 }) => fromBase64(characters.join(''))),
    ),
    { numRuns: tries(20_000) },
  );
  for (const { fromBase64 } of IMPLEMENTATIONS) {
    for (const text of ['QQ', 'QR==', 'QQ==\n', 'Q Q=', '_w==', 'QQ==QQ==', '=', 'ñ']) {
      t.equal(fromBase64(text), undefined, JSON.stringify(text));
    }
    t.strictSame(plain(fromBase64('QQ==')), [0x41]);
    t.strictSame(plain(fromBase64('')), []);
  }
});
