import t from 'tap';
import { BrokenInvariant } from '../../src/base/assert.ts';
import { NOTE_LENGTH_MAX } from '../../src/log/note.ts';
import { encodeTlogProof, isTlogProof, parseTlogProof } from '../../src/log/tlogProof.ts';
import { change, fc, mutations } from '../support/seed.ts';

const hash = (n: number) => Buffer.alloc(32, n);
const checkpoint =
  'example.com/log\n5\nHQUVec+phePCJjnHovVI8t51w2z+9UKrtEolGUzDK6w=\n\n— example.com/log AAAAAAAA\n';
const proof = { extra: Buffer.from('{}'), index: 3, proof: [hash(1), hash(2)], checkpoint };
const text = `c2sp.org/tlog-proof@v1
extra e30=
index 3
AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=
AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=

${checkpoint}`;

t.test('a proof is written and read as text', async (t) => {
  t.equal(encodeTlogProof(proof), text);
  t.strictSame(parseTlogProof(text), proof);
  t.ok(isTlogProof(text));
  t.notOk(isTlogProof('{}'));
});

t.test('every proof reads back', async () => {
  const hashes = fc.array(fc.uint8Array({ minLength: 32, maxLength: 32 }), { maxLength: 63 });
  fc.assert(
    fc.property(
      fc.record({
        extra: fc.option(fc.uint8Array(), { nil: undefined }),
        index: fc.maxSafeNat(),
        proof: hashes,
      }),
      ({ extra, ...rest }) => {
        const one = { ...(extra && { extra }), ...rest, checkpoint };
        const again = parseTlogProof(encodeTlogProof(one));
        return (
          again !== undefined &&
          encodeTlogProof(again) === encodeTlogProof(one) &&
          again.index === one.index &&
          again.proof.every((each, i) => Buffer.compare(each, one.proof[i] ?? hash(0)) === 0)
        );
      },
    ),
  );
});

const malformed: Record<string, string> = {
  nothing: '',
  'another version': text.replace('@v1', '@v2'),
  'a carriage return': text.replace('\n', '\r\n'),
  'no index': text.replace('index 3\n', ''),
  'a negative index': text.replace('index 3', 'index -1'),
  'an index with a leading zero': text.replace('index 3', 'index 03'),
  'an index beyond what is counted': text.replace('index 3', 'index 9999999999999999'),
  'extra twice': text.replace('index', 'extra e30=\nindex'),
  'extra after the index': text.replace('extra e30=\nindex 3', 'index 3\nextra e30='),
  'extra that is not Base64': text.replace('e30=', 'e30'),
  'a hash that is too short': text.replace('AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=', 'AQEBAQ=='),
  'a hash with stray bits': text.replace('AQE=\n', 'AQF=\n'),
  'an unknown line': text.replace('index 3', 'index 3\nfurther'),
  'no empty line': text.replaceAll('\n\n', '\n'),
  'too many hashes': text.replace(
    'index 3\n',
    `index 3\n${'AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=\n'.repeat(62)}`,
  ),
  'too long': text + 'a'.repeat(2 * NOTE_LENGTH_MAX),
};
for (const [name, wrong] of Object.entries(malformed)) {
  t.test(`malformed: ${name}`, async (t) => t.equal(parseTlogProof(wrong), undefined));
}

t.test('a proof that could not be read back is not written', async (t) => {
  t.throws(() => encodeTlogProof({ ...proof, index: -1 }), BrokenInvariant);
  t.throws(() => encodeTlogProof({ ...proof, proof: [Buffer.alloc(31)] }), BrokenInvariant);
});

t.test('a changed proof is refused, or reads back as it is', async (t) => {
  fc.assert(
    fc.property(change(text), (changed) => {
      const parsed = parseTlogProof(changed);
      return parsed === undefined || encodeTlogProof(parsed) === changed;
    }),
    { numRuns: mutations(20_000) },
  );
  t.pass();
});
