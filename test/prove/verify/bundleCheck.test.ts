/** Bundles: a receipt with a proof that witnesses have seen, and with its evidence record. */
import { isDeepStrictEqual } from 'node:util';
import t from 'tap';
import { encodeEvidenceRecord } from '../../../src/asn1/evidenceRecord.ts';
import { fromBase64 } from '../../../src/base/bytes.ts';
import { encodeTlogProof, type TlogProof } from '../../../src/log/tlogProof.ts';
import { assembleBundle, type Bundle, bundleDigest, encodeBundle } from '../../../src/manifest/bundle.ts';
import { encodeManifest } from '../../../src/manifest/manifest.ts';
import { encodeReceipt, type Receipt } from '../../../src/manifest/receipt.ts';
import { encodeTrust, parseTrust } from '../../../src/manifest/trustFile.ts';
import { provenBy } from '../../../src/prove/verify/proven.ts';
import {
  type TextOptions,
  type Verdict,
  verifyReceipt,
  verifyReceiptText,
} from '../../../src/prove/verify/verify.ts';
import { issueRevocationList } from '../../../src/tsa/pki.ts';
import { DAY_MS, HeldClock, makeAuthority, makePki } from '../../support/authority.ts';
import { makeEra, renew, yearMs } from '../../support/evidence.ts';
import { makeContent, makeJob, makeKey, oneEpoch, sealJobs } from '../../support/sealing.ts';
import { fc, mutations } from '../../support/seed.ts';
import { makeCosigner } from '../../support/witness.ts';

const origin = 'seal.example.com/sandbox/2026';
const sealedAt = Date.parse('2026-03-04T05:06:07.300Z');
const at = Date.parse('2026-11-27T10:00:00Z');
const { privateKey, ...key } = makeKey('ed25519', 'eu-1');
const stranger = makeKey('ed25519', 'eu-1');
const { document } = makeContent();
const pki = await makePki();
const second = await makeEra(2026, 2041);
const sealing = {
  environment: 'sandbox',
  origin,
  keys: [{ ...key, privateKey }],
  sealedAt,
  authority: makeAuthority([pki.unit], new HeldClock(sealedAt)),
} as const;
const jobs = ['job_1', 'job_2', 'job_3', 'job_4', 'job_5'].map((id) => makeJob(id));
const seal = async (count: number, change = {}) => {
  const receipts = await sealJobs({ ...sealing, ...change, jobs: jobs.slice(0, count) });
  return receipts[0] as Receipt;
};
/** The same leaf, in the checkpoint of the receipt and in a later one. */
const [receipt, later] = [await seal(3), await seal(5)];
const [north, south] = ['north', 'south'].map((label) =>
  makeCosigner(label, Date.parse('2026-03-04T06:00:00Z') / 1000),
);
if (north === undefined || south === undefined) throw new Error('no witnesses');
const cosign = (note: string) => south.cosign(north.cosign(note));

const bytes = (base64 = '') => fromBase64(base64) ?? new Uint8Array(0);
const initial = {
  digests: ['sha512' as const],
  certificates: receipt.evidence.certificates.map(bytes),
  chains: [[{ token: bytes(receipt.evidence.timestamps[0]?.token) }]],
};
const [renewed] = await renew(
  [{ data: Buffer.from(receipt.evidence.checkpoint), record: initial }],
  'sha512',
  second,
  yearMs(2026) + 300 * 86_400_000,
);
const record = encodeEvidenceRecord(renewed?.record ?? initial);

function proofOf({ evidence }: Receipt, change: Partial<TlogProof> = {}): string {
  return encodeTlogProof({
    index: evidence.leaf_index,
    proof: evidence.inclusion_proof.map(bytes),
    checkpoint: cosign(evidence.checkpoint),
    ...change,
  });
}

const list = await issueRevocationList(
  { issuer: pki.root, number: 1, revoked: [], thisUpdate: at, nextUpdate: at + DAY_MS },
  pki.rootKey,
);
const genuine = { receipt, tlogProof: proofOf(later), evidenceRecord: record, revocationLists: [list] };
const textOf = (change: Partial<Bundle<object>> = {}) =>
  encodeBundle(assembleBundle({ ...genuine, ...change }));
