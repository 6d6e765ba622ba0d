import { readFileSync } from 'node:fs';
import forge from 'node-forge/lib/asn1.js';
import t from 'tap';
import {
  constructed,
  contentOf,
  type Element,
  Fields,
  generalizedTime,
  integer,
  MalformedDer,
  namedBits,
  octetString,
  parseDer,
  primitive,
  readBoolean,
  readGeneralizedTime,
  readInteger,
  readNamedBits,
  sequence,
  setOf,
  TAG,
  unsignedContent,
} from '../../src/asn1/der.ts';
import { bytesEqual, toBinary, toHex } from '../../src/base/bytes.ts';
import { fc, tries } from '../support/seed.ts';

/** The element that {@link parseDer} reads in what was written. */
const reread = (tag: number, content: Uint8Array) => parseDer(primitive(tag, content));

t.test('BER that is not DER is refused, as is anything else', async (t) => {
  const refused: [what: string, hex: string][] = [
    ['nothing', ''],
    ['half a header', '30'],
    ['too short', '300502010500'],
    ['something after it', '020105ff'],
    ['indefinite length', '30800201050000'],
    ['length in more bytes than needed', '308103020105'],
    ['leading zeros in the length', '04820003616263'],
    ['a padded integer', '02020005'],
    ['a padded integer below zero', '0202ff85'],
    ['a tag of several octets', '5f8101020000'],
    ['a tag of several octets, read as one', '1f0100'],
    ['an element that ends after its parent', '3003040200'],
    ['a header that ends after its parent', '300204820000'],
    ['a length of 127 bytes', `04ff${'00'.repeat(127)}`],
    ['a length beyond 32 bits', '0485ffffffffff00'],
    ['deeper than 32', nested(40)],
    ['an OCTET STRING in parts', '2403040100'],
    ['a SEQUENCE that is primitive', '1000'],
    ['a SET that is primitive', '1100'],
    ['a NULL with content', '050100'],
    ['a BOOLEAN of two octets', '0102ffff'],
    ['an INTEGER without octets', '0200'],
    ['an ENUMERATED without octets', '0a00'],
    ['a padded ENUMERATED', '0a020005'],
    ['a BIT STRING without octets', '0300'],
    ['a BIT STRING of less than nothing', '030101'],
    ['a BIT STRING with nine unused bits', '03020900'],
    ['an OBJECT IDENTIFIER without octets', '0600'],
    ['an OBJECT IDENTIFIER that does not end', '06022a86'],
    ['an OBJECT IDENTIFIER with a padded number', '06032a8001'],
    ['an end of contents', '0000'],
    ['a REAL', '0900'],
    ['a UTCTime of letters', '170d616263646566676869303030305a'],
    ['a GeneralizedTime that is too short', '180432303236'],
  ];
  for (const [what, hex] of refused) t.throws(() => parseDer(Buffer.from(hex, 'hex')), MalformedDer, what);
  t.doesNotThrow(() => parseDer(Buffer.from(nested(20), 'hex')));
  for (const hex of ['0500', '030100', '03020700', '06022a03', '0a0105', '850100', '82017f', '0c0161'])
    t.doesNotThrow(() => parseDer(Buffer.from(hex, 'hex')), hex);
});

function nested(depth: number): string {
  let der = Buffer.alloc(0);
  for (let level = 0; level < depth; level++) der = Buffer.concat([Buffer.from([0x30, der.length]), der]);
  return der.toString('hex');
}

/** The element, written anew from its parts. */
function rewritten({ tag, elements, content }: Element): Uint8Array {
  return elements === undefined ? primitive(tag, content) : constructed(tag, elements.map(rewritten));
}

/** What is parsed, or why it is malformed. Throws any other error. */
function parsed(bytes: Uint8Array): Element | MalformedDer {
  try {
    return parseDer(bytes);
  } catch (error) {
    if (error instanceof MalformedDer) return error;
    throw error;
  }
}

t.test('any input is either refused or written back unchanged', async () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 80 }), (bytes) => {
      const element = parsed(bytes);
      return element instanceof MalformedDer || bytesEqual(rewritten(element), bytes);
    }),
    { numRuns: tries(20_000) },
  );
});

/** node-forge takes a tag of several octets for a tag of one, and looks at few contents. */
const FORGE_TAKES = [
  'not DER: no tag of one octet',
  'not DER: a type in another form',
  'not DER: not a value of its type',
];

/** Whether node-forge reads the bytes and writes them the same. */
function isDerToForge(bytes: Uint8Array): boolean {
  const binary = toBinary(bytes);
  const options = { strict: true, parseAllBytes: true, decodeBitStrings: false, maxDepth: 32 };
  try {
    return forge.toDer(forge.fromDer(binary, options)).getBytes() === binary;
  } catch {
    return false;
  }
}

