import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import t from 'tap';
import { encodeVkey, parseVkey } from '../../src/log/verifierKey.ts';
import vectors from '../vectors/note/notes.json' with { type: 'json' };

const published = vectors.flatMap(({ vkeys }) => vkeys);
const peter = 'PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW';

t.test('published verifier keys read back', async (t) => {
  for (const text of published) {
    const key = parseVkey(text);
    t.ok(key, text);
    if (key) t.equal(encodeVkey(key.name, key), text);
  }
});

t.test('no part of a verifier key passes for one', async (t) => {
  for (let from = 0; from <= peter.length; from++) {
    for (let to = from; to <= peter.length; to++) {
      if (to - from < peter.length) t.equal(parseVkey(peter.slice(from, to)), undefined);
    }
  }
  for (let i = 0; i < peter.length; i++) {
    const changed = String.fromCharCode(peter.charCodeAt(i) + 1);
    t.equal(parseVkey(peter.slice(0, i) + changed + peter.slice(i + 1)), undefined, `character ${i}`);
  }
});

const spki = (key: KeyObject) => key.export({ format: 'der', type: 'spki' }).toString('base64');
const foreign = {
  'P-384': spki(generateKeyPairSync('ec', { namedCurve: 'P-384' }).publicKey),
  RSA: spki(generateKeyPairSync('rsa', { modulusLength: 2048 }).publicKey),
  'Ed25519 as ECDSA': spki(generateKeyPairSync('ed25519').publicKey),
  nothing: '',
};

t.test('an ECDSA log key must be on P-256', async (t) => {
  const own = {
    algorithm: 'ecdsa-p256' as const,
    spki: spki(generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey),
  };
  t.strictSame(parseVkey(encodeVkey('log', own)), { name: 'log', ...own });
  for (const [name, spki] of Object.entries(foreign)) {
    t.equal(parseVkey(encodeVkey('log', { algorithm: 'ecdsa-p256', spki })), undefined, name);
  }
});

t.test('another spelling of the same key is refused', async (t) => {
  const { publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const der = publicKey.export({ format: 'der', type: 'spki' });
  // The compressed point (SEC 1, section 2.3.3) with its lengths set right: valid DER of the very same key.
  const compressed = Buffer.concat([
    der.subarray(0, 26),
    Uint8Array.of(2 + ((der.at(-1) ?? 0) & 1)),
    der.subarray(27, 59),
  ]);
  compressed[1] = compressed.length - 2;
  compressed[24] = 34;
  const vkey = encodeVkey('log', { algorithm: 'ecdsa-p256', spki: compressed.toString('base64') });
  t.equal(parseVkey(vkey), undefined);
});

t.test('trailing bytes after a key are refused', async (t) => {
  for (const algorithm of ['ed25519', 'ecdsa-p256'] as const) {
    const { publicKey } =
      algorithm === 'ed25519'
        ? generateKeyPairSync('ed25519')
        : generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const der = publicKey.export({ format: 'der', type: 'spki' });
    const longer = Buffer.concat([der, Uint8Array.of(0)]).toString('base64');
    t.ok(parseVkey(encodeVkey('log', { algorithm, spki: der.toString('base64') })));
    t.equal(parseVkey(encodeVkey('log', { algorithm, spki: longer })), undefined, algorithm);
  }
});

t.test('a point off the curve is refused', async (t) => {
  const der = generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey.export({
    format: 'der',
    type: 'spki',
  });
  der[90] = (der[90] ?? 0) ^ 1;
  t.equal(parseVkey(encodeVkey('log', { algorithm: 'ecdsa-p256', spki: der.toString('base64') })), undefined);
});

t.test('published bad keys are refused', async (t) => {
  const bad = [
    'PeterNeumann+cc469956+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TWBADKEY==',
    'PeterNeumann+173116ae+ZRpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW',
    'rekor.sigstore.dev+12345678+AwEB',
    `a b+c74f20a3+${peter.split('+')[2]}`,
  ];
  for (const text of bad) t.equal(parseVkey(text), undefined, text);
});
