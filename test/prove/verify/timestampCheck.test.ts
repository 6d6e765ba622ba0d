import t from 'tap';
import { parseSignedData } from '../../../src/asn1/cms.ts';
import {
  ACCURACY_MAX_MS,
  accuracyFault,
  CLOCK_TOLERANCE_MS,
  checkpointImprint,
  STAMPING_TOLERANCE_MS,
} from '../../../src/asn1/stamping.ts';
import { bytesEqual, fromBase64, toBase64 } from '../../../src/base/bytes.ts';
import { sha256 } from '../../../src/base/crypto.ts';
import type { LogKey } from '../../../src/log/verifierKey.ts';
import { encodeReceipt, type Receipt, receiptDigest } from '../../../src/manifest/receipt.ts';
import { encodeTrust, type TrustFile } from '../../../src/manifest/trustFile.ts';
import { type CheckName, isOpen } from '../../../src/prove/verify/finding.ts';
import { type Verdict, verifyReceipt, verifyReceiptText } from '../../../src/prove/verify/verify.ts';
import { issueTimestampingCertificate } from '../../../src/tsa/pki.ts';
import {
  BEGIN,
  DAY_MS,
  HeldClock,
  makeAuthority,
  makePki,
  makeToken,
  softKey,
} from '../../support/authority.ts';
import {
  makeContent,
  makeJob,
  makeKey,
  oneEpoch,
  sealJobs,
  stampCheckpoint,
  type TestKey,
} from '../../support/sealing.ts';
import { fc, tries } from '../../support/seed.ts';

const origin = 'seal.example.com/sandbox/2026';
const sealedAt = Date.parse('2026-03-04T05:06:07.300Z');
const ACCURACY_MS = 1000;
const one = makeKey('ed25519', 'eu-1');
const two = makeKey('ecdsa-p256', 'eu-2');
const [pki, remote, stranger] = [
  await makePki(),
  await makePki('rsa-3072'),
  await makePki('ecdsa-p256', 'Fremd'),
];

function authorityAt(time: number, { unit } = pki) {
  return makeAuthority([unit], new HeldClock(time, ACCURACY_MS));
}

function trustedKey({ privateKey: _, ...key }: TestKey): LogKey {
  return key;
}

const LOG = {
  origin,
  environment: 'env_sandbox',
  quorum: 2,
  keys: [trustedKey(one), trustedKey(two)],
};
const required: TrustFile = {
  timestampAuthorities: [
    { name: 'acme', root: remote.root },
    { name: 'built-in', root: pki.root },
  ],
  logs: [oneEpoch({ ...LOG, timestamps: 'required' })],
};
const optional: TrustFile = { ...required, logs: [oneEpoch(LOG)] };

/** Receipts of one batch. Batches differ by their jobs. */
async function seal(batch: string, authority = authorityAt(sealedAt + 200)): Promise<Receipt[]> {
  const jobs = Array.from({ length: 3 }, (_, n) => makeJob(`job_${batch}${n}`));
  return sealJobs({ jobs, environment: 'sandbox', origin, keys: [one, two], sealedAt, authority });
}

const batches = await Promise.all(['a', 'b', 'c'].map((batch) => seal(batch)));
const [receipt, other] = [batches[0]?.[0], batches[1]?.[0]];
if (receipt === undefined || other === undefined) throw new Error('nothing was sealed');
const { evidence } = receipt;
const { document } = makeContent();
const [stamped] = evidence.timestamps;
if (stamped === undefined) throw new Error('nothing was stamped');

/** The receipt with other evidence, and what a forger does last. */
function withEvidence(change: object, of: Receipt = receipt as Receipt): Receipt {
  const forged = { ...of, evidence: { ...of.evidence, ...change } };
  return { ...forged, receipt_sha512: receiptDigest(forged) };
}

function rfc3161(...tokens: (Uint8Array | string)[]): { timestamps: Receipt['evidence']['timestamps'] } {
  const text = (token: Uint8Array | string) => (typeof token === 'string' ? token : toBase64(token));
  return { timestamps: tokens.map((token) => ({ type: 'rfc3161', token: text(token) })) };
}

function verify(received: unknown, trust: TrustFile = required): Verdict {
  return verifyReceipt({ document, receipt: received, trust });
}

function notPassed({ checks }: Verdict): CheckName[] {
  return checks.filter(({ outcome }) => isOpen(outcome)).map(({ name }) => name);
}

