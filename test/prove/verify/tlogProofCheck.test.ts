/** Proofs in the format of other tools, verified as receipts are. */
import t from 'tap';
import { fromBase64 } from '../../../src/base/bytes.ts';
import { encodeNote, parseNote } from '../../../src/log/note.ts';
import { encodeTlogProof, type TlogProof } from '../../../src/log/tlogProof.ts';
import { encodeManifest } from '../../../src/manifest/manifest.ts';
import { encodeReceipt, type Receipt, receiptDigest } from '../../../src/manifest/receipt.ts';
import { encodeTrust, type TrustedEpoch } from '../../../src/manifest/trustFile.ts';
import { type Verdict, verifyReceiptText } from '../../../src/prove/verify/verify.ts';
import { makePki } from '../../support/authority.ts';
import { makeJob, makeKey, sealJobs, type TestKey } from '../../support/sealing.ts';
import { fc, mutations } from '../../support/seed.ts';
import { makeCosigner } from '../../support/witness.ts';

const origin = 'seal.example.com/sandbox/2026';
const sealedAt = Date.parse('2026-03-04T05:06:07.300Z');
const secondEpoch = Date.parse('2026-06-01T00:00:00Z');
const first = makeKey('ed25519', 'eu-1');
const second = makeKey('ecdsa-p256', 'eu-1');
const stranger = makeKey('ed25519', 'eu-1');
const { root } = await makePki('ecdsa-p256');
const job = makeJob('job_1', { customerReference: 'order ñ 7' });
const { document } = job.content;

function trusting(timestamps: TrustedEpoch['timestamps'] = 'none', witnessPolicy?: string): string {
  const epoch = ({ privateKey: _, ...key }: TestKey) => ({
    timestamps,
    quorum: { needed: 1 },
    keys: [key],
  });
  return encodeTrust({
    timestampAuthorities: [{ name: 'built-in', root }],
    logs: [
      {
        origin,
        environment: 'env_sandbox',
        epochs: [
          { notBefore: 0, notAfter: secondEpoch - 1, ...epoch(first) },
          { notBefore: secondEpoch, ...epoch(second) },
        ],
        ...(witnessPolicy !== undefined && { witnessPolicy }),
      },
    ],
  });
}

async function seal(key: TestKey, options: { jobs?: (typeof job)[]; at?: number } = {}): Promise<Receipt> {
  const jobs = options.jobs ?? [job, makeJob('job_2'), makeJob('job_3')];
  const [receipt] = await sealJobs({
    jobs,
    environment: 'sandbox',
    origin,
    keys: [key],
    sealedAt: options.at ?? sealedAt,
  });
  if (receipt === undefined) throw new Error('nothing was sealed');
  return receipt;
}

function proofOf({ manifest, evidence }: Receipt, change: Partial<TlogProof> = {}): string {
  return encodeTlogProof({
    extra: encodeManifest(manifest),
    index: evidence.leaf_index,
    proof: evidence.inclusion_proof.map((hash) => fromBase64(hash) ?? new Uint8Array(0)),
    checkpoint: evidence.checkpoint,
    ...change,
  });
}

function wrongIn({ checks }: Verdict): string[] {
  return checks.filter(({ outcome }) => outcome !== 'passed').map(({ name }) => name);
}

const receipt = await seal(first);
const genuine = proofOf(receipt);

t.test('a proof is good if no time-stamp is required', async (t) => {
  const verdict = verifyReceiptText(genuine, trusting(), document);
  t.match(verdict, { outcome: 'good', matches: 'document' });
  t.strictSame(
    verdict.checks.map(({ name }) => name),
    ['proof', 'document', 'manifest', 'leaf', 'checkpoint', 'quorum', 'time-stamp', 'epoch', 'times'],
  );
});

t.test('a proof does not prove the time if a time-stamp is required', async (t) => {
  const verdict = verifyReceiptText(genuine, trusting('required'), document);
  t.equal(verdict.outcome, 'unknown');
  t.strictSame(wrongIn(verdict), ['time-stamp']);
});

