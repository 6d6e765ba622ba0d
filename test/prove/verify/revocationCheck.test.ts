/** What the lists of revoked certificates leave of a time-stamp (RFC 3161, section 4). */
import t from 'tap';
import type { RevocationTerms } from '../../../src/asn1/issue.ts';
import type { Revocation, RevocationReason } from '../../../src/asn1/revocationList.ts';
import { fromBase64 } from '../../../src/base/bytes.ts';
import { openCheckpoint } from '../../../src/log/signedCheckpoint.ts';
import { encodeTlogProof } from '../../../src/log/tlogProof.ts';
import { assembleBundle } from '../../../src/manifest/bundle.ts';
import { encodeReceipt, type Receipt, receiptDigest } from '../../../src/manifest/receipt.ts';
import { encodeTrust, type TrustFile } from '../../../src/manifest/trustFile.ts';
import { whyNotThere } from '../../../src/prove/trail/following.ts';
import { provenBy } from '../../../src/prove/verify/proven.ts';
import { createVerifier, type TextOptions, verifyReceiptText } from '../../../src/prove/verify/verify.ts';
import { issueRevocationList } from '../../../src/tsa/pki.ts';
import { DAY_MS, HeldClock, makeAuthority, makePki, type Pki } from '../../support/authority.ts';
import { derOf, type Era, makeEra, renew } from '../../support/evidence.ts';
import { makeContent, makeJob, makeKey, oneEpoch, sealJobs, stampCheckpoint } from '../../support/sealing.ts';

const origin = 'seal.example.com/sandbox/2026';
const sealedAt = Date.parse('2026-03-04T05:06:07.000Z');
const key = makeKey('ed25519', 'eu-1');
const { privateKey: _, ...publicKey } = key;
const { document } = makeContent();
const [pki, acme, stranger] = [await makePki(), await makePki('ecdsa-p256', 'Acme'), await makePki()];
const byPki = makeAuthority([pki.unit], new HeldClock(sealedAt));
const [receipt] = await sealJobs({
  ...{ jobs: [makeJob('job_1')], environment: 'sandbox', origin, keys: [key], sealedAt },
  authority: byPki,
});
if (receipt === undefined) throw new Error('nothing was sealed');
const { evidence } = receipt;

const trust: TrustFile = {
  timestampAuthorities: [
    { name: 'built-in', root: pki.root },
    { name: 'acme', root: acme.root },
  ],
  logs: [oneEpoch({ origin, environment: 'env_sandbox', keys: [publicKey] })],
};

function listOf({ root, rootKey }: Pki, terms: Partial<RevocationTerms> = {}) {
  const thisUpdate = terms.thisUpdate ?? sealedAt + DAY_MS;
  const nextUpdate = thisUpdate + 30 * DAY_MS;
  return issueRevocationList(
    { issuer: root, number: 1, revoked: [], ...terms, thisUpdate, nextUpdate },
    rootKey,
  );
}

/** A list of a month later, on which the unit is. */
function revoking(reason: RevocationReason | undefined, days: number, sinceDays?: number, of = pki) {
  const entry: Revocation = {
    serial: of.certificate.serial,
    revokedAt: sealedAt + days * DAY_MS,
    ...(reason && { reason }),
    ...(sinceDays !== undefined && { invalidSince: sealedAt + sinceDays * DAY_MS }),
  };
  return listOf(of, { thisUpdate: sealedAt + 30 * DAY_MS, number: 2, revoked: [entry] });
}

type Lists = NonNullable<TrustFile['revocationLists']>;

function bundleOf(revocationLists: Lists): object {
  const { leaf_index: index, checkpoint } = evidence;
  const proof = evidence.inclusion_proof.map((hash) => fromBase64(hash) ?? new Uint8Array(0));
  const tlogProof = encodeTlogProof({ index, proof, checkpoint });
  return assembleBundle({ receipt: receipt as Receipt, tlogProof, revocationLists });
}

function judge(revocationLists: Lists, options: TextOptions = {}, one: object = receipt as Receipt) {
  const text = encodeTrust({ ...trust, ...(revocationLists.length > 0 && { revocationLists }) });
  const at = sealedAt + 60 * DAY_MS;
  const verdict = verifyReceiptText(encodeReceipt(one), text, document, { at, ...options });
  const line = verdict.checks.find(({ name }) => name === 'revocation');
  return {
    ...{ outcome: verdict.outcome, code: line?.code, line: line?.outcome, detail: line?.detail ?? '' },
    time: provenBy(encodeReceipt(one), text, verdict)?.time,
    names: verdict.checks.map(({ name }) => name),
  };
}

