/**
 * Nothing passes here that libraries of other people refuse: torchwood, Sigsum's policies, and the formats of transparency-dev, in
 * `judgeFormats.go`. None of them knows lines of ML-DSA yet, so those are not here. Where ours differ on purpose, it is said below.
 */
import { spawnSync } from 'node:child_process';
import { generateKeyPairSync, sign } from 'node:crypto';
import t from 'tap';
import { concatBytes, fromBase64, fromUtf8, toHex } from '../../src/base/bytes.ts';
import { type Cosigner, cosignaturesIn, cosignerId, encodeCosigner } from '../../src/log/cosignature.ts';
import { encodeSignatureLines, parseNote } from '../../src/log/note.ts';
import { leafHash, nodeHash } from '../../src/log/tree.ts';
import { encodeVkey, noteKeyId } from '../../src/log/verifierKey.ts';
import { parseWitnessPolicy, satisfiesPolicy, WitnessPolicyError } from '../../src/log/witnessPolicy.ts';
import { encodeManifest, leafData } from '../../src/manifest/manifest.ts';
import { encodeTrust } from '../../src/manifest/trustFile.ts';
import { verifyReceiptText } from '../../src/prove/verify/verify.ts';
import { goProgram } from '../support/goProgram.ts';
import { makeJob, makeKey, sealJobs } from '../support/sealing.ts';
import { change, fc, mutations } from '../support/seed.ts';

const program = await goProgram('judgeFormats');
const base64 = (data: string | Uint8Array) => Buffer.from(data).toString('base64');

/** What the others say of each of the inputs. */
function judge(args: string[], inputs: readonly (readonly string[])[]): string[] {
  const input = inputs.map((items) => `${items.map(base64).join(' ')}\n`).join('');
  const { status, stdout, stderr } = spawnSync(program, args, {
    input,
    encoding: 'utf8',
    maxBuffer: 2 ** 30,
  });
  t.equal(status, 0, stderr);
  const verdicts = stdout.split('\n').slice(0, -1);
  t.equal(verdicts.length, inputs.length);
  return verdicts;
}

const origin = 'seal.example.com/sandbox/2026';
const logKey = makeKey('ed25519', 'eu-1');
const log = encodeVkey(origin, logKey);

const witnesses = ['a', 'b', 'c', 'd'].map((label) => {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const key = publicKey.export({ format: 'der', type: 'spki' }).subarray(-32);
  const cosigner: Cosigner = { name: `${label}.example/w`, algorithm: 'ed25519', key };
  /** A line, whatever the text and the time are. */
  const cosign = (text: string, time: bigint) => {
    const signature = sign(null, fromUtf8(`cosignature/v1\ntime ${time}\n${text}`), privateKey);
    const stated = Buffer.alloc(8);
    stated.writeBigUInt64BE(time);
    return { name: cosigner.name, keyId: cosignerId(cosigner), signature: concatBytes([stated, signature]) };
  };
  return { cosigner, vkey: encodeCosigner(cosigner), cosign };
});
const cosigners = witnesses.map(({ cosigner }) => cosigner);

const policy = `# Who cosigns our log
log ${log} https://seal.example/v1/log
witness a ${witnesses[0]?.vkey} https://a.example/witness/
witness\tb  ${witnesses[1]?.vkey}   http://10.0.0.7:7380
  # an isolated site
witness c ${witnesses[2]?.vkey}
witness d ${witnesses[3]?.vkey} https://d.example
group near any a b
group far all c d
group both 2 near far
quorum both
`;

/** Keys of the policy under other names, with which nobody signs. */
const renamedLog = encodeVkey('x.example', logKey);
const renamedWitness = encodeCosigner({ ...(cosigners[0] as Cosigner), name: 'x.example/w' });

/** A policy as Sigsum writes it: keys in hexadecimal, without a name. */
function asSigsum(text: string): string {
  const keys = [log, renamedLog, renamedWitness, ...witnesses.map(({ vkey }) => vkey)];
  return keys.reduce((now, vkey) => now.replaceAll(vkey, keyInHex(vkey)), text);
}

function keyInHex(vkey: string): string {
  const bytes = fromBase64(vkey.split('+').slice(2).join('+')) ?? new Uint8Array(0);
  return toHex(bytes.subarray(1));
}

/**
 * For each set of the witnesses, the first of them the lowest bit, whether they satisfy the policy; in short, what the others say: Sigsum knows
 * a witness by its key, torchwood by its name as well.
 */
function judgedPolicy(text: string, by: 'key' | 'name'): string {
  try {
    const read = parseWitnessPolicy(text);
    const sets = Array.from({ length: 2 ** witnesses.length }, (_, set) => {
      const there = cosigners.filter((_, n) => (set >> n) & 1);
      const isThere = ({ name, key }: Cosigner) =>
        there.some((one) => toHex(one.key) === toHex(key) && (by === 'key' || one.name === name));
      const labels = read.witnesses.filter(isThere).map(({ label }) => label);
      return satisfiesPolicy(read, new Set(labels)) ? '1' : '0';
    });
    return sets.join('');
  } catch (error) {
    if (error instanceof WitnessPolicyError) return 'refused';
    throw error;
  }
}