const text = textOf();

function trusting(change: { witnessPolicy?: string } = {}): string {
  const { witnessPolicy = `${north?.line}\n${south?.line}\ngroup sites all north south\nquorum sites\n` } =
    change;
  const timestampAuthorities = [
    { name: 'built-in', root: pki.root },
    { name: 'second', root: second.root },
  ];
  const log = oneEpoch({ origin, environment: 'env_sandbox', keys: [key], timestamps: 'required' });
  return encodeTrust({ timestampAuthorities, logs: [{ ...log, ...(witnessPolicy && { witnessPolicy }) }] });
}

function verify(bundle: string, options: TextOptions = {}, trust = trusting()): Verdict {
  return verifyReceiptText(bundle, trust, document, { at, require: ['time', 'witness'], ...options });
}

function openIn({ checks }: Verdict): string[] {
  return checks.filter(({ outcome }) => outcome !== 'passed').map(({ name, code }) => `${name}: ${code}`);
}

t.test('a bundle shows time, witnesses and renewals at once', async (t) => {
  const verdict = verify(text);
  t.strictSame(openIn(verdict), []);
  t.match(verdict, { outcome: 'good', matches: 'document', evidence: { lines: { length: 2 } } });
  t.strictSame(
    verdict.checks.map(({ name }) => name),
    [
      'bundle',
      'receipt',
      'document',
      'manifest',
      'leaf',
      'checkpoint',
      'quorum',
      'time-stamp',
      'epoch',
      'witnesses',
      'times',
      'revocation',
      'evidence-record',
    ],
  );
  t.match(provenBy(text, trusting(), verdict), {
    treeSize: 3,
    witnesses: [{ label: 'north' }, { label: 'south' }],
  });
  const parsed = verifyReceipt({ document, receipt: JSON.parse(text), trust: parseTrust(trusting()), at });
  t.match(
    parsed,
    { outcome: 'good', evidence: { lines: { length: 2 } } },
    'a program can give it as a value',
  );
});

t.test('the receipt alone does not show the witnesses of its bundle', async (t) => {
  t.strictSame(openIn(verify(encodeReceipt(receipt))), [
    'witnesses: witnesses_not_shown',
    'revocation: revocation_not_shown',
  ]);
});

t.test('too few witnesses, or none in the trust file, count only if they are required', async (t) => {
  const few = textOf({ tlogProof: proofOf(later, { checkpoint: north.cosign(later.evidence.checkpoint) }) });
  t.match(verify(few), { outcome: 'unknown' });
  t.strictSame(openIn(verify(few)), ['witnesses: below_policy']);
  t.equal(verify(few, { require: [] }).outcome, 'good');
  const without = trusting({ witnessPolicy: '' });
  t.equal(verify(text, { require: [] }, without).outcome, 'good');
  t.strictSame(openIn(verify(text, {}, without)), ['witnesses: no_witness_policy']);
});

t.test('a bundle whose record ended verifies for ever, unless the time is required', async (t) => {
  const late = { at: yearMs(2060) };
  t.strictSame(openIn(verify(text, { ...late, require: [] })), ['evidence-record: certificate_expired']);
  t.equal(verify(text, { ...late, require: [] }).outcome, 'good');
  t.equal(verify(text, { ...late, require: ['time'] }).outcome, 'unknown');
  t.equal(verify(text, { ...late, record }).outcome, 'unknown', 'a record that is named must hold');
});

