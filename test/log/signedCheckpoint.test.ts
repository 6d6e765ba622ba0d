import t from 'tap';
import { encodeCheckpoint } from '../../src/log/checkpoint.ts';
import { openCheckpoint, signersOf } from '../../src/log/signedCheckpoint.ts';
import { encodeVkey, parseVkey } from '../../src/log/verifierKey.ts';
import { makeKey, signNote } from '../support/sealing.ts';
import foreign from '../vectors/witness/mldsa.json' with { type: 'json' };

const ORIGIN = 'example.com/mldsa-log';

t.test('the post-quantum line of another log verifies, though it has no time', async (t) => {
  const [opened, key] = [openCheckpoint(foreign.checkpoint), parseVkey(foreign.log)];
  if (opened === undefined || key === undefined) throw new Error('the vector does not read');
  t.match(key, { name: ORIGIN, algorithm: 'mldsa44' });
  t.equal(encodeVkey(ORIGIN, key), foreign.log);
  t.strictSame(signersOf(opened.note, ORIGIN, [key]).keys, [key]);
  t.strictSame(signersOf(opened.note, 'example.com/other', [key]).keys, [], 'the name is that of the log');
  const { text, signatures } = opened.note;
  const grown = { text: text.replace('\n1\n', '\n2\n'), signatures };
  t.equal(signersOf(grown, ORIGIN, [key]).forged, key);
  const dated = signatures.map((line) => ({ ...line, signature: Buffer.from(line.signature).fill(1, 7, 8) }));
  t.equal(signersOf({ text, signatures: dated }, ORIGIN, [key]).forged, key, 'the time is signed, too');
});

t.test('a post-quantum line does not verify over extension lines, which it does not cover', async (t) => {
  const [classical, postQuantum] = [makeKey('ed25519', 'eu'), makeKey('mldsa44', 'eu')];
  const text = encodeCheckpoint({ origin: ORIGIN, treeSize: 1, root: new Uint8Array(32) });
  const genuine = openCheckpoint(signNote(ORIGIN, text, [postQuantum]))?.note;
  const extended = openCheckpoint(signNote(ORIGIN, `${text}more\n`, [classical]))?.note;
  if (genuine === undefined || extended === undefined) throw new Error('the notes do not read');
  const keys = [classical, postQuantum];
  t.strictSame(signersOf(genuine, ORIGIN, keys).keys, [postQuantum]);
  t.strictSame(signersOf(extended, ORIGIN, keys).keys, [classical], 'a classical line covers them');
  const both = { text: extended.text, signatures: [...extended.signatures, ...genuine.signatures] };
  t.equal(signersOf(both, ORIGIN, keys).forged, postQuantum);
});
