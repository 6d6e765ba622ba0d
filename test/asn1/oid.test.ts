import t from 'tap';
import { decodeOid, encodeOid, isOid } from '../../src/asn1/oid.ts';
import { toHex } from '../../src/base/bytes.ts';
import { fc } from '../support/seed.ts';

t.test('object identifiers are encoded as in the standards', async (t) => {
  const vectors: [dotted: string, hex: string][] = [
    // ITU-T X.690, section 8.19.5
    ['2.999.3', '883703'],
    ['1.2.840.113549.1.9.16.1.4', '2a864886f70d0109100104'],
    ['2.16.840.1.101.3.4.2.3', '608648016503040203'],
    ['0.0', '00'],
    ['0.39', '27'],
    ['1.0', '28'],
    ['2.0', '50'],
    ['2.5.29.37', '551d25'],
    // RFC 9562, appendix B.2: a UUID as an arc
    ['2.25.329800735698586629295641978511506172918', '6983f09da7ebcfdee0c7a1a7b2c0948cc8f9d776'],
  ];
  for (const [dotted, hex] of vectors) {
    t.equal(toHex(encodeOid(dotted)), hex, dotted);
    t.equal(decodeOid(Buffer.from(hex, 'hex')), dotted, hex);
    t.ok(isOid(dotted) || dotted.split('.').length === 2, dotted);
  }
});

t.test('every object identifier survives', async () => {
  const arcs = fc.array(fc.bigInt({ min: 0n, max: (1n << 120n) - 1n }), { minLength: 1, maxLength: 3 });
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: 2 }),
      fc.integer({ min: 0, max: 39 }),
      arcs,
      (root, second, rest) => {
        const dotted = [root, second, ...rest].join('.');
        return isOid(dotted) && decodeOid(encodeOid(dotted)) === dotted;
      },
    ),
  );
});

t.test('octets that are not an object identifier, or not its shortest form, are refused', async (t) => {
  for (const hex of ['', '80', '8001', '2a80', '2a8001', '2a86', 'ff'.repeat(3), '2a'.repeat(65)]) {
    t.equal(decodeOid(Buffer.from(hex, 'hex')), undefined, hex);
  }
});

t.test('a policy that is not written as an object identifier is refused', async (t) => {
  for (const text of [
    '',
    '1',
    '1.2',
    '3.1.2',
    '1.40.1',
    '1.2.03',
    '1.2.-1',
    '1.2.x',
    '1.2.3.',
    ' 1.2.3',
    `1.2${'.1'.repeat(40)}`,
  ]) {
    t.notOk(isOid(text), JSON.stringify(text));
  }
  for (const text of ['1.2.3', '0.4.0.2023.1.1', '1.3.6.1.4.1.57264.2', '2.48.1']) t.ok(isOid(text), text);
});
