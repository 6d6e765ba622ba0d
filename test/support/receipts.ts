/** One receipt of every kind that a verifier can meet, each with its document and its trust file. */
import { execFileSync } from 'node:child_process';
import { createHash, generateKeyPairSync, sign } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { fromBase64 } from '../../src/base/bytes.ts';
import type { DocumentDigests, ReceivedJob } from '../../src/job/job.ts';
import { encodeCheckpoint } from '../../src/log/checkpoint.ts';
import { cosignatureLine, cosignedMessage, encodeCosigner } from '../../src/log/cosignature.ts';
import { encodeNote, parseNote } from '../../src/log/note.ts';
import { encodeTlogProof } from '../../src/log/tlogProof.ts';
import { assembleBundle, encodeBundle } from '../../src/manifest/bundle.ts';
import { encodeManifest } from '../../src/manifest/manifest.ts';
import { encodeReceipt, type Receipt, receiptDigest } from '../../src/manifest/receipt.ts';
import { encodeTrust, parseTrust, type TrustedLog } from '../../src/manifest/trustFile.ts';
import type { TimestampUnit } from '../../src/tsa/builtInAuthority.ts';
import { issueTimestampingCertificate } from '../../src/tsa/pki.ts';
import { HeldClock, makeAuthority, makePki } from './authority.ts';
import { derOf, makeEra, renew, yearMs } from './evidence.ts';
import { makeContent, makeJob, makeKey, oneEpoch, sealJobs, signNote, type TestKey } from './sealing.ts';

export interface Fixture {
  name: string;
  document: Buffer;
  receipt: string;
  trust: string;
  outcome: 'good' | 'bad' | 'unknown';
}

export const ORIGIN = 'seal.example.com/production/2026';
export const SEALED_AT = Date.parse('2026-11-21T23:38:51.000Z');
const VECTORS = new URL('../vectors/', import.meta.url);

/** What a stranger can put into a field of 512 characters: markup, reversed and invisible text, and one word without an end. */
export const HOSTILE = `<script>alert(1)</script>\u202e\u0000\u200bfdp.exe${'W'.repeat(470)}`;

const DOCUMENT = Buffer.from('%PDF-1.7 the contract %%EOF\n');
const COPY = Buffer.from('%PDF-1.7 without its metadata %%EOF\n');

export function digestsOf(document: Uint8Array): DocumentDigests {
  const [sha256 = '', sha512 = ''] = ['sha256', 'sha512'].map((name) =>
    createHash(name).update(document).digest('hex'),
  );
  return { sha256, sha512, bytes: document.length };
}

const keys = [makeKey('ed25519', 'eu-1'), makeKey('ecdsa-p256', 'us-1')] as const;
const forgers = [makeKey('ed25519', 'eu-1'), makeKey('ecdsa-p256', 'us-1')] as const;
const pki = await makePki('ecdsa-p256');
const witness = generateKeyPairSync('ed25519');
const cosigner = {
  name: 'witness.example.org',
  algorithm: 'ed25519' as const,
  key: Buffer.from(witness.publicKey.export({ format: 'jwk' }).x ?? '', 'base64url'),
};

interface Sealing {
  job?: Partial<ReceivedJob>;
  environment?: string;
  signers?: readonly [TestKey, ...TestKey[]];
  isStamped?: boolean;
  unit?: TimestampUnit;
}

async function seal({
  job,
  environment = 'production',
  signers = keys,
  isStamped = true,
  unit = pki.unit,
}: Sealing) {
  const [sealed] = await sealJobs({
    jobs: [
      makeJob('job_01a20125', {
        content: makeContent({ document: digestsOf(DOCUMENT), scan: CLEAN }),
        customerReference: 'Contract 2026/117 – Müller & Söhne',
        purpose: 'signed contract',
        acceptedAt: SEALED_AT - 312,
        ...job,
      }),
      makeJob('job_2'),
      makeJob('job_3'),
    ],
    environment,
    origin: ORIGIN,
    keys: signers,
    sealedAt: SEALED_AT,
    ...(isStamped && { authority: makeAuthority([unit], new HeldClock(SEALED_AT)) }),
  });
  if (sealed === undefined) throw new Error('nothing was sealed');
  return sealed;
}

const CLEAN = { verdict: 'clean', engine: 'ClamAV 1.4.3', signatures: '27830' } as const;

function trusting(change: Partial<TrustedLog> = {}, timestamps: 'required' | 'none' = 'required'): string {
  const log = oneEpoch({
    origin: change.origin ?? ORIGIN,
    environment: change.environment ?? 'env_production',
    quorum: 2,
    timestamps,
    notBefore: Date.parse('2026-01-01T00:00:00Z'),
    keys: keys.map(({ privateKey: _, ...key }, index) => ({
      ...key,
      ...(index === 1 && { software: true as const }),
    })),
  });
  return encodeTrust({
    timestampAuthorities: [{ name: 'built-in', root: pki.root }],
    logs: [{ ...log, ...change }],
  });
}

