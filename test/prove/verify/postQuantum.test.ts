/** A receipt under a quorum that asks for a post-quantum signature: as the daemon wrote it, and as a forger would. */
import { readFileSync } from 'node:fs';
import t from 'tap';
import { sha256, sha512 } from '../../../src/base/crypto.ts';
import { encodeReceipt, type Receipt, receiptDigest } from '../../../src/manifest/receipt.ts';
import { sealedForm } from '../../../src/manifest/sealedForm.ts';
import { encodeTrust, parseTrust, type TrustedEpoch } from '../../../src/manifest/trustFile.ts';
import { type Verdict, verifyReceiptText } from '../../../src/prove/verify/verify.ts';
import { firstEpoch, makeJob, makeKey, oneEpoch, sealJobs, type TestKey } from '../../support/sealing.ts';

const at = (name: string) => readFileSync(new URL(`../../vectors/postQuantum/${name}`, import.meta.url));
const bytes = at('document.pdf');
const document = {
  sha256: Buffer.from(sha256(bytes)).toString('hex'),
  sha512: Buffer.from(sha512(bytes)).toString('hex'),
  bytes: bytes.length,
};
const trust = at('trust.json').toString();
const receipt = JSON.parse(at('receipt.json').toString()) as Receipt;
const lines = receipt.evidence.checkpoint.split('\n').filter((line) => line.startsWith('— '));
const [eu = '', us = '', hsm = '', software = ''] = lines;

/** What is said of the quorum if the checkpoint has these lines. */
function quorumOf(signed: readonly string[], trustText = trust): Verdict['checks'][number] | undefined {
  const text = receipt.evidence.checkpoint.slice(0, receipt.evidence.checkpoint.indexOf('\n\n') + 2);
  const checkpoint = `${text}${signed.map((line) => `${line}\n`).join('')}`;
  const forged = { ...receipt, evidence: { ...receipt.evidence, checkpoint } };
  const encoded = encodeReceipt({ ...forged, receipt_sha512: receiptDigest(forged) });
  return verifyReceiptText(encoded, trustText, document).checks.find(({ name }) => name === 'quorum');
}

/** The line with one byte of what follows the key id changed. */
function flip(line: string, byte: number): string {
  const [dash, name, base64 = ''] = line.split(' ');
  const changed = Buffer.from(base64, 'base64');
  changed[4 + byte] = (changed[4 + byte] ?? 0) ^ 1;
  return `${dash} ${name} ${changed.toString('base64')}`;
}

t.test('an unchanged receipt is good, and the verdict names the software key', async (t) => {
  const verdict = verifyReceiptText(at('receipt.json').toString(), trust, document);
  t.equal(verdict.outcome, 'good');
  t.match(
    verdict.checks.find(({ name }) => name === 'quorum')?.detail,
    /eu\/post-quantum, us\/post-quantum \(software\): signed by 2 classical .* and 2 post-quantum keys; needed: 2 classical of eu, us and 1 post-quantum$/,
  );
  t.match(quorumOf(lines), { outcome: 'passed' });
});

t.test('one post-quantum signature suffices, and none does not', async (t) => {
  t.match(quorumOf([eu, us, hsm]), { outcome: 'passed' });
  t.match(quorumOf([eu, us, software]), { outcome: 'passed', detail: /us\/post-quantum \(software\)/ });
  t.match(quorumOf([eu, us]), { outcome: 'failed', detail: /and 0 post-quantum keys; needed/ });
  t.match(quorumOf([eu, us, us]), { outcome: 'failed' });
  t.match(quorumOf([eu, hsm, software]), { outcome: 'failed', detail: /signed by 1 classical key/ });
  t.match(quorumOf([hsm, software]), { outcome: 'failed', detail: /signed by 0 classical keys/ });
  t.match(quorumOf([eu, us, hsm, hsm]), { outcome: 'passed' }, 'a line twice counts once');
});