/** Lines of a policy in another order, twice, or with other words: what a change of characters seldom makes. */
const words = fc.constantFrom(
  ...['log', 'witness', 'group', 'quorum', 'none', 'all', 'any', '0', '1', '2', '3', '01', '+1', '#', '\t'],
  ...['a', 'b', 'c', 'd', 'near', 'far', 'both', log, ...witnesses.map(({ vkey }) => vkey)],
  ...['\u2003', '\u00a0', '\r', '\v', '\0', '\u007f', 'https://x.example', renamedLog, renamedWitness],
);
const reworded = fc
  .array(fc.tuple(fc.nat(), fc.nat(), fc.constantFrom('drop', 'double', 'swap', 'word', 'add'), words), {
    minLength: 1,
    maxLength: 3,
  })
  .map((steps) => {
    const lines = policy.split('\n');
    for (const [from, at, kind, word] of steps) {
      const n = from % lines.length;
      const items = (lines[n] ?? '').split(' ');
      const line = lines[at % lines.length] ?? '';
      if (kind === 'drop') lines.splice(n, 1);
      else if (kind === 'double') lines.splice(n, 0, line);
      else if (kind === 'swap') [lines[n], lines[at % lines.length]] = [line, lines[n] ?? ''];
      else lines[n] = items.toSpliced(at % items.length, kind === 'word' ? 1 : 0, word).join(' ');
    }
    return lines.join('\n');
  });

t.test('torchwood and Sigsum judge policies as we do', async (t) => {
  const texts = [policy, ...fc.sample(fc.oneof(change(policy), reworded, reworded), mutations())];
  const args = ['policies', origin, log, ...witnesses.map(({ vkey }) => vkey)];
  const verdicts = judge(
    args,
    texts.map((text) => [text, asSigsum(text)]),
  );
  const counts = { read: 0, refused: 0, torchwood: 0 };
  const wrong = texts.flatMap((text, n) => {
    const [ours, byName] = [judgedPolicy(text, 'key'), judgedPolicy(text, 'name')];
    counts[ours === 'refused' ? 'refused' : 'read'] += 1;
    if (ours === 'refused') return [];
    const [torchwood, sigsum] = verdicts[n]?.split(' ') ?? [];
    // C2SP tlog-policy: only spaces and tabs separate, and a comment is a line. torchwood takes other spaces and the rest of a line too.
    // And it wants every log of the policy to have signed.
    const isOwn =
      text.includes(renamedLog) ||
      /[^\n]#|(?![ \t\n])\p{White_Space}/u.test(text.replaceAll(/^[ \t]*#.*$/gm, ''));
    counts.torchwood += isOwn ? 0 : 1;
    return ours === sigsum && (isOwn || byName === torchwood) ? [] : [{ text, ours, sigsum, torchwood }];
  });
  t.strictSame(wrong.slice(0, 3), []);
  t.comment(JSON.stringify(counts));
  t.ok(Math.min(counts.read, counts.refused, counts.torchwood) > texts.length / 100, JSON.stringify(counts));
});

const root = base64(Buffer.alloc(32, 7));
const checkpointText = `${origin}\n5\n${root}\n`;
const times = fc.oneof(
  fc.constantFrom(1n, 1_800_000_000n, 8_640_000_000_000n, 8_640_000_000_001n, 0n, 2n ** 53n, 2n ** 64n - 1n),
  fc.bigInt(0n, 2n ** 34n),
);
const texts = fc.oneof(
  fc.constant(checkpointText),
  change(checkpointText),
  fc.constantFrom('extension\n', '\n', '— x AAAA\n', 'é\n').map((more) => checkpointText + more),
  fc
    .constantFrom('05', '+5', '-5', '5 ', '0', `${2 ** 53 - 1}`, '9223372036854775807', '9223372036854775808')
    .map((size) => `${origin}\n${size}\n${root}\n`),
);
/** Notes that the witnesses cosigned as they are, some of them changed after that. */
const cosignedNotes = fc
  .tuple(texts, fc.array(fc.tuple(fc.nat(3), times), { minLength: 1, maxLength: 5 }))
  .map(([text, lines]) => {
    const signed = lines.map(([who, time]) => witnesses[who]?.cosign(text, time));
    return `${text}\n${encodeSignatureLines(signed.filter((line) => line !== undefined))}`;
  })
  .chain((note) => fc.oneof(fc.constant(note), change(note)));