function detailOf({ checks }: Verdict, name: CheckName): string | undefined {
  return checks.find((check) => check.name === name)?.detail;
}

t.test('an unchanged stamped receipt is good, with time and authority', async (t) => {
  for (const trust of [required, optional]) {
    const verdict = verifyReceiptText(encodeReceipt(receipt), encodeTrust(trust), document);
    t.equal(verdict.outcome, 'good');
    t.equal(
      detailOf(verdict, 'time-stamp'),
      'the checkpoint existed at 2026-03-04T05:06:07.500Z ± 1000 ms, says built-in (O=Muster & Söhne, OU=Time, CN=TSU 1)',
    );
    t.match(detailOf(verdict, 'epoch'), /^sealed and stamped in the epoch from 1970/);
  }
});

t.test('a token with an accuracy of minutes proves no time', async (t) => {
  const stating = async (accuracyMs: number) =>
    withEvidence(
      rfc3161(
        await makeToken(makeAuthority([pki.unit], new HeldClock(sealedAt, accuracyMs)), {
          imprint: checkpointImprint(evidence.checkpoint),
        }),
      ),
    );
  const bounded = (accuracyMaxMs: number): TrustFile => ({
    ...required,
    timestampAuthorities: required.timestampAuthorities.map((each) => ({ ...each, accuracyMaxMs })),
  });
  for (const [accuracyMs, trust, outcome] of [
    [ACCURACY_MAX_MS, required, 'good'],
    [ACCURACY_MAX_MS + 1, required, 'bad'],
    [ACCURACY_MAX_MS + 1, optional, 'bad'],
    [86_400_000, bounded(86_400_000), 'good'],
    [1000, bounded(1000), 'good'],
    [1001, bounded(1000), 'bad'],
  ] as const) {
    const text = encodeReceipt(await stating(accuracyMs));
    const verdict = verifyReceiptText(text, encodeTrust(trust), document);
    t.strictSame([verdict.outcome, notPassed(verdict)], [outcome, outcome === 'good' ? [] : ['time-stamp']]);
    if (outcome === 'bad')
      t.match(detailOf(verdict, 'time-stamp'), `states an accuracy of ${accuracyMs} ms; needed: `);
  }
  t.equal(accuracyFault({}), undefined, 'many authorities state none');
  t.match(
    accuracyFault({}, 1000),
    'states no accuracy; needed: 1000 ms or better',
    'but where one is wanted',
  );
});

const untold: CheckName[] = ['time-stamp'];
const imprint = checkpointImprint(evidence.checkpoint);
const strangers = await makeToken(authorityAt(sealedAt, stranger), { imprint });
const remotes = await makeToken(authorityAt(sealedAt, remote), { imprint });
const weak = await makeToken(authorityAt(sealedAt), {
  imprint: { algorithm: 'sha256', digest: sha256(Buffer.from(evidence.checkpoint)) },
});
const ofText = await makeToken(authorityAt(sealedAt), {
  imprint: checkpointImprint(`${evidence.checkpoint.split('\n\n')[0]}\n`),
});
const swappedLines = evidence.checkpoint.replace(/^(— .*)\n(— .*)\n$/m, '$2\n$1\n');
const reordered = await sealJobs({
  jobs: [makeJob('job_a0'), makeJob('job_a1'), makeJob('job_a2')],
  environment: 'sandbox',
  origin,
  keys: [two, one],
  sealedAt,
});

