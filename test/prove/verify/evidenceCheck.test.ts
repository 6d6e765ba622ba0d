/** Receipts with an evidence record, under trust files whose authorities come and go. */
import { readFileSync } from 'node:fs';
import t from 'tap';
import { encodeEvidenceRecord } from '../../../src/asn1/evidenceRecord.ts';
import { fromBase64 } from '../../../src/base/bytes.ts';
import { encodeTlogProof } from '../../../src/log/tlogProof.ts';
import { encodeManifest } from '../../../src/manifest/manifest.ts';
import { encodeReceipt, type Receipt } from '../../../src/manifest/receipt.ts';
import { encodeTrust, type TrustedAuthority } from '../../../src/manifest/trustFile.ts';
import { encodeChains } from '../../../src/prove/renewal/renewals.ts';
import { verifyReceiptText } from '../../../src/prove/verify/verify.ts';
import { issueRoot } from '../../../src/tsa/pki.ts';
import { HeldClock, makeAuthority, makePki } from '../../support/authority.ts';
import { type Archived, derOf, makeEra, renew, yearMs } from '../../support/evidence.ts';
import { makeContent, makeJob, makeKey, oneEpoch, sealJobs } from '../../support/sealing.ts';

const origin = 'seal.example.com/sandbox/2026';
const sealedAt = Date.parse('2026-03-04T05:06:07.300Z');
const { privateKey, ...key } = makeKey('ed25519', 'eu-1');
const { document } = makeContent();
const pki = await makePki();
const authority = makeAuthority([pki.unit], new HeldClock(sealedAt));
const sealing = { environment: 'sandbox', origin, keys: [{ ...key, privateKey }], sealedAt } as const;
const seal = async (id: string, stamped = true) => {
  const [receipt] = await sealJobs({ ...sealing, jobs: [makeJob(id)], ...(stamped && { authority }) });
  return receipt as Receipt;
};
const [receipt, other, unstamped] = [await seal('job_1'), await seal('job_2'), await seal('job_3', false)];

const bytes = (base64 = '') => fromBase64(base64) ?? new Uint8Array(0);
const dataOf = ({ evidence }: Receipt) => Buffer.from(evidence.checkpoint);

/** The record of the receipt's own time-stamp. */
function initialOf({ evidence }: Receipt) {
  const chains = [[{ token: bytes(evidence.timestamps[0]?.token) }]];
  return { digests: ['sha512' as const], certificates: evidence.certificates.map(bytes), chains };
}

const [second, third] = [await makeEra(2026, 2041), await makeEra(2036, 2051)];
const items = [receipt, other].map((one) => ({ data: dataOf(one), record: initialOf(one) }));
const renewed = await renew(items, 'sha512', second, yearMs(2026) + 300 * 86_400_000);
const rehashed = await renew(renewed, 'sha384', third, yearMs(2040));
const [record, ofOther] = rehashed.map(derOf) as [Uint8Array, Uint8Array];

const AUTHORITIES: TrustedAuthority[] = [
  { name: 'built-in', root: pki.root },
  { name: 'second', root: second.root },
  { name: 'third', root: third.root },
];

function trustIn(timestampAuthorities: TrustedAuthority[]): string {
  const logs = [oneEpoch({ origin, environment: 'env_sandbox', keys: [key] })];
  return encodeTrust({ timestampAuthorities, logs });
}

/** The verdict on a receipt, or a proof, with a record. `windows`: from when to when authorities are trusted, by their names. */
function verify(
  given: Uint8Array,
  year: number,
  {
    text = encodeReceipt(receipt),
    windows = {} as Record<string, { notBefore?: number; notAfter?: number }>,
  } = {},
) {
  const timestampAuthorities = AUTHORITIES.map((one) => ({ ...one, ...windows[one.name] }));
  const verdict = verifyReceiptText(text, trustIn(timestampAuthorities), document, {
    record: given,
    at: yearMs(year),
  });
  const finding = verdict.checks.find(({ name }) => name === 'evidence-record');
  return { ...verdict, others: verdict.checks.filter((check) => check !== finding), finding };
}