t.test('torchwood accepts every cosignature that we accept', async (t) => {
  const notes = fc.sample(cosignedNotes, mutations());
  const verdicts = judge(
    ['cosignatures', ...witnesses.map(({ vkey }) => vkey)],
    notes.map((note) => [note]),
  );
  const counts = { valid: 0, invalid: 0 };
  const wrong = notes.flatMap((text, n) => {
    const note = parseNote(text);
    const said = verdicts[n]?.split(' ') ?? [];
    const ours = note ? cosignaturesIn(note, cosigners) : [];
    counts[ours.length > 0 ? 'valid' : 'invalid'] += 1;
    return ours
      .map(({ cosigner, time }) => `${cosigners.indexOf(cosigner)}@${time}`)
      .filter((one) => !said.includes(one))
      .map((one) => ({ text, one, said }));
  });
  t.strictSame(wrong.slice(0, 3), []);
  t.comment(JSON.stringify(counts));
  t.ok(Math.min(counts.valid, counts.invalid) > notes.length / 100, JSON.stringify(counts));
});

t.test('torchwood judges proofs as we do', async (t) => {
  const job = makeJob('job_1', { customerReference: 'order ñ 7' });
  const sealedAt = Date.parse('2026-03-04T05:06:07.300Z');
  const jobs = [job, ...Array.from({ length: 6 }, (_, n) => makeJob(`job_${n + 2}`))];
  const [receipt] = await sealJobs({ jobs, environment: 'sandbox', origin, keys: [logKey], sealedAt });
  if (receipt === undefined) throw new Error('nothing was sealed');
  const { manifest, evidence } = receipt;
  const record = leafData(manifest);
  const { privateKey, ...key } = logKey;
  const trust = encodeTrust({
    timestampAuthorities: [],
    logs: [
      {
        origin,
        environment: manifest.environment,
        epochs: [{ notBefore: 0, timestamps: 'none', quorum: { needed: 1 }, keys: [key] }],
        witnessPolicy: policy,
      },
    ],
  });
  /** A note that the log and the witnesses signed as it is. */
  const signed = (text: string, who: readonly number[] = [0, 1, 2, 3]) => {
    const own = {
      name: origin,
      keyId: noteKeyId(origin, logKey),
      signature: sign(null, fromUtf8(text), privateKey),
    };
    const lines = who.flatMap((n) => witnesses[n]?.cosign(text, BigInt(Math.floor(Date.now() / 1000))) ?? []);
    return `${text}\n${encodeSignatureLines([own, ...lines])}`;
  };
  const head = (index: number | string, hashes: readonly string[]) =>
    `c2sp.org/tlog-proof@v1\nextra ${base64(encodeManifest(manifest))}\nindex ${index}\n${hashes.map((hash) => `${hash}\n`).join('')}\n`;
  const textOf = (checkpoint: string) => checkpoint.slice(0, checkpoint.indexOf('\n\n') + 1);
  const sealed = textOf(evidence.checkpoint);
  const genuine = head(evidence.leaf_index, evidence.inclusion_proof) + signed(sealed);

  /** Paths that lead to the root of the checkpoint, whether a tree of this size has such a path from this leaf or not. */
  const count = fc.oneof(
    fc.nat(9),
    fc.constantFrom(2 ** 31, 2 ** 32, 2 ** 32 + 1, 2 ** 52 + 1, 2 ** 53 - 1, 2 ** 53),
  );
  const paths = fc
    .tuple(count, count, fc.array(fc.boolean(), { maxLength: 5 }))
    .map(([index, size, sides]) => {
      let hash = leafHash(record);
      const hashes = sides.map((isLeft, n) => {
        const other = Buffer.alloc(32, n);
        hash = isLeft ? nodeHash(other, hash) : nodeHash(hash, other);
        return base64(other);
      });
      return head(index, hashes) + signed(`${origin}\n${size}\n${base64(hash)}\n`);
    });
  const changedThenSigned = change(sealed).map(
    (text) => head(evidence.leaf_index, evidence.inclusion_proof) + signed(text),
  );
  const signers = fc
    .array(fc.nat(3), { maxLength: 5 })
    .map((who) => head(evidence.leaf_index, evidence.inclusion_proof) + signed(sealed, who));
  const proofs = [
    genuine,
    ...fc.sample(fc.oneof(change(genuine), changedThenSigned, paths, signers), mutations()),
  ];
  const verdicts = judge(
    ['proofs', base64(policy), base64(record)],
    proofs.map((proof) => [proof]),
  );
  const counts = { good: 0, lines: 0, other: 0 };
  const wrong = proofs.flatMap((text, n) => {
    const said = verdicts[n];
    const { outcome } = verifyReceiptText(text, trust, job.content.document);
    if (outcome !== 'good') {
      counts.other += 1;
      return [];
    }
    // C2SP signed-note: a client SHOULD refuse a note with a wrong line of a known key, and the others do. Here a wrong line of a witness
    // counts for nothing, or whoever hands on a proof could spoil it.
    counts[said === 'lines' ? 'lines' : 'good'] += 1;
    return said === 'no' ? [{ text, said }] : [];
  });
  t.equal(verdicts[0], 'yes');
  t.strictSame(wrong.slice(0, 3), []);
  t.comment(JSON.stringify(counts));
  t.ok(Math.min(counts.good, counts.other) > proofs.length / 100, JSON.stringify(counts));
});