t.test('a line with a changed time, signature or length is refused', async (t) => {
  for (const byte of [7, 8, 1000, 8 + 2419])
    t.match(quorumOf([eu, us, flip(hsm, byte)]), { outcome: 'failed', detail: /eu\/post-quantum is wrong/ });
  const [dash, name, base64 = ''] = hsm.split(' ');
  const raw = Buffer.from(base64, 'base64');
  for (const other of [raw.subarray(0, -1), Buffer.concat([raw, Buffer.from([0])]), raw.subarray(0, 8)])
    t.match(quorumOf([eu, us, `${dash} ${name} ${other.toString('base64')}`]), { outcome: 'failed' });
});

t.test('signatures of another checkpoint or log do not count', async (t) => {
  const keys = [makeKey('ed25519', 'eu'), makeKey('mldsa44', 'eu')] as const;
  const sealed = async (origin: string, ids: string[]) => {
    const jobs = ids.map((id) => makeJob(id));
    const [first] = await sealJobs({ jobs, environment: 'sandbox', origin, keys, sealedAt: 1 });
    return first as Receipt;
  };
  const [own, other, foreign] = [
    await sealed('a.example/log', ['job_1']),
    await sealed('a.example/log', ['job_1', 'job_2']),
    await sealed('b.example/log', ['job_1']),
  ];
  const pq = ({ evidence }: Receipt) =>
    evidence.checkpoint.split('\n').find((line) => line.length > 3000) ?? '';
  const verdictWith = (line: string) => {
    const checkpoint = own.evidence.checkpoint.replace(pq(own), line);
    const forged = { ...own, evidence: { ...own.evidence, checkpoint } };
    const log = trusting(keys, { needed: 1, postQuantum: 1 });
    const text = encodeReceipt({ ...forged, receipt_sha512: receiptDigest(forged) });
    return verifyReceiptText(text, log, makeJob('job_1').content.document).outcome;
  };
  t.equal(verdictWith(pq(own)), 'good');
  t.equal(verdictWith(pq(other)), 'bad');
  t.equal(verdictWith(pq(foreign)), 'bad');
  const unknownKey = pq(foreign).replace('b.example', 'a.example');
  t.equal(verdictWith(unknownKey), 'unknown', 'a later epoch could have that key');
});

function trusting(keys: readonly TestKey[], quorum: TrustedEpoch['quorum']): string {
  const trusted = keys.map(({ privateKey: _, ...key }) => key);
  const log = oneEpoch({ origin: 'a.example/log', environment: 'env_sandbox', keys: trusted });
  return encodeTrust({
    timestampAuthorities: [],
    logs: [{ ...log, epochs: log.epochs.map((epoch) => ({ ...epoch, quorum })) }],
  });
}

t.test('a plain quorum counts only classical keys', async (t) => {
  const classical = JSON.parse(trust);
  classical.logs[0].epochs[0].quorum = 2;
  t.match(quorumOf(lines, JSON.stringify(classical)), { outcome: 'passed' });
  t.match(quorumOf([eu, hsm, software], JSON.stringify(classical)), { outcome: 'failed' });
  classical.logs[0].epochs[0].keys.splice(2);
  t.match(quorumOf(lines, JSON.stringify(classical)), { outcome: 'passed' }, 'lines of unknown keys');
});

t.test(
  'trust files and sealed epochs mark software keys as such, and contain no mark without them',
  async (t) => {
    const read = parseTrust(trust).logs[0]?.epochs[0];
    t.strictSame(
      read?.keys.map(({ algorithm, software: label }) => [algorithm, label]),
      [
        ['ed25519', undefined],
        ['ed25519', undefined],
        ['mldsa44', undefined],
        ['mldsa44', true],
      ],
    );
    t.throws(() => parseTrust(trust.replace('"software": true', '"software": false')), /software/);
    const impossible = trust.replace('and 1 post-quantum', 'and 3 post-quantum');
    t.throws(() => parseTrust(impossible), /3 of 2 post-quantum keys can never sign/);
    const form = sealedForm('a.example/log', firstEpoch([makeKey('ed25519', 'eu')]));
    t.notOk('software_keys' in form);
    const labelled = firstEpoch([makeKey('ed25519', 'eu'), { ...makeKey('mldsa44', 'us'), software: true }]);
    t.strictSame(sealedForm('a.example/log', labelled).software_keys, ['us/log']);
  },
);
