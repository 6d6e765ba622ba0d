import { createPublicKey, generateKeyPairSync, sign, verify } from 'node:crypto';
import t from 'tap';
import { algorithmOfCurve, EC_PARAMS, encodeEcdsaSignature, encodeSpki } from '../../src/kms/encoding.ts';

// RFC 8410, section 10.1: the example public key.
const RFC8410_POINT = Buffer.from('19bf44096984cdfe8541bac167dc3b96c85086aa30b6b6cb0c5c38ad703166e1', 'hex');
const RFC8410_SPKI = 'MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=';

function p256Point(): { point: Buffer; spki: Buffer } {
  const { publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const { x = '', y = '' } = publicKey.export({ format: 'jwk' });
  const point = Buffer.concat([Buffer.from([4]), Buffer.from(x, 'base64url'), Buffer.from(y, 'base64url')]);
  return { point, spki: publicKey.export({ format: 'der', type: 'spki' }) };
}

function octetString(content: Buffer): Buffer {
  return Buffer.concat([Buffer.from([4, content.length]), content]);
}

t.test('a CKA_EC_POINT becomes a SubjectPublicKeyInfo, wrapped or bare', async (t) => {
  const p256 = p256Point();
  t.equal(encodeSpki('ed25519', RFC8410_POINT).toString('base64'), RFC8410_SPKI);
  t.equal(encodeSpki('ed25519', octetString(RFC8410_POINT)).toString('base64'), RFC8410_SPKI);
  t.strictSame(encodeSpki('ecdsa-p256', p256.point), p256.spki);
  t.strictSame(encodeSpki('ecdsa-p256', octetString(p256.point)), p256.spki);
});

t.test('a point that is not on the curve is refused', async (t) => {
  const { point } = p256Point();
  const offCurve = Buffer.from(point).fill(7, 1);
  const hybrid = Buffer.from(point).fill(9, 0, 1);
  for (const bad of [
    offCurve,
    hybrid,
    octetString(offCurve),
    point.subarray(1),
    Buffer.alloc(0),
    RFC8410_POINT,
  ]) {
    t.throws(() => encodeSpki('ecdsa-p256', bad), bad.toString('hex'));
  }
  t.throws(() => encodeSpki('ed25519', point));
  t.throws(() => encodeSpki('ed25519', RFC8410_POINT.subarray(1)));
});

t.test('curves are known by object identifier, and edwards25519 also by name', async (t) => {
  t.equal(algorithmOfCurve(EC_PARAMS.ed25519), 'ed25519');
  t.equal(algorithmOfCurve(EC_PARAMS['ecdsa-p256']), 'ecdsa-p256');
  t.equal(algorithmOfCurve(Buffer.from('\x13\x0cedwards25519')), 'ed25519');
  t.equal(algorithmOfCurve(Buffer.from('06052b81040022', 'hex')), 'ecdsa-p384');
  t.equal(algorithmOfCurve(Buffer.from('06052b81040023', 'hex')), undefined, 'P-521');
  t.equal(algorithmOfCurve(Buffer.alloc(0)), undefined);
});

t.test('r and s become DER integers of minimal length', async (t) => {
  const cases: [r: string, s: string, der: string][] = [
    [`${'00'.repeat(31)}01`, `${'00'.repeat(31)}7f`, '300602010102017f'],
    [`${'00'.repeat(31)}80`, `${'00'.repeat(30)}00ff`, '300802020080020200ff'],
    ['00'.repeat(32), `${'00'.repeat(30)}0100`, '300702010002020100'],
    ['ff'.repeat(32), '7f'.repeat(32), `3045022100${'ff'.repeat(32)}0220${'7f'.repeat(32)}`],
  ];
  for (const [r, s, der] of cases)
    t.equal(encodeEcdsaSignature(Buffer.from(r + s, 'hex')).toString('hex'), der);
  for (const bytes of [0, 63, 65, 96]) t.throws(() => encodeEcdsaSignature(Buffer.alloc(bytes)), RangeError);
  t.throws(() => encodeEcdsaSignature(Buffer.alloc(64), 96), RangeError);
  t.equal(encodeEcdsaSignature(Buffer.alloc(96, 0xff), 96).length, 2 + 2 * (2 + 49));
});

t.test('OpenSSL accepts the DER form of its own bare signatures', async (t) => {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const key = createPublicKey({
    key: publicKey.export({ format: 'der', type: 'spki' }),
    format: 'der',
    type: 'spki',
  });
  for (let round = 0; round < 300; round++) {
    const message = Buffer.from(`message ${round}`);
    const raw = sign('sha256', message, { key: privateKey, dsaEncoding: 'ieee-p1363' });
    if (!verify('sha256', message, key, encodeEcdsaSignature(raw))) t.fail(raw.toString('hex'));
  }
});