t.test('without a list, or with one that is older than the time-stamp, it is not shown', async (t) => {
  t.match(judge([]), {
    ...{ outcome: 'good', line: 'not_shown', code: 'revocation_not_shown' },
    detail: 'there is no revocation list of its issuer',
  });
  t.match(judge([await listOf(pki, { thisUpdate: sealedAt - 1000 })]), {
    ...{ outcome: 'good', code: 'revocation_not_shown' },
    detail: 'the revocation list of its issuer is older, of 2026-03-04T05:06:06.000Z',
  });
  t.equal(judge([], { require: ['time'] }).outcome, 'good', 'other authorities publish no list here');
  t.match(judge([await listOf(acme)]), { code: 'revocation_not_shown' }, 'a list of another root');
});

t.test('a list that is as young as the time-stamp shows that it was not revoked', async (t) => {
  t.match(judge([await listOf(pki, { thisUpdate: sealedAt })]), {
    ...{ outcome: 'good', line: 'passed', code: 'revocation_passed' },
    detail: 'not revoked, as of 2026-03-04T05:06:07.000Z',
  });
});

t.test('a harmless revocation leaves what was stamped before it', async (t) => {
  for (const reason of ['unspecified', 'affiliationChanged', 'superseded', 'cessationOfOperation'] as const) {
    t.match(judge([await revoking(reason, 10)]), {
      ...{ outcome: 'good', line: 'passed', code: 'revoked_since' },
      detail: new RegExp(
        `CN=TSU 1 was revoked at 2026-03-14T05:06:07.000Z \\(${reason}\\), after the time-stamp`,
      ),
      time: { stamps: { length: 1 } },
    });
    t.match(judge([await revoking(reason, 0)]), { outcome: 'unknown', code: 'revoked' }, 'and nothing later');
    t.match(judge([await revoking(reason, 10, -1)]), { outcome: 'unknown', code: 'revoked' });
  }
});

t.test('with a compromised key or without a reason, the time-stamp shows no time', async (t) => {
  for (const reason of [
    undefined,
    'keyCompromise',
    'cACompromise',
    'certificateHold',
    'privilegeWithdrawn',
    'aACompromise',
  ] as const)
    t.match(judge([await revoking(reason, 10, 5)]), {
      ...{ outcome: 'unknown', line: 'unknown', code: 'revoked' },
      detail: /invalid since 2026-03-09T.*: this does not show the time$/,
      time: undefined,
    });
});

t.test('an entry of any list counts, and the newest list says what is not revoked', async (t) => {
  const [old, clean] = [
    await revoking('keyCompromise', 10),
    await listOf(pki, { number: 3, thisUpdate: sealedAt + 40 * DAY_MS }),
  ];
  t.equal(judge([old, clean]).code, 'revoked');
  t.equal(judge([clean, old]).code, 'revoked');
  const earlier = await listOf(pki, { thisUpdate: sealedAt + DAY_MS });
  t.match(judge([earlier, clean]).detail, 'as of 2026-04-13');
  t.match(judge([clean, earlier]).detail, 'as of 2026-04-13');
});

t.test('a list that somebody brings counts only if a trusted root signed it', async (t) => {
  const judgeBundle = (revocationLists: Lists) => judge([], {}, bundleOf(revocationLists)).code;
  t.equal(judgeBundle([await revoking('keyCompromise', 10)]), 'revoked');
  t.equal(judgeBundle([await listOf(pki)]), 'revocation_passed');
  const forged = await listOf({
    ...stranger,
    root: { ...stranger.root, subjectKeyIdentifier: pki.root.subjectKeyIdentifier },
  });
  t.equal(judgeBundle([forged]), 'revocation_not_shown');
  t.throws(() => judge([forged]), { message: /revocation_lists\.0: is signed by none of the roots/ });
});