t.test('later keys cannot back-date a document', async (t) => {
  const later = verifyReceiptText(proofOf(await seal(second)), trusting(), document);
  t.equal(later.outcome, 'unknown');
  t.strictSame(wrongIn(later), ['epoch']);
  const late = await seal(first, { at: secondEpoch });
  const verdict = verifyReceiptText(proofOf(late), trusting(), document);
  t.equal(verdict.outcome, 'unknown', 'the trust file of the verifier could be older');
  t.strictSame(wrongIn(verdict), ['quorum']);
});

t.test('later keys do not make up for a wrong signature of an epoch’s own key', async (t) => {
  const genuineNote = parseNote((await seal(second)).evidence.checkpoint);
  const own = parseNote(receipt.evidence.checkpoint)?.signatures[0];
  if (genuineNote === undefined || own === undefined) throw new Error('the notes');
  const wrong = { ...own, signature: Buffer.alloc(64, 1) };
  const checkpoint = encodeNote(genuineNote.text, [...genuineNote.signatures, wrong]);
  const verdict = verifyReceiptText(proofOf(await seal(second), { checkpoint }), trusting(), document);
  t.equal(verdict.outcome, 'bad');
  t.strictSame(wrongIn(verdict), ['quorum']);
});

const WITNESSED_AT = Date.parse('2026-03-04T06:00:00Z') / 1000;

t.test('the witnesses that saw the checkpoint are named, with the time', async (t) => {
  const [north, south, other] = [
    makeCosigner('north', WITNESSED_AT),
    makeCosigner('south', WITNESSED_AT),
    makeCosigner('north', WITNESSED_AT),
  ];
  const policy = `${north.line}\n${south.line}\ngroup sites all north south\nquorum sites\n`;
  const judge = (checkpoint: string, ...[timestamps]: Parameters<typeof trusting>) =>
    verifyReceiptText(proofOf(receipt, { checkpoint }), trusting(timestamps, policy), document);
  const { checkpoint } = receipt.evidence;
  const both = judge(south.cosign(north.cosign(checkpoint)));
  t.match(both, {
    outcome: 'good',
    checks: {
      8: { name: 'witnesses', detail: 'cosigned by north at 2026-03-04T06:00:00.000Z, south at 2026-' },
    },
  });
  const one = judge(other.cosign(north.cosign(checkpoint)));
  t.match(one, {
    outcome: 'unknown',
    checks: { 8: { outcome: 'unknown', detail: /^cosigned by north at [^,]*: too few/ } },
  });
  t.match(judge(checkpoint).checks[8]?.detail, /^cosigned by no witness of the trust file: too few/);
  t.strictSame(wrongIn(judge(south.cosign(north.cosign(checkpoint)), 'required')), ['time-stamp']);
});

t.test('a receipt need not show witnesses, unless that is required', async (t) => {
  const [north, south] = [makeCosigner('north', WITNESSED_AT), makeCosigner('south', WITNESSED_AT)];
  const policy = `${north.line}\n${south.line}\ngroup sites all north south\nquorum sites\n`;
  const { checkpoint } = receipt.evidence;
  const judge = (checkpoint: string, trust: string) =>
    [[], ['witness'] as const].map((require) => {
      const carrying = { ...receipt, evidence: { ...receipt.evidence, checkpoint } };
      const text = encodeReceipt({ ...carrying, receipt_sha512: receiptDigest(carrying) });
      const { outcome, checks } = verifyReceiptText(text, trust, document, { require });
      return [outcome, checks.find(({ name }) => name === 'witnesses')?.code];
    });
  for (const [trust, text, code, outcome, required] of [
    [trusting('none', policy), checkpoint, 'witnesses_not_shown', 'good', 'unknown'],
    [trusting('none', policy), north.cosign(checkpoint), 'below_policy', 'good', 'unknown'],
    [trusting('none', policy), south.cosign(north.cosign(checkpoint)), 'witnesses_passed', 'good', 'good'],
    [trusting('none', `${north.line}\nquorum none\n`), checkpoint, 'witnesses_not_shown', 'good', 'unknown'],
  ])
    t.strictSame(judge(text ?? '', trust ?? ''), [
      [outcome, code],
      [required, code],
    ]);
  t.strictSame(
    judge(checkpoint, trusting()),
    [
      ['good', undefined],
      ['unknown', 'no_witness_policy'],
    ],
    'a trust file without witnesses has no line for them, unless they are required',
  );
});

