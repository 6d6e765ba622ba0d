import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import t from 'tap';
import {
  bitString,
  MalformedDer,
  oid,
  parseDer,
  primitive,
  sequence,
  TAG,
  unsignedContent,
} from '../../src/asn1/der.ts';
import { OID } from '../../src/asn1/oid.ts';
import { readPublicKey } from '../../src/asn1/publicKey.ts';

const spkiOf = ({ publicKey }: { publicKey: KeyObject }) => publicKey.export({ format: 'der', type: 'spki' });
const read = (spki: Uint8Array) => readPublicKey(parseDer(spki));

t.test('strong keys of known kinds are accepted for evidence', async (t) => {
  for (const [namedCurve, pointBytes] of [
    ['P-256', 65],
    ['P-384', 97],
    ['P-521', 133],
  ] as const) {
    const key = read(spkiOf(generateKeyPairSync('ec', { namedCurve })));
    t.ok(key?.type === 'ec' && key.curve === namedCurve && key.point.length === pointBytes, namedCurve);
  }
  const key = read(spkiOf(generateKeyPairSync('rsa', { modulusLength: 2048 })));
  t.ok(key?.type === 'rsa' && key.modulus.length === 256 && key.exponent.length === 3, 'RSA');
});

const ec = spkiOf(generateKeyPairSync('ec', { namedCurve: 'P-256' }));
const point = ec.subarray(-65);
const ecKey = (curve: string, encoded: Uint8Array) =>
  sequence(sequence(oid(OID.ecPublicKey), oid(curve)), bitString(encoded));
const number = (octets: Uint8Array) => primitive(TAG.integer, unsignedContent(octets));
const rsaKey = (modulus: Uint8Array, exponent: Uint8Array) => {
  const key = sequence(number(modulus), number(exponent));
  return sequence(sequence(oid(OID.rsaEncryption), primitive(TAG.null, Buffer.alloc(0))), bitString(key));
};
const odd = (octets: number) => Buffer.alloc(octets, 0xff);
const F4 = Buffer.from([1, 0, 1]);

t.test('weak or unusual keys are refused for evidence', async (t) => {
  t.ok(read(ecKey(OID.secp256r1, point)), 'made like those that follow');
  t.ok(read(rsaKey(odd(256), F4)));
  t.ok(read(rsaKey(odd(1024), Buffer.from([3]))));
  const explicit = { namedCurve: 'P-256', paramEncoding: 'explicit' } as const;
  const compressed = Buffer.concat([Buffer.of(2 + (1 & (point.at(-1) ?? 0))), point.subarray(1, 33)]);
  const off = Buffer.from(point);
  off[40] = (off[40] ?? 0) ^ 1;
  for (const [what, spki] of [
    ['Ed25519', spkiOf(generateKeyPairSync('ed25519'))],
    ['RSA for PSS only', spkiOf(generateKeyPairSync('rsa-pss', { modulusLength: 2048 }))],
    ['a small curve', spkiOf(generateKeyPairSync('ec', { namedCurve: 'P-224' }))],
    ['Bitcoin’s curve', spkiOf(generateKeyPairSync('ec', { namedCurve: 'secp256k1' }))],
    ['a compressed point', ecKey(OID.secp256r1, compressed)],
    ['a point off the curve', ecKey(OID.secp256r1, off)],
    ['the point at infinity', ecKey(OID.secp256r1, Buffer.alloc(1))],
    ['a point of another curve', ecKey(OID.secp384r1, point)],
    ['RSA of 2040 bits', rsaKey(odd(255), F4)],
    ['RSA of 8200 bits', rsaKey(odd(1025), F4)],
    ['an even modulus', rsaKey(Buffer.concat([odd(255), Buffer.alloc(1)]), F4)],
    ['the exponent 1', rsaKey(odd(256), Buffer.from([1]))],
    ['an even exponent', rsaKey(odd(256), Buffer.from([2]))],
    ['an exponent of 72 bits', rsaKey(odd(256), odd(9))],
  ] as const) {
    t.equal(read(spki), undefined, what);
  }
  t.throws(
    () => read(spkiOf(generateKeyPairSync('ec', explicit))),
    MalformedDer,
    'a curve by its numbers, as a forger could choose them',
  );
});

t.test('input that is not a key is refused', async (t) => {
  const negative = primitive(TAG.integer, odd(256));
  const rsa = (...fields: Parameters<typeof sequence>) =>
    sequence(sequence(oid(OID.rsaEncryption)), bitString(sequence(...fields)));
  for (const [what, spki] of [
    ['a negative modulus', rsa(negative, number(F4))],
    ['a zero', rsa(number(odd(256)), number(Buffer.alloc(1)))],
    ['three numbers', rsa(number(odd(256)), number(F4), number(F4))],
    ['one number', rsa(number(odd(256)))],
    ['seven bits over', Buffer.from(ec).fill(7, 25, 26)],
    ['nothing', sequence()],
  ] as const) {
    t.throws(() => read(spki), MalformedDer, what);
  }
});