t.test('a second time-stamp of another authority keeps the time', async (t) => {
  const other = await stampCheckpoint(
    makeAuthority([acme.unit], new HeldClock(sealedAt + 1000)),
    evidence.checkpoint,
  );
  const two = {
    ...receipt,
    evidence: {
      ...evidence,
      timestamps: [...evidence.timestamps, { type: 'rfc3161' as const, token: other.token }],
      certificates: [...evidence.certificates, ...other.certificates],
    },
  };
  const both = { ...two, receipt_sha512: receiptDigest(two) };
  const stolen = await revoking('keyCompromise', 10);
  t.match(judge([stolen], {}, both), {
    ...{ outcome: 'good', code: 'revocation_not_shown' },
    detail: /^built-in: .*; acme: there is no revocation list/,
    time: { stamps: [{ name: 'acme' }] },
  });
  t.equal(judge([stolen], {}, both).time?.stamps.length, 1, 'the time is not said to be from the stolen key');
  t.match(judge([stolen, await listOf(acme)], {}, both), { outcome: 'good', code: 'revocation_passed' });
  const alsoStolen = await revoking('keyCompromise', 10, undefined, acme);
  t.match(judge([stolen, alsoStolen], {}, both), { outcome: 'unknown', code: 'revoked' });
});

t.test('the line is there only with a verified time-stamp, and not for a service itself', async (t) => {
  const [plain] = await sealJobs({
    ...{ jobs: [makeJob('job_2')], environment: 'sandbox', origin, keys: [key], sealedAt },
  });
  t.notOk(judge([], {}, plain).names.includes('revocation'));
  const revocationLists = [await revoking('keyCompromise', 10)];
  const verify = createVerifier({ ...trust, revocationLists }, { judgesDates: false });
  const { outcome, checks } = verify({ document, receipt });
  t.equal(outcome, 'good');
  t.notOk(checks.some(({ name }) => name === 'revocation'));
});

t.test('a follower of the log does not take a revoked time-stamp for another log', async (t) => {
  const now = openCheckpoint(evidence.checkpoint)?.checkpoint;
  if (now === undefined) throw new Error('no checkpoint');
  const revoked = { ...trust, revocationLists: [await revoking('keyCompromise', 10)] };
  t.equal(await whyNotThere(receipt, now, revoked, async () => undefined), undefined);
});

t.test('a renewal by another key before the theft keeps the time', async (t) => {
  const chains = [[{ token: fromBase64(evidence.timestamps[0]?.token ?? '') ?? new Uint8Array(0) }]];
  const certificates = evidence.certificates.map((one) => fromBase64(one) ?? new Uint8Array(0));
  const item = {
    data: Buffer.from(evidence.checkpoint),
    record: { digests: ['sha512' as const], certificates, chains },
  };
  const era = await makeEra(2026, 2040);
  const unitOfPki: Era = { ...era, authority: makeAuthority([pki.unit], era.clock) };
  const recordBy = async (by: Era, days: number) => {
    const [renewed] = await renew([item], 'sha512', by, sealedAt + days * DAY_MS);
    if (renewed === undefined) throw new Error('nothing was renewed');
    return derOf(renewed);
  };
  const timestampAuthorities = [...trust.timestampAuthorities, { name: 'later', root: era.root }];
  const judged = (revocationLists: Lists, record: Uint8Array, at = sealedAt + 60 * DAY_MS) => {
    const text = encodeTrust({ ...trust, timestampAuthorities, revocationLists });
    const verdict = verifyReceiptText(encodeReceipt(receipt), text, document, { at, record });
    const lines = verdict.checks.filter(({ name }) => name === 'revocation');
    t.equal(lines.length, 1);
    return { outcome: verdict.outcome, code: lines[0]?.code, detail: lines[0]?.detail };
  };
  const stolen = await revoking('keyCompromise', 10, 5);
  t.match(judged([stolen], await recordBy(era, 4)), {
    ...{ outcome: 'good', code: 'revoked_since' },
    detail: /another key renewed the time-stamp before, at 2026-03-08T05:06:07\.000Z/,
  });
  t.match(judged([stolen], await recordBy(era, 5)), { outcome: 'unknown', code: 'revoked' }, 'not before');
  t.match(
    judged([stolen], await recordBy(unitOfPki, 4)),
    { outcome: 'unknown', code: 'revoked' },
    'same key',
  );

  const ended = pki.certificate.notAfter + DAY_MS;
  t.match(judged([await listOf(pki)], await recordBy(era, 4), ended), {
    ...{ outcome: 'good', code: 'revocation_not_shown' },
    detail: 'there is no revocation list of its issuer',
  });
  t.match(
    judged([await listOf(pki)], await recordBy(era, 4)),
    { outcome: 'good', code: 'revocation_passed' },
    'while the time-stamp of the receipt holds, it is enough',
  );
});
