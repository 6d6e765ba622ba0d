/** Node's primitives and the browser's: the published answers, and one answer where nothing is published. */
import { constants, generateKeyPairSync, type KeyObject, privateEncrypt, sign } from 'node:crypto';
import { ED25519_TORSION_SUBGROUP, ed25519 } from '@noble/curves/ed25519.js';
import t, { type Test } from 'tap';
import { primitive, sequence, TAG, unsignedContent } from '../../src/asn1/der.ts';
import { bytesEqual } from '../../src/base/bytes.ts';
import * as browser from '../../src/base/crypto.browser.ts';
import * as node from '../../src/base/crypto.ts';
import { type PublicKey, sha256, sha512 } from '../../src/base/crypto.ts';
import { fc, tries } from '../support/seed.ts';
import { bytes, judgeAll, keyOf } from './wycheproof.ts';

const integerOf = (number: bigint) => {
  const hex = number.toString(16);
  return primitive(TAG.integer, unsignedContent(bytes(hex.padStart(hex.length + (hex.length & 1), '0'))));
};

const spkiOf = (key: KeyObject) => key.export({ format: 'der', type: 'spki' });

for (const [name, digest] of [
  ['ed25519', 'sha512'],
  ['ecdsa-p256-sha256', 'sha256'],
  ['rsa-2048-sha256', 'sha256'],
] as const)
  t.test(`Wycheproof: ${name}`, async (t) => judgeAll(t, name, digest));

const MESSAGE = Buffer.from('what is signed');

/** The one answer of both. */
function judge(t: Test, key: PublicKey, signature: Uint8Array, what: string, message = MESSAGE): boolean {
  const [ofNode, ofBrowser] = [node, browser].map(({ verify }) => verify(key, 'sha256', message, signature));
  t.equal(ofBrowser, ofNode, what);
  return ofNode === true;
}

const { Point } = ed25519;
const L = Point.Fn.ORDER;
const secret = 123_456_789n;
const littleEndian = (number: bigint) => bytes(number.toString(16).padStart(64, '0')).reverse();
const numberOf = (octets: Uint8Array) => BigInt(`0x${Buffer.from(octets).reverse().toString('hex')}`);

/** The signature that the holder of {@link secret} makes with the nonce point R, as `r` + 8-torsion, under any spelling of it. */
function signWith(publicKey: Uint8Array, r: bigint, spelling: Uint8Array, message: Uint8Array): Buffer {
  const k = numberOf(sha512(Buffer.concat([spelling, publicKey, message])));
  return Buffer.concat([spelling, littleEndian((r + k * secret) % L)]);
}

t.test('Ed25519: edge cases on which verifiers differ are judged alike', async (t) => {
  const honest = Point.BASE.multiply(secret);
  const nonce = Point.BASE.multiply(42n).toBytes();
  const key: PublicKey = { type: 'ed25519', point: honest.toBytes() };
  const good = signWith(key.point, 42n, nonce, MESSAGE);
  t.ok(judge(t, key, good, 'honest'));

  const malleated = Buffer.concat([nonce, littleEndian(numberOf(good.subarray(32)) + L)]);
  t.notOk(judge(t, key, malleated, 's is not below the order'));
  const identity = littleEndian(1n);
  t.notOk(judge(t, key, signWith(key.point, 0n, identity, MESSAGE), 'R is of small order'));
  const second = littleEndian(2n ** 255n - 19n + 1n);
  t.notOk(judge(t, key, signWith(key.point, 0n, second, MESSAGE), 'and is spelt in another way'));

  const answers = new Set<boolean>();
  for (const torsion of ED25519_TORSION_SUBGROUP.map((hex) => Point.fromHex(hex)).filter(
    (one) => !one.is0(),
  )) {
    const shifted = Point.BASE.multiply(42n).add(torsion).toBytes();
    t.notOk(judge(t, key, signWith(key.point, 42n, shifted, MESSAGE), 'R has a part of small order'));
    const mixed: PublicKey = { type: 'ed25519', point: honest.add(torsion).toBytes() };
    for (let n = 0; n < 20; n++) {
      const message = Buffer.from(`message ${n}`);
      const signature = signWith(mixed.point, 42n, nonce, message);
      t.ok(ed25519.verify(signature, message, mixed.point, { zip215: false }), 'good with the cofactor');
      answers.add(judge(t, mixed, signature, 'the key has a part of small order', message));
    }
    const weak: PublicKey = { type: 'ed25519', point: torsion.toBytes() };
    const anyones = Buffer.concat([nonce, littleEndian(42n)]);
    for (let n = 0; n < 20; n++) {
      t.notOk(judge(t, weak, anyones, 'the key is of small order', Buffer.from(`message ${n}`)));
    }
  }
  t.strictSame(answers, new Set([true, false]), 'the cofactor makes the difference');
});