/** What the evidence is changed to, the outcome where time-stamps are required, and the checks that must not pass. */
const changes: Record<string, [object, Verdict['outcome'], CheckName[]]> = {
  'a token of another authority that is trusted': [rfc3161(remotes), 'good', []],
  'two tokens, both good': [rfc3161(stamped.token, remotes), 'good', []],
  'a certificate more than needed': [
    { certificates: [...evidence.certificates, toBase64(stranger.root.der), 'AA=='] },
    'good',
    [],
  ],
  'no token': [{ timestamps: [], certificates: [] }, 'bad', ['time-stamp']],
  'certificates, but no token': [{ timestamps: [] }, 'bad', ['time-stamp']],
  'the token of another batch': [{ timestamps: other.evidence.timestamps }, 'bad', untold],
  'the token of another batch beside the right one': [
    { timestamps: [...evidence.timestamps, ...other.evidence.timestamps] },
    'bad',
    untold,
  ],
  'a token of a stranger': [rfc3161(strangers), 'unknown', untold],
  'a token of a stranger beside the right one': [rfc3161(stamped.token, strangers), 'unknown', untold],
  'a stranger’s token, root and all': [
    { ...rfc3161(strangers), certificates: [toBase64(stranger.root.der)] },
    'unknown',
    untold,
  ],
  'a token over a shorter digest of the same checkpoint': [rfc3161(weak), 'bad', untold],
  'a token over the checkpoint without its signatures': [rfc3161(ofText), 'bad', untold],
  'the same signatures in another order': [{ checkpoint: swappedLines }, 'bad', untold],
  'no certificates': [{ certificates: [] }, 'bad', untold],
  'a certificate that is no Base64': [{ certificates: [...evidence.certificates, '*'] }, 'bad', untold],
  'a token that is no Base64': [rfc3161(`${stamped.token}*`), 'bad', untold],
  'an empty token': [rfc3161(''), 'bad', untold],
  'a certificate in the place of a token': [rfc3161(pki.root.der), 'bad', untold],
  'more tokens than there can be': [{ timestamps: Array(5).fill(stamped) }, 'bad', ['receipt']],
  'more certificates than there can be': [{ certificates: Array(33).fill('AA==') }, 'bad', ['receipt']],
};
for (const [name, [change, outcome, checks]] of Object.entries(changes)) {
  t.test(`evidence: ${name}`, async (t) => {
    const verdict = verify(withEvidence(change));
    t.strictSame([verdict.outcome, notPassed(verdict)], [outcome, checks], verdict);
    if (name !== 'no token')
      t.equal(verify(withEvidence(change), optional).outcome, outcome, 'where none is required, too');
  });
}

t.test('without a required token, sealed_at is the service’s own statement', async (t) => {
  const [unstamped] = reordered;
  t.equal(verify(unstamped, optional).outcome, 'good');
  t.equal(verify(unstamped).outcome, 'bad');
  t.match(detailOf(verify(unstamped, optional), 'time-stamp'), /own word/);
});

t.test('an authority counts only while the trust file names it', async (t) => {
  const nobody = { ...optional, timestampAuthorities: [] };
  t.equal(verify(receipt, nobody).outcome, 'unknown');
  t.match(detailOf(verify(receipt, nobody), 'time-stamp'), /^the trust file does not know who stamped it: /);
  const pinned = [{ name: 'unit', root: pki.certificate }];
  t.equal(verify(receipt, { ...required, timestampAuthorities: pinned }).outcome, 'good');
});

t.test('sealed_at must be within the time of the token, to the millisecond', async (t) => {
  const reach = ACCURACY_MS + STAMPING_TOLERANCE_MS;
  const before = ACCURACY_MS + CLOCK_TOLERANCE_MS;
  for (const [distance, outcome] of [
    [reach, 'good'],
    [-before, 'good'],
    [-before - 1, 'unknown'],
    [-reach, 'unknown'],
    [reach + 1, 'bad'],
    [-reach - 1, 'bad'],
  ] as const) {
    const [received] = await seal('a', authorityAt(sealedAt + distance));
    const verdict = verify(received);
    t.equal(verdict.outcome, outcome, `${distance}`);
    if (outcome === 'unknown')
      t.match(
        verdict.checks.filter((check) => check.outcome === 'unknown'),
        [{ name: 'times', code: 'stamped_before_sealed' }],
      );
    if (outcome === 'bad') {
      t.strictSame(notPassed(verdict), untold);
      t.match(detailOf(verdict, 'time-stamp'), /more than 10 minutes from sealed_at$/);
    }
  }
});

t.test('certificates are judged at the time of the token, not of reading', async (t) => {
  const key = softKey('ecdsa-p256');
  const certificate = await issueTimestampingCertificate(
    {
      subject: { commonName: 'for a day' },
      key: key.key,
      issuer: pki.root,
      notBefore: BEGIN,
      notAfter: BEGIN + DAY_MS,
    },
    pki.rootKey,
  );
  const brief = { ...pki, unit: { signer: { ...key, ready: true }, chain: [certificate, pki.root] } };
  const options = { jobs: [makeJob('job_1')], environment: 'sandbox', origin, keys: [one, two] } as const;
  const authority = authorityAt(BEGIN + 1000, brief);
  const [old] = await sealJobs({ ...options, sealedAt: BEGIN + 1000, authority });
  t.equal(verify(old).outcome, 'good', 'years later');
  const expired = makeAuthority(
    [{ ...brief.unit, chain: [{ ...certificate, notAfter: Infinity }, pki.root] }],
    {
      time: BEGIN + 2 * DAY_MS,
      accuracyMs: ACCURACY_MS,
      trusted: true,
      now: () => BEGIN + 2 * DAY_MS,
    },
  );
  const [late] = await sealJobs({ ...options, sealedAt: BEGIN + 2 * DAY_MS, authority: expired });
  t.strictSame([verify(late).outcome, notPassed(verify(late))], ['bad', untold]);
  t.match(detailOf(verify(late), 'time-stamp'), /CN=for a day is not valid at 2026-01-03/);
});

