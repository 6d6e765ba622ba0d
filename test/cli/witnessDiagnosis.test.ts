/** What the doctor finds about witnesses in the store, without a daemon. */
import { generateKeyPairSync } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { diagnoseWitnesses } from '../../src/cli/doctor/witnessDiagnosis.ts';
import type { Config } from '../../src/config/config.ts';
import { encodeCosigner } from '../../src/log/cosignature.ts';
import type { WitnessState } from '../../src/store/witnessStore.ts';
import { epoch } from '../store/samples.ts';
import { makeKey } from '../support/sealing.ts';

t.test('a witness that holds another history is bad news, and one that agrees is not', async (t) => {
  const key = generateKeyPairSync('ed25519').publicKey.export({ format: 'der', type: 'spki' }).subarray(-32);
  const vkey = encodeCosigner({ name: 'north.example/w', algorithm: 'ed25519', key });
  const policy = join(t.testdir(), 'policy');
  writeFileSync(policy, `witness north ${vkey} https://north.example\nquorum north\n`);
  const config = { log: { origin: 'seal.example.com/a', public: false }, witness: { policy } };
  const look = (record: WitnessState['witnesses'][string]) =>
    diagnoseWitnesses(
      config as unknown as Config,
      {
        witnessing: { get: async () => ({ witnesses: { [vkey]: record } }), put: async () => undefined },
      },
      { ...epoch, keys: [{ ...makeKey('ed25519', 'eu'), partition: 'log' }] },
    );
  t.match(await look({ treeSize: 7 }), [{ check: 'witness policy', verdict: 'good' }]);
  const [, fork] = await look({ treeSize: 7, contradiction: { detail: 'another root of 7 leaves', at: 0 } });
  t.match(fork, {
    check: 'witnesses',
    verdict: 'bad',
    detail: 'north holds another history of the log: another root of 7 leaves',
    remedy: /The fork alarm/,
  });
});