t.test('a receipt of 2026 verifies in 2045, although its authority is long gone', async (t) => {
  const { outcome, finding, evidence } = verify(record, 2045);
  t.equal(outcome, 'good');
  t.strictSame(finding, {
    name: 'evidence-record',
    outcome: 'passed',
    code: 'evidence_record_passed',
    detail:
      '3 time-stamps, the first of 2026-03-04T05:06:07.300Z; it proves the checkpoint until 2051-01-01T00:00:00.000Z, and longer if it ' +
      'is renewed before',
  });
  t.match(evidence, {
    holdsUntil: '2051-01-01T00:00:00.000Z',
    lines: [
      {
        kind: 'initial',
        outcome: 'passed',
        time: '2026-03-04T05:06:07.300Z',
        digest: 'sha512',
        authority: 'built-in',
        detail:
          /^at 2026-03-04T05:06:07\.300Z, the checkpoint existed, says built-in \(O=Muster & Söhne, OU=Time, CN=TSU 1\)$/,
      },
      {
        kind: 'time-stamp renewal',
        authority: 'second',
        detail: /^at 2026-10-28T.*, the time-stamp before existed, says second \(/,
      },
      {
        kind: 'hash renewal',
        digest: 'sha384',
        authority: 'third',
        detail:
          /^at 2040.*, the checkpoint and all time-stamps before existed, by their SHA-384, says third \(/,
      },
    ],
  });
});

t.test('the record that came with the receipt ends with its certificate', async (t) => {
  const [timestamps = []] = initialOf(receipt).chains;
  const initial = encodeChains([{ digest: 'sha512', timestamps }], receipt.evidence.certificates);
  const future = { finding: { outcome: 'unknown' }, evidence: { fault: 'future' } };
  t.match(verify(initial, 2026), future, 'before it was made');
  t.match(verify(encodeEvidenceRecord(initialOf(receipt)), 2027), {
    outcome: 'unknown',
    finding: { detail: /1 of 1 is no longer valid: .*TSU 1 is not valid at 2027/ },
  });
  const { evidence } = verifyReceiptText(encodeReceipt(receipt), trustIn(AUTHORITIES), document, {
    record: initial,
    at: sealedAt - 1000,
  });
  t.match(
    evidence,
    { finding: { outcome: 'passed' }, holdsUntil: '2027-01-01T00:00:00.000Z' },
    'by a clock that is late',
  );
});

t.test('an authority must be trusted until the next time-stamp, and the last one until today', async (t) => {
  const until = (name: string, year: number) => ({ windows: { [name]: { notAfter: yearMs(year) } } });
  t.match(verify(record, 2045, until('third', 2048)), {
    outcome: 'good',
    evidence: { holdsUntil: '2048-01-01T00:00:00.000Z' },
  });
  t.match(verify(record, 2045, until('second', 2041)), { outcome: 'good' }, 'stolen after it was renewed');
  t.match(verify(record, 2045, until('second', 2039)), {
    outcome: 'bad',
    evidence: { fault: 'gap' },
    finding: {
      detail:
        /2 of 3 was no longer valid when the next one was made: at 2040.*the trust file does not trust O=Era of 2026/,
    },
  });
  t.match(verify(record, 2045, until('second', 2026)), {
    outcome: 'bad',
    finding: { detail: /2 of 3 is of 2026-10-28.*, when the trust file does not trust/ },
  });
  t.match(verify(record, 2045, until('third', 2044)), {
    outcome: 'unknown',
    finding: { detail: /3 of 3 is no longer valid: at 2045.*, the trust file does not trust/ },
  });
  const trust = trustIn(AUTHORITIES.slice(1));
  t.match(verifyReceiptText(encodeReceipt(receipt), trust, document, { record, at: yearMs(2045) }), {
    outcome: 'unknown',
  });
});

t.test('a record of an earlier version verifies', async (t) => {
  const read = (name: string) => readFileSync(new URL(`../../vectors/renewed/${name}`, import.meta.url));
  const [text, trust] = [read('receipt.json').toString(), read('trust.json').toString()];
  const at = (year: number) =>
    verifyReceiptText(text, trust, document, { record: read('record.ers'), at: yearMs(year) });
  t.match(at(2045), { outcome: 'good', evidence: { lines: { length: 3 } } });
  t.match(at(2052), { outcome: 'unknown' });
});

t.test('a root that was renewed with the same key verifies, whatever the order of the roots', async (t) => {
  const { subject } = pki.root;
  const again = await issueRoot(
    {
      subject: { country: 'DE', organization: 'Muster & Söhne', commonName: 'Root' },
      notBefore: sealedAt - 86_400_000,
      notAfter: yearMs(2040),
    },
    pki.rootKey,
  );
  t.strictSame(again.subject, subject);
  const roots: TrustedAuthority[] = [
    { name: 'built-in', root: pki.root, notAfter: yearMs(2026) },
    { name: 'built-in', root: again },
  ];
  for (const list of [roots, roots.toReversed()])
    t.match(verifyReceiptText(encodeReceipt(receipt), trustIn(list), document), { outcome: 'good' });
});

t.test('a record of another receipt is refused', async (t) => {
  const verdict = verify(ofOther, 2045);
  t.match(verdict, { outcome: 'bad', finding: { outcome: 'failed', detail: /does not cover the data/ } });
  t.ok(
    verdict.others.every(({ name, outcome }) => outcome === 'passed' || name === 'revocation'),
    'the receipt is as good as before',
  );
  t.equal(verify(ofOther, 2045, { text: encodeReceipt(other) }).outcome, 'good');
  const [late] = await renew([{ data: dataOf(receipt) }], 'sha512', third, yearMs(2044));
  t.match(verify(derOf(late as Archived), 2045), {
    outcome: 'bad',
    finding: { detail: 'it does not begin with the time-stamp of the receipt' },
  });
  t.match(verify(Buffer.from('3000', 'hex'), 2045), { outcome: 'bad', evidence: { lines: [] } });
  t.match(verify(new Uint8Array(0), 2045), { outcome: 'bad' });
});

t.test('a receipt without a time-stamp gets its first by a renewal', async (t) => {
  const [first] = await renew([{ data: dataOf(unstamped) }, ...renewed], 'sha512', third, yearMs(2036));
  const text = encodeReceipt(unstamped);
  const verdict = verify(derOf(first as Archived), 2045, { text });
  t.match(verdict, {
    outcome: 'good',
    evidence: { lines: [{ kind: 'initial', time: '2036-01-01T00:00:00.000Z' }] },
  });
  t.match(verify(record, 2045, { text }), { outcome: 'bad' });
});

t.test('a proof without a time-stamp gets one from the record', async (t) => {
  const { manifest, evidence } = receipt;
  const { leaf_index: index, checkpoint } = evidence;
  const proof = evidence.inclusion_proof.map(bytes);
  const text = encodeTlogProof({ extra: encodeManifest(manifest), index, proof, checkpoint });
  t.match(verify(record, 2045, { text }), { outcome: 'good', evidence: { lines: { length: 3 } } });
  t.match(verify(ofOther, 2045, { text }), { outcome: 'bad' });
});

t.test('without a checkpoint, there is no verdict on the record', async (t) => {
  const nothing = {
    name: 'evidence-record',
    outcome: 'unknown',
    code: 'evidence_record_unknown',
    detail: 'there is no checkpoint to compare it with',
  } as const;
  for (const text of ['{}', 'no JSON', 'c2sp.org/tlog-proof@v1\n']) {
    const { outcome, finding, evidence } = verify(record, 2045, { text });
    t.strictSame({ outcome, finding, evidence }, { outcome: 'bad', finding: nothing, evidence: undefined });
  }
  const { checks } = verifyReceiptText(encodeReceipt(receipt), 'no trust file', document, { record, at: 0 });
  t.match(checks, [{ name: 'trust', outcome: 'unknown' }]);
});
