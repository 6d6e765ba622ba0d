import { generateKeyPairSync, sign } from 'node:crypto';
import { readFileSync } from 'node:fs';
import t from 'tap';
import * as browser from '../../src/base/crypto.browser.ts';
import * as node from '../../src/base/crypto.ts';
import { fc, tries } from '../support/seed.ts';

const { publicKey, privateKey } = generateKeyPairSync('ml-dsa-44');
const key = publicKey.export({ format: 'der', type: 'spki' }).subarray(-1312);
const message = Buffer.from('a checkpoint');
const signature = sign(null, message, privateKey);

type Verify = (key: Uint8Array, message: Uint8Array, signature: Uint8Array) => boolean;

const IMPLEMENTATIONS = Object.entries({ node, browser }).map(([name, { verify }]): [string, Verify] => [
  name,
  (key, message, signature) => verify({ type: 'mldsa44', key }, 'sha256', message, signature),
]);

for (const [name, verifyMlDsa44] of IMPLEMENTATIONS) {
  t.test(name, async (t) => {
    t.ok(verifyMlDsa44(key, message, signature));
    t.notOk(verifyMlDsa44(key, Buffer.from('another'), signature));
    t.notOk(verifyMlDsa44(key, message, signature.subarray(1)));
    t.notOk(verifyMlDsa44(key.subarray(1), message, signature));
    t.notOk(verifyMlDsa44(new Uint8Array(1312), message, new Uint8Array(2420)));
  });
}

t.test('both implementations agree with the Wycheproof vectors', async (t) => {
  type Vectors = { key: string; tests: [number, string, string, 'valid' | 'invalid' | 'context'][] }[];
  const file = new URL('../vectors/wycheproof/mldsa44.json', import.meta.url);
  const groups: Vectors = JSON.parse(readFileSync(file, 'utf8'));
  const bytes = (base64: string) => Buffer.from(base64, 'base64');
  for (const { key, tests } of groups)
    for (const [number, message, signature, result] of tests) {
      const found = IMPLEMENTATIONS.map(([, verify]) => verify(bytes(key), bytes(message), bytes(signature)));
      const expected = result === 'valid';
      t.strictSame(found, [expected, expected], `${number}: ${result}`);
    }
});

t.test('both implementations judge every changed byte alike', async () => {
  fc.assert(
    fc.property(fc.boolean(), fc.nat(1311), fc.integer({ min: 1, max: 255 }), (inKey, at, change) => {
      const [otherKey, other] = [Buffer.from(key), Buffer.from(signature)];
      const changed = inKey ? otherKey : other;
      changed[at] = (changed[at] ?? 0) ^ change;
      const verdicts = IMPLEMENTATIONS.map(([, verify]) => verify(otherKey, message, other));
      return verdicts.every((verdict) => !verdict);
    }),
    { numRuns: tries(50) },
  );
});
