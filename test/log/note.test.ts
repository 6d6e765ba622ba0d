import t from 'tap';
import { BrokenInvariant } from '../../src/base/assert.ts';
import { encodeNote, NOTE_LENGTH_MAX, NOTE_SIGNATURES_MAX, parseNote } from '../../src/log/note.ts';
import { noteKeyId, parseVkey, verifySignature } from '../../src/log/verifierKey.ts';
import { change, fc, mutations } from '../support/seed.ts';
import vectors from '../vectors/note/notes.json' with { type: 'json' };

for (const { name, note, vkeys } of vectors) {
  t.test(`published note: ${name}`, async (t) => {
    const parsed = parseNote(note);
    t.ok(parsed);
    if (parsed === undefined) return;
    t.equal(encodeNote(parsed.text, parsed.signatures), note);
    for (const text of vkeys) {
      const key = parseVkey(text);
      const line = parsed.signatures.find((line) => line.name === key?.name);
      t.ok(key && line, text);
      if (!key || !line) return;
      t.strictSame(line.keyId, noteKeyId(key.name, key));
      t.ok(verifySignature(key, Buffer.from(parsed.text), line.signature));
      t.notOk(verifySignature(key, Buffer.from(`${parsed.text} `), line.signature));
      t.notOk(
        verifySignature(
          key,
          Buffer.from(parsed.text),
          line.signature.map((b, i) => (i === 9 ? b ^ 1 : b)),
        ),
      );
      t.notOk(verifySignature(key, Buffer.from(parsed.text), new Uint8Array(0)));
    }
  });
}

const line =
  '— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n';

t.test('the last empty line separates text and signatures', async (t) => {
  t.equal(parseNote(`a\n\nb\n\n${line}`)?.text, 'a\n\nb\n');
  t.equal(parseNote(`a\n\n${line.repeat(NOTE_SIGNATURES_MAX)}`)?.signatures.length, NOTE_SIGNATURES_MAX);
});

const malformed: Record<string, string> = {
  nothing: '',
  'no signatures': 'text\n',
  'no signatures but the empty line': 'text\n\n',
  'no final newline': `text\n\n${line.slice(0, -1)}`,
  'no empty line': `text\n${line}`,
  'control character': `\x01text\n\n${line}`,
  'carriage return': `text\r\n\n${line}`,
  'lone surrogate': `\ud800text\n\n${line}`,
  'space in the name': `text\n\n${line.replace('PeterNeumann', 'Bad Name')}`,
  'Unicode space in the name': `text\n\n${line.replace('PeterNeumann', 'Bad\u2003Name')}`,
  'plus in the name': `text\n\n${line.replace('PeterNeumann', 'Bad+Name')}`,
  'hyphen for the dash': `text\n\n${line.replace('—', '-')}`,
  'unexpected line': `text\n\n${line}Unexpected line.\n`,
  'Base64 without padding': `text\n\n${line.replace('=', '')}`,
  'Base64 with stray bits': `text\n\n${line.replace('AM=', 'AN=')}`,
  'a key id and no signature': `text\n\n— name AAAAAA==\n`,
  'too many signatures': `text\n\n${line.repeat(NOTE_SIGNATURES_MAX + 1)}`,
  'too long': `${'a'.repeat(NOTE_LENGTH_MAX)}\n\n${line}`,
};
for (const [name, note] of Object.entries(malformed)) {
  t.test(`malformed: ${name}`, async (t) => t.equal(parseNote(note), undefined));
}

t.test('a note that would not read back is not written', async (t) => {
  const signature = { name: 'log', keyId: new Uint8Array(4), signature: new Uint8Array(64) };
  t.throws(() => encodeNote('no newline', [signature]), BrokenInvariant);
  t.throws(() => encodeNote('text\n', []), BrokenInvariant);
  t.throws(() => encodeNote('text\n', [{ ...signature, name: 'a b' }]), BrokenInvariant);
  t.throws(() => encodeNote('text\n', [{ ...signature, keyId: new Uint8Array(5) }]), BrokenInvariant);
  t.throws(() => encodeNote('text\n', Array(NOTE_SIGNATURES_MAX + 1).fill(signature)), BrokenInvariant);
});

t.test('a changed note is refused, or reads back as it is', async (t) => {
  for (const { note } of vectors)
    fc.assert(
      fc.property(change(note), (changed) => {
        const parsed = parseNote(changed);
        return parsed === undefined || encodeNote(parsed.text, parsed.signatures) === changed;
      }),
      { numRuns: mutations() },
    );
  t.pass();
});
