import t from 'tap';
import { BrokenInvariant } from '../../src/base/assert.ts';
import { encodeAddCheckpoint, parseAddCheckpoint, parseWitnessAnswer } from '../../src/log/addCheckpoint.ts';
import { parseCheckpoint } from '../../src/log/checkpoint.ts';
import { parseNote } from '../../src/log/note.ts';
import { verifyConsistency } from '../../src/log/proof.ts';
import { openCheckpoint, signersOf } from '../../src/log/signedCheckpoint.ts';
import { emptyRoot } from '../../src/log/tree.ts';
import { encodeVkey, parseVkey } from '../../src/log/verifierKey.ts';
import { parseWitnessPolicy } from '../../src/log/witnessPolicy.ts';
import { fc, mutations } from '../support/seed.ts';
import litewitness from '../vectors/witness/litewitness.json' with { type: 'json' };
import torchwood from '../vectors/witness/torchwood.json' with { type: 'json' };

const kinds: Record<string, string> = {
  'first, of 1 leaf': 'cosigned',
  'of 5 leaves, from none': 'other_size',
  'of 5 leaves': 'cosigned',
  'of 5 leaves again': 'cosigned',
  'of 300 leaves': 'cosigned',
  'of 300 leaves, from an older size': 'other_size',
  'another tree of 300 leaves': 'contradiction',
  'a smaller tree': 'fault',
  'a smaller tree, from its own size': 'other_size',
  'with a proof of another size': 'cosigned',
  'of another log': 'unknown_log',
};

const rootsBySize = new Map<number, Uint8Array>([[0, emptyRoot]]);

for (const { what, request, status, contentType, answer } of litewitness.steps) {
  t.test(`litewitness: ${what}`, async (t) => {
    const parsed = parseAddCheckpoint(request);
    t.ok(parsed);
    if (parsed === undefined) return;
    t.equal(encodeAddCheckpoint(parsed), request);
    t.equal(parseWitnessAnswer(status, contentType, answer).kind, kinds[what]);
    const checkpoint = parseCheckpoint(parseNote(parsed.checkpoint)?.text ?? '');
    if (status !== 200 || checkpoint === undefined) return;
    const { treeSize, root } = checkpoint;
    const oldRoot = rootsBySize.get(parsed.oldSize);
    t.ok(oldRoot && verifyConsistency(parsed.oldSize, treeSize, parsed.proof, oldRoot, root));
    rootsBySize.set(treeSize, root);
  });
}

const good = litewitness.steps[4]?.request ?? '';
const malformed: Record<string, string> = {
  nothing: '',
  'no empty line': good.slice(0, good.indexOf('\n\n')),
  'no checkpoint': good.slice(0, good.indexOf('\n\n') + 2),
  'no old size': good.replace('old 5', 'new 5'),
  'a leading zero': good.replace('old 5', 'old 05'),
  'a sign': good.replace('old 5', 'old -5'),
  'a size that no number has': good.replace('old 5', 'old 9999999999999999'),
  'a hash that is too short': good.replace('old 5\n', 'old 5\nAAAA\n'),
  'a line that is no Base64': good.replace('old 5\n', 'old 5\n!\n'),
  'a carriage return': good.replace('old 5\n', 'old 5\r\n'),
  'too many hashes': good.replace(
    'old 5\n',
    `old 5\n${`${Buffer.alloc(32).toString('base64')}\n`.repeat(64)}`,
  ),
  'a line too much at the end': `${good}x\n`,
};
for (const [what, body] of Object.entries(malformed))
  t.test(`refused: ${what}`, async (t) => {
    t.equal(parseAddCheckpoint(body), undefined);
  });

t.test('a request that could not be read back is not written', async (t) => {
  const parsed = parseAddCheckpoint(good);
  t.ok(parsed);
  if (parsed === undefined) return;
  for (const change of [
    { oldSize: -1 },
    { oldSize: 1.5 },
    { checkpoint: 'text' },
    { proof: [new Uint8Array(31)] },
  ])
    t.throws(() => encodeAddCheckpoint({ ...parsed, ...change }), BrokenInvariant);
});

t.test('an answer is read as a cosignature, another size, a contradiction or a fault', async (t) => {
  const line = litewitness.steps[0]?.answer ?? '';
  const size = 'text/x.tlog.size';
  const answers: [number, string, string, object][] = [
    [200, '', line.repeat(2), { kind: 'cosigned', lines: [{}, {}] }],
    [200, '', '', { kind: 'fault', message: 'answered without signature lines' }],
    [200, '', line.slice(0, -1), { kind: 'fault' }],
    [200, '', 'ok\n', { kind: 'fault' }],
    [409, size, '12\n', { kind: 'other_size', size: 12 }],
    [409, 'Text/X.tlog.size; charset=utf-8', '0\n', { kind: 'other_size', size: 0 }],
    [409, size, '12', { kind: 'contradiction' }],
    [409, size, '012\n', { kind: 'contradiction' }],
    [409, 'text/plain', '12\n', { kind: 'contradiction' }],
    [409, '', '', { kind: 'contradiction' }],
    [422, '', '', { kind: 'contradiction' }],
    [403, '', '', { kind: 'unknown_log' }],
    [404, '', '', { kind: 'unknown_log' }],
    [429, '', '', { kind: 'too_often' }],
    [400, '', '', { kind: 'fault', message: 'answered with status 400' }],
    [503, size, '12\n', { kind: 'fault', message: 'answered with status 503' }],
    [301, '', '', { kind: 'fault' }],
  ];
  for (const [status, type, body, expected] of answers)
    t.match(parseWitnessAnswer(status, type, body), expected, `${status} ${type} ${body}`);
});

t.test('a changed request is refused, or says the same of the checkpoint', async (t) => {
  fc.assert(
    fc.property(fc.nat(good.length - 1), fc.nat(0x7f), fc.boolean(), (at, code, isInserted) => {
      const changed = good.slice(0, at) + String.fromCharCode(code) + good.slice(isInserted ? at : at + 1);
      const parsed = parseAddCheckpoint(changed);
      return parsed === undefined || encodeAddCheckpoint(parsed) === changed;
    }),
    { numRuns: mutations(20_000) },
  );
  t.pass();
});

t.test('requests that torchwood publishes: the key of each log signed them', async (t) => {
  for (const { what, vkey, key, request } of torchwood) {
    const asked = parseAddCheckpoint(request);
    const opened = openCheckpoint(asked?.checkpoint ?? '');
    t.ok(asked && opened, what);
    if (asked === undefined || opened === undefined) return;
    t.equal(encodeAddCheckpoint(asked), request);
    const { note, checkpoint } = opened;
    const spki = Buffer.from(`302a300506032b6570032100${key}`, 'hex').toString('base64');
    const signer =
      vkey === undefined ? { name: checkpoint.origin, algorithm: 'ed25519' as const, spki } : parseVkey(vkey);
    t.ok(signer, what);
    if (signer === undefined) return;
    t.strictSame(signersOf(note, checkpoint.origin, [signer]).keys, [signer], what);
    const other = { ...note, text: note.text.replace('\n1\n', '\n2\n') };
    t.strictSame(signersOf(other, checkpoint.origin, [signer]), { keys: [], forged: signer }, what);
    t.match(parseWitnessPolicy(`log ${encodeVkey(signer.name, signer)}\nquorum none\n`).logs, [
      { key: signer },
    ]);
  }
});