function proofOf({ manifest, evidence }: Receipt, checkpoint = evidence.checkpoint): string {
  return encodeTlogProof({
    extra: encodeManifest(manifest),
    index: evidence.leaf_index,
    proof: evidence.inclusion_proof.map((hash) => fromBase64(hash) ?? new Uint8Array(0)),
    checkpoint,
  });
}

function cosigned(checkpoint: string): string {
  const note = parseNote(checkpoint);
  const time = SEALED_AT / 1000 + 30;
  const message = cosignedMessage(cosigner, time, note?.text ?? '');
  if (note === undefined || message === undefined) throw new Error('not a checkpoint');
  const line = cosignatureLine(cosigner, time, sign(null, message, witness.privateKey));
  return encodeNote(note.text, [...note.signatures, line]);
}

/** The certificate of this unit ends a day after the seal. */
async function shortUnit(): Promise<TimestampUnit> {
  const { root, rootKey, unitKey } = pki;
  const validity = { notBefore: SEALED_AT - 86_400_000, notAfter: SEALED_AT + 86_400_000 };
  const subject = { organization: 'Muster & Söhne', commonName: 'TSU 0' };
  const certificate = await issueTimestampingCertificate(
    { subject, key: unitKey.key, issuer: root, ...validity },
    rootKey,
  );
  return { signer: { ...unitKey, ready: true }, chain: [certificate, root] };
}

/** With a proof that leads to that checkpoint. */
function bundleOf(receipt: Receipt, checkpoint: string): string {
  const { leaf_index: index, inclusion_proof: hashes } = receipt.evidence;
  const proof = hashes.map((hash) => fromBase64(hash) ?? new Uint8Array(0));
  const tlogProof = encodeTlogProof({ index, proof, checkpoint });
  return encodeBundle(assembleBundle({ receipt, tlogProof, revocationLists: [] }));
}

/** The log signed another tree of that size, and the witness cosigned it. */
function forkOf({ evidence }: Receipt): string {
  const text = encodeCheckpoint({ origin: ORIGIN, treeSize: evidence.tree_size, root: Buffer.alloc(32, 7) });
  return cosigned(signNote(ORIGIN, text, keys));
}

/** What a forger does last: receipt_sha512 is no secret. */
function finish(forged: Receipt): string {
  return JSON.stringify({ ...forged, receipt_sha512: receiptDigest(forged) });
}

export async function makeFixtures(): Promise<Fixture[]> {
  const genuine = await seal({});
  const trust = trusting();
  const none = { scan: { verdict: 'not_scanned' as const } };
  const unstamped = await seal({ isStamped: false });
  const policy = `witness auditor ${encodeCosigner(cosigner)}\nquorum auditor\n`;
  const witnessed = trusting({ witnessPolicy: policy });
  const fixture = (
    name: string,
    outcome: Fixture['outcome'],
    receipt: string,
    more: Partial<Fixture> = {},
  ) => ({
    ...{ name, outcome, receipt, document: DOCUMENT, trust },
    ...more,
  });
  const of = async (name: string, sealing: Sealing, more: Partial<Fixture> = {}) =>
    fixture(name, more.outcome ?? 'good', encodeReceipt(await seal(sealing)), more);
  const content = (scan: ReceivedJob['content']['scan']) => ({
    content: makeContent({ document: digestsOf(DOCUMENT), scan }),
  });
  const sandbox = trusting({ environment: 'env_sandbox' });
  return [
    fixture('good', 'good', encodeReceipt(genuine)),
    await of('not scanned', { job: content({ verdict: 'not_configured' }) }),
    await of('encrypted', { job: content({ verdict: 'encrypted' }) }),
    await of('digest', { job: { source: 'digest', ...content(none.scan) } }),
    await of('audit', { job: { source: 'audit', ...content(none.scan) } }),
    await of('canary', { job: { source: 'canary', ...content(none.scan) } }, { outcome: 'bad' }),
    await of(
      'copy',
      { job: { content: makeContent({ document: digestsOf(DOCUMENT), sealedDocument: digestsOf(COPY) }) } },
      { document: COPY },
    ),
    await of('sandbox', { environment: 'sandbox' }, { trust: sandbox }),
    await of('hostile', { job: { customerReference: HOSTILE, purpose: HOSTILE } }),
    fixture('no time-stamp', 'good', encodeReceipt(unstamped), { trust: trusting({}, 'none') }),
    fixture('time-stamp missing', 'bad', encodeReceipt(unstamped)),
    fixture('other document', 'bad', encodeReceipt(genuine), { document: Buffer.from('%PDF-1.7 other') }),
    fixture('other reference', 'bad', finish({ ...genuine, customer_reference: 'other' })),
    fixture('altered', 'bad', encodeReceipt({ ...genuine, kms_key_id: 'eu-1/other' })),
    fixture('forged', 'unknown', encodeReceipt(await seal({ signers: forgers }))),
    fixture('too few', 'bad', encodeReceipt(await seal({ signers: [keys[0]] }))),
    fixture('other environment', 'bad', encodeReceipt(genuine), { trust: sandbox }),
    fixture('no receipt', 'bad', '{"receipt_sha512": "<script>alert(1)</script>"}'),
    fixture('newer', 'unknown', finish({ ...genuine, algorithm: 'pdfseal-v9.x' as Receipt['algorithm'] })),
    fixture('other log', 'unknown', encodeReceipt(await seal({})), { trust: strangers() }),
    fixture('no trust file', 'unknown', encodeReceipt(genuine), { trust: '{"schema": "pdfseal-trust/1"}' }),
    fixture('other authority', 'unknown', encodeReceipt(genuine), { trust: await otherAuthority(trust) }),
    fixture('proof', 'unknown', proofOf(genuine)),
    fixture('witnessed', 'good', proofOf(unstamped, cosigned(unstamped.evidence.checkpoint)), {
      trust: trusting({ witnessPolicy: policy }, 'none'),
    }),
    fixture('not witnessed', 'unknown', proofOf(unstamped), {
      trust: trusting({ witnessPolicy: policy }, 'none'),
    }),
    fixture('bundle', 'good', bundleOf(genuine, cosigned(genuine.evidence.checkpoint)), { trust: witnessed }),
    fixture('forked', 'bad', bundleOf(genuine, forkOf(genuine)), { trust: witnessed }),
    fixture('expired', 'good', encodeReceipt(await seal({ unit: await shortUnit() }))),
    ...kept(),
  ];
}