t.test('foreign text is escaped for the terminal', async (t) => {
  const key = softKey('ecdsa-p256');
  const certificate = await issueTimestampingCertificate(
    {
      subject: { commonName: 'good\u202e\u0007\u2028' },
      key: key.key,
      issuer: stranger.root,
      notBefore: BEGIN,
      notAfter: BEGIN + DAY_MS * 100,
    },
    stranger.rootKey,
  );
  const nasty = {
    ...stranger,
    unit: { signer: { ...key, ready: true }, chain: [certificate, stranger.root] },
  };
  const timestamp = await stampCheckpoint(authorityAt(sealedAt, nasty), evidence.checkpoint);
  const verdict = verify(withEvidence({ ...rfc3161(timestamp.token), certificates: timestamp.certificates }));
  t.equal(verdict.outcome, 'unknown');
  t.match(detailOf(verdict, 'time-stamp'), /CN=good/);
  for (const { detail } of verdict.checks) t.notMatch(detail, /[\p{C}\u2028]/u);
});

t.test('evidence of different batches does not pass together', async (t) => {
  const receipts = batches.flat();
  const some = fc.constantFrom(...receipts);
  t.doesNotThrow(() =>
    fc.assert(
      fc.property(some, some, some, some, (base, stamp, certificates, log) => {
        const { timestamps } = stamp.evidence;
        const { checkpoint, tree_size } = log.evidence;
        const forged = withEvidence(
          { timestamps, certificates: certificates.evidence.certificates, checkpoint, tree_size },
          base,
        );
        const sameBatch = [stamp, log].every(
          ({ evidence }) => evidence.checkpoint === base.evidence.checkpoint,
        );
        return (verify(forged).outcome === 'good') === sameBatch;
      }),
      { numRuns: tries(1000) },
    ),
  );
});

t.test('a token with any change in its signed part does not pass, and never throws', async (t) => {
  const der = fromBase64(stamped.token);
  if (der === undefined) throw new Error('not Base64');
  const { content, signer } = parseSignedData(der);
  const change = fc.record({
    at: fc.nat(der.length - 1),
    drop: fc.integer({ min: 0, max: 3 }),
    put: fc.uint8Array({ maxLength: 3 }),
  });
  const unchanged = { at: 0, drop: 0, put: new Uint8Array() };
  let passed = 0;
  t.doesNotThrow(() =>
    fc.assert(
      fc.property(change, ({ at, drop, put }) => {
        const mutated = Buffer.concat([der.subarray(0, at), put, der.subarray(at + drop)]);
        const verdict = verify(withEvidence(rfc3161(mutated)));
        if (verdict.outcome !== 'good') return true;
        passed += 1;
        const read = parseSignedData(mutated);
        return bytesEqual(read.content, content) && bytesEqual(read.signer.signedBytes, signer.signedBytes);
      }),
      { numRuns: tries(10_000), examples: [[unchanged]] },
    ),
  );
  t.ok(passed > 0, 'what is not changed at all passes');
});

t.test('a changed certificate does not pass', async (t) => {
  const [first = ''] = evidence.certificates;
  const der = fromBase64(first);
  if (der === undefined) throw new Error('not Base64');
  t.doesNotThrow(() =>
    fc.assert(
      fc.property(fc.nat(der.length - 1), fc.integer({ min: 1, max: 255 }), (at, mask) => {
        const mutated = Buffer.from(der);
        mutated.writeUInt8(mutated.readUInt8(at) ^ mask, at);
        return verify(withEvidence({ certificates: [toBase64(mutated)] })).outcome === 'bad';
      }),
      { numRuns: tries(1000) },
    ),
  );
});
