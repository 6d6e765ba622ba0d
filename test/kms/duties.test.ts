/** What a signer judges by itself, without a token. */
import t from 'tap';
import { KeyDuties } from '../../src/kms/duties.ts';
import { encodeCheckpoint } from '../../src/log/checkpoint.ts';
import { makeKey } from '../support/sealing.ts';

const ORIGIN = 'seal.example.com/test/2026';
const SIZE = 5;

t.test('a key that states a time signs checkpoints of the present only', async (t) => {
  const ask = (algorithm: 'mldsa44' | 'ed25519', time: number) => {
    const log = { origin: ORIGIN, folder: t.testdir(), sessions: 1, isUnit: true };
    const duties = new KeyDuties({ log }, makeKey(algorithm, 'eu-1'));
    const text = encodeCheckpoint({ origin: ORIGIN, treeSize: SIZE, root: Buffer.alloc(32, 1) });
    return duties.assign({ kind: 'signCheckpoint', text, time }, 1_000);
  };
  const now = Math.floor(Date.now() / 1000);
  const year = 365 * 86_400;
  for (const time of [0, now - year, now - 60, now + 60, now + year])
    await t.rejects(ask('mldsa44', time), { code: 'time_refused' }, `${time - now} s`);
  const judged = { code: 'signing_refused', message: /comes with the proof/ };
  await t.rejects(ask('mldsa44', Math.floor(Date.now() / 1000)), judged, 'of the present, by its tree');
  await t.rejects(ask('ed25519', 0), judged, 'a line of this key has no time');
});