/**
 * A good receipt with its evidence record, renewed in 2026 and, with another hash function, in 2040: good in 2045, with the trust file that
 * knows all three authorities. `ofOther` is the record of another receipt.
 */
export async function makeRenewed() {
  const receipts = [await seal({}), await seal({ job: { purpose: 'another contract' } })];
  const bytes = (base64 = '') => fromBase64(base64) ?? new Uint8Array(0);
  const initial = receipts.map(({ evidence }) => ({
    data: Buffer.from(evidence.checkpoint),
    record: {
      digests: ['sha512' as const],
      certificates: evidence.certificates.map(bytes),
      chains: [[{ token: bytes(evidence.timestamps[0]?.token) }]],
    },
  }));
  const [second, third] = [await makeEra(2026, 2041), await makeEra(2036, 2051)];
  const renewed = await renew(initial, 'sha512', second, SEALED_AT + 86_400_000);
  const [record, ofOther] = (await renew(renewed, 'sha384', third, yearMs(2040))).map(derOf);
  const [receipt, other] = receipts;
  if (!receipt || !other || !record || !ofOther) throw new Error('no record');
  const trust = parseTrust(trusting());
  const more = [second, third].map(({ root }, n) => ({ name: ['second', 'third'][n] ?? '', root }));
  const wide = encodeTrust({ ...trust, timestampAuthorities: [...trust.timestampAuthorities, ...more] });
  const fixture: Fixture = {
    ...{ name: 'renewed', outcome: 'good', document: DOCUMENT },
    ...{ receipt: encodeReceipt(receipt), trust: wide },
  };
  const [first = new Uint8Array(0)] = initial.map(derOf);
  return { fixture, initial: first, record, other: encodeReceipt(other), ofOther };
}

function strangers(): string {
  const { privateKey: _, ...key } = makeKey('ed25519', 'eu-1');
  const origin = 'other.example.org/log';
  const log = oneEpoch({ origin, environment: 'env_production', quorum: 1, keys: [key] });
  return encodeTrust({ timestampAuthorities: [], logs: [log] });
}

async function otherAuthority(trust: string): Promise<string> {
  const [mine, other] = [pki.root, (await makePki('ecdsa-p256')).root].map(({ der }) =>
    Buffer.from(der).toString('base64'),
  );
  return trust.replace(mine ?? '', other ?? '');
}

/** Receipts that earlier versions wrote. */
function kept(): Fixture[] {
  const read = (name: string) => readFileSync(new URL(name, VECTORS));
  const postQuantum = {
    name: 'post-quantum',
    document: read('postQuantum/document.pdf'),
    receipt: read('postQuantum/receipt.json').toString(),
    trust: read('postQuantum/trust.json').toString(),
    outcome: 'good' as const,
  };
  const archive = new URL('installations/0.1.0.tar.gz', VECTORS).pathname;
  const unpack = (member: string) => execFileSync('tar', ['-xzOf', archive, member], { encoding: 'utf8' });
  const { trust, sealed } = JSON.parse(read('receipts/2026-11-22.json').toString()) as Kept;
  const installed = JSON.parse(unpack('./told.json')) as Pick<Kept, 'sealed'>;
  return [
    postQuantum,
    ...fixturesOf('first build of 0.1.0', { trust, sealed }),
    ...fixturesOf('installation 0.1.0', { ...installed, trust: unpack('./state/trust.json') }),
  ];
}

interface Kept {
  trust: string;
  sealed: { document: string; receipt: string }[];
}

function fixturesOf(name: string, { trust, sealed }: Kept): Fixture[] {
  return sealed.map(({ document, receipt }, n) => ({
    name: `${name}, ${n + 1}`,
    document: Buffer.from(document, 'base64'),
    receipt,
    trust,
    outcome: 'good' as const,
  }));
}
