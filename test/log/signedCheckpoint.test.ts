import t from 'tap';
import { openCheckpoint, signersOf } from '../../src/log/signedCheckpoint.ts';
import { encodeVkey, parseVkey } from '../../src/log/verifierKey.ts';
import foreign from '../vectors/witness/mldsa.json' with { type: 'json' };

const ORIGIN = 'example.com/mldsa-log';

t.test('the post-quantum line of a log of others verifies, though it states no time', async (t) => {
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
