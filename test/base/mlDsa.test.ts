import { generateKeyPairSync, sign } from 'node:crypto';
import t from 'tap';
import * as browser from '../../src/base/mlDsa.browser.ts';
import * as node from '../../src/base/mlDsa.ts';
import { fc } from '../support/seed.ts';

const { publicKey, privateKey } = generateKeyPairSync('ml-dsa-44');
const key = publicKey.export({ format: 'der', type: 'spki' }).subarray(-node.ML_DSA_44.keyBytes);
const message = Buffer.from('a checkpoint');
const signature = sign(null, message, privateKey);

for (const [name, { ML_DSA_44, verifyMlDsa44 }] of Object.entries({ node, browser })) {
  t.test(name, async (t) => {
    t.strictSame(ML_DSA_44, { keyBytes: key.length, signatureBytes: signature.length });
    t.ok(verifyMlDsa44(key, message, signature));
    t.notOk(verifyMlDsa44(key, Buffer.from('another'), signature));
    t.notOk(verifyMlDsa44(key, message, signature.subarray(1)));
    t.notOk(verifyMlDsa44(key.subarray(1), message, signature));
    t.notOk(verifyMlDsa44(new Uint8Array(1312), message, new Uint8Array(2420)));
  });
}

t.test('both judge every changed byte alike', async () => {
  fc.assert(
    fc.property(fc.boolean(), fc.nat(1311), fc.integer({ min: 1, max: 255 }), (inKey, at, change) => {
      const [otherKey, other] = [Buffer.from(key), Buffer.from(signature)];
      const changed = inKey ? otherKey : other;
      changed[at] = (changed[at] ?? 0) ^ change;
      const verdicts = [node, browser].map((one) => one.verifyMlDsa44(otherKey, message, other));
      return verdicts.every((verdict) => !verdict);
    }),
    { numRuns: 50 },
  );
});