t.test('a proof that does not belong to the receipt is bad, whoever cosigned it', async (t) => {
  const [forked] = await sealJobs({ ...sealing, jobs: [...jobs.slice(0, 2), makeJob('job_9')] });
  const elsewhere = await seal(5, { origin: 'other.example.com/log' });
  const forged = await seal(5, { keys: [stranger] });
  const cases: Record<string, [string, string]> = {
    'of another leaf': [proofOf(later, { index: 1 }), 'proof_wrong'],
    'without hashes': [proofOf(later, { proof: [] }), 'proof_wrong'],
    'with extra data': [proofOf(later, { extra: encodeManifest(receipt.manifest) }), 'proof_wrong'],
    'of another log': [proofOf(elsewhere), 'proof_wrong'],
    'without a checkpoint': [proofOf(later, { checkpoint: 'nothing\n' }), 'proof_wrong'],
    'of another tree of the same size': [proofOf(forked as Receipt), 'log_forked'],
    'that is no proof': ['nothing', 'proof_wrong'],
  };
  for (const [name, [tlogProof, code]] of Object.entries(cases))
    for (const trust of [trusting(), trusting({ witnessPolicy: '' })]) {
      const verdict = verify(textOf({ tlogProof }), { require: [] }, trust);
      t.equal(verdict.outcome, 'bad', name);
      t.strictSame(openIn(verdict), [`witnesses: ${code}`], name);
      t.strictSame(provenBy(textOf({ tlogProof }), trust, verdict)?.witnesses, [], name);
    }
  const unsigned = verify(textOf({ tlogProof: proofOf(forged) }));
  t.strictSame(openIn(unsigned), ['witnesses: epoch_unknown'], 'keys that the trust file does not know');
  t.equal(unsigned.outcome, 'unknown');
});

t.test('a bundle that cannot be read says why', async (t) => {
  const value = JSON.parse(text);
  const changed = (change: object) => {
    const bundle = { ...value, ...change };
    return JSON.stringify({ ...bundle, bundle_sha512: bundleDigest(bundle) });
  };
  const codes = (bundle: string) => verify(bundle).checks.map(({ name, code }) => `${name}: ${code}`);
  t.strictSame(codes(changed({ schema: 'pdfseal-bundle/2' })), ['bundle: bundle_newer']);
  t.strictSame(codes(changed({ tlog_proof: 7 })), ['bundle: bundle_failed']);
  t.strictSame(codes(changed({ evidence_record: '?' })), ['bundle: bundle_failed']);
  t.strictSame(codes(changed({ receipt: {} })), ['bundle: bundle_passed', 'receipt: receipt_failed']);
  t.strictSame(openIn(verify(changed({ more: 1 }))), ['bundle: bundle_unknown']);
  t.strictSame(openIn(verify(JSON.stringify({ ...value, evidence_record: undefined }))), [
    'bundle: bundle_failed',
  ]);
});

t.test('a bundle with any changed character is not good', async (t) => {
  const trust = trusting();
  fc.assert(
    fc.property(fc.nat(text.length - 1), fc.nat(94), (where, shift) => {
      const found = text.codePointAt(where) ?? 0;
      const char = String.fromCodePoint(32 + ((found - 32 + 1 + shift) % 95));
      const changed = text.slice(0, where) + char + text.slice(where + 1);
      // White space between members means nothing.
      const isSame = char.codePointAt(0) === found || (char + text[where]).trim() === '';
      return isSame || verify(changed, {}, trust).outcome !== 'good';
    }),
    { numRuns: mutations(5_000) },
  );
  t.pass();
});

t.test('a bundle with a changed part and a new checksum proves nothing else', async (t) => {
  const trust = trusting();
  const value = JSON.parse(text) as Record<string, string>;
  const members = ['tlog_proof', 'evidence_record'] as const;
  const shown = verify(text, {}, trust).evidence;
  fc.assert(
    fc.property(fc.constantFrom(...members), fc.nat(), fc.nat(94), (member, where, shift) => {
      const old = value[member] ?? '';
      const index = where % old.length;
      const char = String.fromCodePoint(32 + (((old.codePointAt(index) ?? 0) - 32 + 1 + shift) % 95));
      const bundle = { ...value, [member]: old.slice(0, index) + char + old.slice(index + 1) };
      const changed = JSON.stringify({ ...bundle, bundle_sha512: bundleDigest(bundle) });
      const { outcome, evidence } = verify(changed, {}, trust);
      // A copy of a root, which the record need not have, can be damaged.
      return outcome !== 'good' || isDeepStrictEqual(evidence, shown);
    }),
    { numRuns: mutations(5_000) },
  );
  t.pass();
});
