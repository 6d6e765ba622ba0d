import { generateKeyPairSync, sign } from 'node:crypto';
import t from 'tap';
import { toHex } from '../../src/base/bytes.ts';
import {
  type Cosigner,
  cosignatureLine,
  cosignaturesIn,
  cosignedMessage,
  cosignerId,
  encodeCosigner,
  parseCosigner,
  verifyCosignature,
} from '../../src/log/cosignature.ts';
import { encodeNote, type NoteSignature, parseNote } from '../../src/log/note.ts';
import { change, fc, mutations, random, randomBytes } from '../support/seed.ts';
import litewitness from '../vectors/witness/litewitness.json' with { type: 'json' };

const text = `example.com/log\n5\n${Buffer.alloc(32, 7).toString('base64')}\n`;

const cosigners = (['ed25519', 'mldsa44'] as const).map((algorithm) => {
  const { publicKey, privateKey } =
    algorithm === 'ed25519' ? generateKeyPairSync('ed25519') : generateKeyPairSync('ml-dsa-44');
  const bytes = algorithm === 'ed25519' ? 32 : 1312;
  const key = publicKey.export({ format: 'der', type: 'spki' }).subarray(-bytes);
  const cosigner: Cosigner = { name: `witness.example/${algorithm}`, algorithm, key };
  const cosign = (time: number, signed = text, by: Cosigner = cosigner): NoteSignature => {
    const message = cosignedMessage(by, time, signed);
    return cosignatureLine(by, time, sign(null, message ?? Buffer.alloc(0), privateKey));
  };
  return { cosigner, cosign };
});

t.test('what litewitness signed verifies, at its time', async (t) => {
  const witness = parseCosigner(litewitness.witness);
  t.ok(witness);
  if (witness === undefined) return;
  t.equal(encodeCosigner(witness), litewitness.witness);
  const signed = litewitness.steps.filter(({ status }) => status === 200);
  t.equal(signed.length, 5);
  for (const { what, request, answer } of signed) {
    const checkpoint = request.slice(request.indexOf('\n\n') + 2);
    const note = parseNote(checkpoint + answer);
    t.ok(note, what);
    if (note === undefined) continue;
    const [found, ...more] = cosignaturesIn(note, [witness]);
    t.strictSame(more, []);
    t.match(found, { cosigner: witness, time: 1795353211 }, what);
    t.strictSame(
      cosignaturesIn({ ...note, text: note.text.replace('example.com', 'example.org') }, [witness]),
      [],
    );
  }
});

for (const { cosigner, cosign } of cosigners) {
  const { algorithm } = cosigner;
  t.test(`${algorithm}: the key reads back, and no part of it passes for one`, async (t) => {
    const vkey = encodeCosigner(cosigner);
    t.strictSame(parseCosigner(vkey), cosigner);
    t.equal(vkey.split('+')[1], toHex(cosignerId(cosigner)));
    for (let i = 0; i < 100; i++) {
      const at = Math.floor(random() * vkey.length);
      t.equal(parseCosigner(vkey.slice(0, at)), undefined);
      const changed = String.fromCharCode(vkey.charCodeAt(at) ^ 1);
      t.equal(parseCosigner(vkey.slice(0, at) + changed + vkey.slice(at + 1)), undefined);
    }
  });

  t.test(`${algorithm}: every part of a line matters`, async (t) => {
    const line = cosign(1_800_000_000);
    t.equal(verifyCosignature(cosigner, text, line), 1_800_000_000);
    for (let i = 0; i < 50; i++) {
      const bit = Math.floor(random() * line.signature.length * 8);
      const signature = line.signature.map((byte, n) => (n === bit >> 3 ? byte ^ (1 << (bit & 7)) : byte));
      t.equal(verifyCosignature(cosigner, text, { ...line, signature }), undefined, `bit ${bit}`);
    }
    for (const length of [0, 7, 8, 71, line.signature.length - 1])
      t.equal(
        verifyCosignature(cosigner, text, { ...line, signature: line.signature.subarray(0, length) }),
        undefined,
      );
    t.equal(verifyCosignature(cosigner, text, { ...line, name: 'another' }), undefined);
    t.equal(verifyCosignature(cosigner, text, { ...line, keyId: randomBytes(4) }), undefined);
    t.equal(verifyCosignature({ ...cosigner, name: 'another' }, text, line), undefined);
    for (const other of [
      text.replace('5', '6'),
      text.replace('log', 'lag'),
      text.replace('B', 'C'),
      '',
      'text\n',
    ])
      t.equal(verifyCosignature(cosigner, other, line), undefined);
  });

  t.test(`${algorithm}: a cosignature states a time`, async (t) => {
    for (const time of [0, 2 ** 53]) {
      const line = cosign(time);
      t.equal(verifyCosignature(cosigner, text, line), undefined, `${time}`);
    }
    t.equal(verifyCosignature(cosigner, text, cosign(1)), 1);
  });
}