t.test('an unproven statement is bad, and the right check reports it', async (t) => {
  const other = await seal(first, { jobs: [makeJob('job_9'), job] });
  const canary = await seal(first, { jobs: [makeJob('job_1', { source: 'canary' })] });
  const cases: Record<string, [string, string[], typeof document?]> = {
    'another document': [genuine, ['document'], { ...document, bytes: 1 }],
    'the manifest of another job': [proofOf(receipt, { extra: encodeManifest(other.manifest) }), ['leaf']],
    'another index': [proofOf(receipt, { index: 1 }), ['leaf']],
    'no hashes': [proofOf(receipt, { proof: [] }), ['leaf']],
    'another checkpoint': [proofOf(receipt, { checkpoint: other.evidence.checkpoint }), ['leaf']],
    'no checkpoint': [
      proofOf(receipt, { checkpoint: 'nothing\n' }),
      ['leaf', 'checkpoint', 'quorum', 'epoch'],
    ],
    'a canary': [proofOf(canary), ['manifest']],
    'no manifest': [genuine.replace(/extra .*\n/, ''), ['proof']],
    'a manifest that is not canonical': [
      proofOf(receipt, { extra: Buffer.from(JSON.stringify(receipt.manifest, undefined, 1)) }),
      ['proof'],
    ],
    'a manifest without a canonical form': [
      proofOf(receipt, { extra: Buffer.from(JSON.stringify({ ...receipt.manifest, purpose: '\ud800' })) }),
      ['proof'],
    ],
    'another version': [genuine.replace('@v1', '@v2'), ['proof']],
  };
  for (const [name, [text, expected, given = document]] of Object.entries(cases)) {
    const verdict = verifyReceiptText(text, trusting(), given);
    t.equal(verdict.outcome, 'bad', name);
    t.strictSame(
      wrongIn(verdict).filter((check) => check !== 'time-stamp'),
      expected,
      name,
    );
  }
});

t.test('the keys of a stranger prove nothing', async (t) => {
  const verdict = verifyReceiptText(proofOf(await seal(stranger)), trusting(), document);
  t.equal(verdict.outcome, 'unknown');
  t.match(verdict.checks[5], {
    name: 'quorum',
    code: 'epoch_unknown',
    detail: /get a newer trust file/,
  });
});

t.test('a witness with a time outside of the calendar does not count', async (t) => {
  const north = makeCosigner('north', 8_900_000_000_000);
  const checkpoint = north.cosign(receipt.evidence.checkpoint);
  const verdict = verifyReceiptText(
    proofOf(receipt, { checkpoint }),
    trusting('none', `${north.line}\nquorum north\n`),
    document,
  );
  t.match(verdict.checks[8]?.detail, /^cosigned by no witness of the trust file: too few/);
});

t.test('a proof with any changed character is not good', async (t) => {
  const trust = trusting();
  fc.assert(
    fc.property(fc.nat(genuine.length - 1), fc.nat(94), (at, shift) => {
      const found = genuine.codePointAt(at) ?? 0;
      const char = String.fromCodePoint(32 + ((found - 32 + 1 + shift) % 95));
      if (char === genuine[at]) return true;
      const changed = genuine.slice(0, at) + char + genuine.slice(at + 1);
      return verifyReceiptText(changed, trust, document).outcome !== 'good';
    }),
    { numRuns: mutations() },
  );
  t.pass();
});