t.test('node-forge agrees on what is DER', async (t) => {
  const names = ['identrust.tsr', 'local.tsr', 'local.tsq', 'sigstage-sha512.tsr'];
  const originals = names.map((name) =>
    readFileSync(new URL(`../vectors/timestamp/${name}`, import.meta.url)),
  );
  const change = fc.tuple(fc.nat(9000), fc.nat(255), fc.constantFrom('set', 'cut', 'insert'));
  let accepted = 0;
  fc.assert(
    fc.property(fc.constantFrom(...originals), fc.array(change, { maxLength: 2 }), (original, changes) => {
      const octets = [...original];
      for (const [at, value, kind] of changes) {
        octets.splice(at % octets.length, kind === 'insert' ? 0 : 1, ...(kind === 'cut' ? [] : [value]));
      }
      const bytes = Uint8Array.from(octets);
      const element = parsed(bytes);
      if (!(element instanceof MalformedDer)) accepted += 1;
      else if (FORGE_TAKES.includes(element.message)) return true;
      return isDerToForge(bytes) === !(element instanceof MalformedDer);
    }),
    { numRuns: tries(3000) },
  );
  t.ok(accepted > tries(300), `${accepted} are DER`);
});

t.test('integers are written and read', async (t) => {
  for (const [value, hex] of [
    [0, '020100'],
    [127, '02017f'],
    [128, '02020080'],
    [256, '02020100'],
    [2 ** 31 - 1, '02047fffffff'],
  ] as const) {
    t.equal(toHex(integer(value)), hex);
    t.equal(readInteger(parseDer(Buffer.from(hex, 'hex'))), value);
  }
  t.equal(toHex(unsignedContent(Buffer.from('0000ff', 'hex'))), '00ff');
  t.equal(toHex(unsignedContent(Buffer.alloc(3))), '00');
  for (const hex of ['0200', '0201ff', '02050100000000']) {
    t.throws(() => readInteger(parseDer(Buffer.from(hex, 'hex'))), MalformedDer, hex);
  }
});

t.test('DER has exactly two booleans', async (t) => {
  t.ok(readBoolean(reread(TAG.boolean, Buffer.from([0xff]))));
  t.notOk(readBoolean(reread(TAG.boolean, Buffer.from([0]))));
  for (const content of [[], [1], [0xff, 0xff]]) {
    t.throws(() => readBoolean(reread(TAG.boolean, Buffer.from(content))), MalformedDer);
  }
});

t.test('named bits are written without trailing zeros', async (t) => {
  for (const [bits, hex] of [
    [[0], '03020780'],
    [[5, 6], '03020106'],
    [[0, 1], '030206c0'],
    [[14], '0303010002'],
    [[25], '03050600000040'],
  ] as const) {
    t.equal(toHex(namedBits(...bits)), hex);
    t.strictSame(readNamedBits(parseDer(Buffer.from(hex, 'hex'))), bits);
  }
  for (const hex of ['0300', '030108'])
    t.throws(() => readNamedBits(parseDer(Buffer.from(hex, 'hex'))), MalformedDer);
});

t.test('times have milliseconds without trailing zeros', async (t) => {
  for (const [iso, text] of [
    ['2026-03-04T05:06:07.008Z', '20260304050607.008Z'],
    ['2026-03-04T05:06:07.100Z', '20260304050607.1Z'],
    ['2026-12-31T23:59:59.000Z', '20261231235959Z'],
  ] as const) {
    const element = parseDer(generalizedTime(Date.parse(iso)));
    t.equal(toBinary(contentOf(element)), text);
    t.equal(readGeneralizedTime(element), Date.parse(iso));
  }
  const read = (text: string) => readGeneralizedTime(reread(TAG.generalizedTime, Buffer.from(text)));
  t.equal(read('20260304050607.0089999Z'), Date.parse('2026-03-04T05:06:07.008Z'), 'rounded down');
  for (const text of [
    '20260230000000Z',
    '20261301000000Z',
    '20260101240000Z',
    '20260101000060Z',
    '202601010000Z',
  ]) {
    t.throws(() => read(text), MalformedDer, text);
  }
  for (const text of ['20260101000000', '20260101000000+0100', '20260101000000.Z', '260101000000Z', '']) {
    t.throws(() => read(text), MalformedDer, text);
  }
});

t.test('the elements of a set are in ascending order', async (t) => {
  const set = setOf([octetString(Buffer.from('b')), integer(7), octetString(Buffer.from('a')), sequence()]);
  t.equal(toHex(set), '310b0201070401610401623000');
});

t.test('fields are taken one by one, and none may remain', async (t) => {
  const element = parseDer(sequence(integer(1), octetString(Buffer.from('x'))));
  const fields = new Fields(element);
  t.equal(fields.takeIf(TAG.octetString), undefined);
  t.equal(readInteger(fields.take(TAG.integer)), 1);
  t.throws(() => fields.end(), MalformedDer);
  t.throws(() => fields.take(TAG.integer), MalformedDer);
  t.equal(fields.rest().length, 1);
  fields.end();
  t.throws(() => new Fields(parseDer(integer(1))), MalformedDer);
  t.throws(() => contentOf(element), MalformedDer);
});