t.test(
  'the message of type 04 is text, that of type 06 is binary, and without extension lines',
  async (t) => {
    const [ed25519, mldsa44] = cosigners.map(({ cosigner }) => cosigner);
    t.ok(ed25519 && mldsa44);
    if (!ed25519 || !mldsa44) return;
    const extended = `${text}extension\n`;
    t.equal(String(cosignedMessage(ed25519, 42, extended)), `cosignature/v1\ntime 42\n${extended}`);
    const hex =
      '737562747265652f76310a00' +
      `17${Buffer.from('witness.example/mldsa44').toString('hex')}` +
      '000000000000002a' +
      `0f${Buffer.from('example.com/log').toString('hex')}` +
      '00000000000000000000000000000005' +
      '07'.repeat(32);
    t.equal(toHex(cosignedMessage(mldsa44, 42, extended) ?? new Uint8Array()), hex);
    t.equal(cosignedMessage(mldsa44, 42, text.replace('log', 'l'.repeat(256))), undefined);
    t.equal(cosignedMessage({ ...mldsa44, name: 'n'.repeat(256) }, 42, text), undefined);
  },
);

t.test(
  'of several lines of a cosigner the newest valid one counts, and invalid ones are ignored',
  async (t) => {
    const [{ cosigner, cosign }, other] = cosigners as [
      (typeof cosigners)[number],
      (typeof cosigners)[number],
    ];
    const wrong = { ...cosign(99), signature: cosign(99).signature.toReversed() };
    const note = parseNote(encodeNote(text, [cosign(7), wrong, cosign(9), other.cosign(3), cosign(8)]));
    t.ok(note);
    if (note === undefined) return;
    const found = cosignaturesIn(note, [cosigner, other.cosigner]);
    t.strictSame(
      found.map(({ cosigner: { name }, time }) => [name, time]),
      [
        [cosigner.name, 9],
        [other.cosigner.name, 3],
      ],
    );
    t.strictSame(cosignaturesIn(parseNote(encodeNote(text, [wrong])) ?? note, [cosigner]), []);
  },
);

t.test('a point of small order is refused as the key of a cosigner', async (t) => {
  const weak: Cosigner = { name: 'w', algorithm: 'ed25519', key: Uint8Array.of(1, ...new Uint8Array(31)) };
  t.equal(parseCosigner(encodeCosigner(weak)), undefined);
});

for (const [{ cosigner, cosign }, numRuns] of [
  [cosigners[0], mutations(20_000)],
  [cosigners[1], mutations()],
] as [(typeof cosigners)[number], number][])
  t.test(`${cosigner.algorithm}: whatever is changed, only what was cosigned is`, async (t) => {
    const line = cosign(1_800_000_000);
    const note = encodeNote(text, [line]);
    fc.assert(
      fc.property(change(note), (changed) => {
        const parsed = parseNote(changed);
        const [found] = parsed ? cosignaturesIn(parsed, [cosigner]) : [];
        if (found === undefined || parsed === undefined) return true;
        // Type 06 does not cover extension lines, which no checkpoint of ours has (C2SP tlog-cosignature).
        const covered = cosigner.algorithm === 'ed25519' ? parsed.text : parsed.text.slice(0, text.length);
        return covered === text && Buffer.compare(found.line.signature, line.signature) === 0;
      }),
      { numRuns },
    );
    t.pass();
  });