t.test('ECDSA: both halves of s count, and DER has only one form', async (t) => {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const key = keyOf(spkiOf(publicKey));
  const ORDER = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;
  const raw = sign('sha256', MESSAGE, { key: privateKey, dsaEncoding: 'ieee-p1363' });
  const [r, s] = [raw.subarray(0, 32), raw.subarray(32)].map((half) => BigInt(`0x${half.toString('hex')}`));
  if (r === undefined || s === undefined) throw new Error('no signature');
  const encode = (...numbers: bigint[]) => Buffer.from(sequence(...numbers.map(integerOf)));
  t.ok(judge(t, key, encode(r, s), 'one s'));
  t.ok(judge(t, key, encode(r, ORDER - s), 'the other s'));
  const valid = encode(r, s);
  for (const [what, signature] of [
    ['r is 0', encode(0n, s)],
    ['s is 0', encode(r, 0n)],
    ['r + n', encode(r + ORDER, s)],
    ['s + n', encode(r, s + ORDER)],
    ['three numbers', encode(r, s, 1n)],
    ['one number', encode(r)],
    ['something after it', Buffer.concat([valid, Buffer.alloc(1)])],
    ['a long length', Buffer.concat([Buffer.from([0x30, 0x81]), valid.subarray(1)])],
    ['bare', raw],
    ['nothing', Buffer.alloc(0)],
  ] as const) {
    t.notOk(judge(t, key, signature, what), what);
  }
});

t.test('RSA: only one encoding of the digest is accepted', async (t) => {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048, publicExponent: 3 });
  const key = keyOf(spkiOf(publicKey));
  const withNull = bytes('3031300d060960864801650304020105000420');
  const withoutNull = bytes('302f300b0609608648016503040201'.concat('0420'));
  const digest = Buffer.from(sha256(MESSAGE));
  const block = (info: Uint8Array, { type = 1, fill = 0xff, padding = 253 - info.length, tail = 0 } = {}) =>
    Buffer.concat([
      Buffer.from([0, type]),
      Buffer.alloc(padding, fill),
      Buffer.alloc(1),
      info,
      Buffer.alloc(tail),
    ]);
  const encrypt = (em: Uint8Array) =>
    privateEncrypt({ key: privateKey, padding: constants.RSA_NO_PADDING }, em);
  const info = Buffer.concat([withNull, digest]);
  const good = encrypt(block(info));
  t.ok(judge(t, key, good, 'as it should be'));
  for (const [what, signature] of [
    ['no NULL', encrypt(block(Buffer.concat([withoutNull, digest])))],
    ['padding of another type', encrypt(block(info, { type: 2 }))],
    ['other padding', encrypt(block(info, { fill: 0xfe }))],
    ['rubbish behind the digest', encrypt(block(info, { padding: 8, tail: 253 - 8 - info.length }))],
    ['the digest alone', encrypt(block(digest))],
    ['a zero in front', Buffer.concat([Buffer.alloc(1), good])],
    ['one', Buffer.concat([Buffer.alloc(255), Buffer.from([1])])],
    ['too large', Buffer.alloc(256, 0xff)],
    ['too short', good.subarray(1)],
    ['nothing', Buffer.alloc(0)],
  ] as const) {
    t.notOk(judge(t, key, signature, what), what);
  }
});

t.test('Node.js and the browser code agree on every changed signature', async (t) => {
  const pairs = [
    generateKeyPairSync('ed25519'),
    generateKeyPairSync('ec', { namedCurve: 'P-256' }),
    generateKeyPairSync('ec', { namedCurve: 'P-521' }),
    generateKeyPairSync('rsa', { modulusLength: 2048 }),
  ];
  for (const { privateKey, publicKey } of pairs) {
    const { asymmetricKeyType: type } = publicKey;
    const key = keyOf(spkiOf(publicKey));
    const signature = sign(type === 'ed25519' ? null : 'sha256', MESSAGE, privateKey);
    t.ok(judge(t, key, signature, `${type}`));
    fc.assert(
      fc.property(
        fc.nat(signature.length - 1),
        fc.nat(2),
        fc.uint8Array({ maxLength: 2 }),
        (at, drop, put) => {
          const changed = Buffer.concat([signature.subarray(0, at), put, signature.subarray(at + drop)]);
          const of = [node, browser].map(({ verify }) => verify(key, 'sha256', MESSAGE, changed));
          return of[0] === of[1] && (of[0] === false || changed.equals(signature));
        },
      ),
      { numRuns: tries(100) },
    );
  }
});

t.test('digests equal those of Node.js for any input', async (t) => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), (data) =>
      (['sha1', 'sha256', 'sha384', 'sha512'] as const).every((name) =>
        bytesEqual(node.digestOf(name, data), browser.digestOf(name, data)),
      ),
    ),
  );
  t.strictSame(Buffer.from(browser.sha256(MESSAGE)), Buffer.from(node.sha256(MESSAGE)));
  t.strictSame(Buffer.from(browser.sha512(MESSAGE)), Buffer.from(node.sha512(MESSAGE)));
});
