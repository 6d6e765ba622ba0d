import t from 'tap';
import { BrokenInvariant } from '../../src/base/assert.ts';
import { fromBase64 } from '../../src/base/bytes.ts';
import { encodeCheckpoint, parseCheckpoint } from '../../src/log/checkpoint.ts';
import { parseNote } from '../../src/log/note.ts';
import { emptyRoot } from '../../src/log/tree.ts';
import vectors from '../vectors/note/notes.json' with { type: 'json' };

const root = 'CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=';

for (const { name, note, checkpoint } of vectors) {
  if (checkpoint === undefined) continue;
  t.test(`published checkpoint: ${name}`, async (t) => {
    const text = parseNote(note)?.text ?? '';
    const expected = { ...checkpoint, root: fromBase64(checkpoint.root) ?? emptyRoot };
    t.strictSame(parseCheckpoint(text), expected);
    t.equal(encodeCheckpoint(expected), text);
  });
}

t.test('an empty log and extension lines are read', async (t) => {
  const empty = encodeCheckpoint({ origin: 'log', treeSize: 0, root: emptyRoot });
  t.equal(empty, 'log\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n');
  t.equal(parseCheckpoint(`log\n1\n${root}\nextension\n`)?.treeSize, 1);
});

const malformed: Record<string, string> = {
  empty: '',
  'no origin': `\n1\n${root}\n`,
  'two lines': 'log\n1\n',
  'leading zero': `log\n01\n${root}\n`,
  sign: `log\n+1\n${root}\n`,
  hexadecimal: `log\n0x1\n${root}\n`,
  space: `log\n1 \n${root}\n`,
  'too large to count': `log\n9007199254740992\n${root}\n`,
  'short root': `log\n1\nAAAA\n`,
  'root without padding': `log\n1\n${root.slice(0, -1)}\n`,
  'no final newline': `log\n1\n${root}`,
  'empty extension line': `log\n1\n${root}\n\n`,
  'empty line among extensions': `log\n1\n${root}\n\nx\n`,
};
for (const [name, text] of Object.entries(malformed)) {
  t.test(`malformed: ${name}`, async (t) => t.equal(parseCheckpoint(text), undefined));
}

t.test('a checkpoint that would not read back is not written', async (t) => {
  const good = { origin: 'log', treeSize: 1, root: Buffer.from(root, 'base64') };
  t.throws(() => encodeCheckpoint({ ...good, origin: 'a\nb' }), BrokenInvariant);
  t.throws(() => encodeCheckpoint({ ...good, treeSize: -1 }), BrokenInvariant);
  t.throws(() => encodeCheckpoint({ ...good, root: new Uint8Array(31) }), BrokenInvariant);
});
