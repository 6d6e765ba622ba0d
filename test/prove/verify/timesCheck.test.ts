/** Dates that contradict each other, lie in the future, or nobody can judge any longer. */
import t from 'tap';
import { CLOCK_TOLERANCE_MS, STAMPING_TOLERANCE_MS } from '../../../src/asn1/stamping.ts';
import { encodeReceipt } from '../../../src/manifest/receipt.ts';
import { encodeTrust, type TrustFile } from '../../../src/manifest/trustFile.ts';
import { checkTimes } from '../../../src/prove/verify/timesCheck.ts';
import { createVerifier, verifyReceipt, verifyReceiptText } from '../../../src/prove/verify/verify.ts';
import { DAY_MS, HeldClock, makeAuthority, makePki } from '../../support/authority.ts';
import { makeContent, makeJob, makeKey, oneEpoch, sealJobs } from '../../support/sealing.ts';

const origin = 'seal.example.com/sandbox/2026';
const sealedAt = Date.parse('2026-03-04T05:06:07.300Z');
const key = makeKey('ed25519', 'eu-1');
const { privateKey: _, ...publicKey } = key;
const pki = await makePki();
const { document } = makeContent();
const log = oneEpoch({ origin, environment: 'env_sandbox', keys: [publicKey] });
const trust: TrustFile = { timestampAuthorities: [{ name: 'built-in', root: pki.root }], logs: [log] };

async function seal(dates: { acceptedAt?: number; stampedAt?: number } = {}) {
  const { acceptedAt = sealedAt, stampedAt } = dates;
  const [receipt] = await sealJobs({
    ...{ jobs: [makeJob('job_1')], environment: 'sandbox', origin, keys: [key], sealedAt, acceptedAt },
    ...(stampedAt !== undefined && { authority: makeAuthority([pki.unit], new HeldClock(stampedAt)) }),
  });
  if (receipt === undefined) throw new Error('nothing was sealed');
  return receipt;
}

const [unstamped, stamped] = [await seal(), await seal({ stampedAt: sealedAt })];

function open(receipt: unknown, at?: number) {
  const { outcome, checks } = verifyReceipt({ document, receipt, trust, ...(at !== undefined && { at }) });
  const left = checks.filter(({ name, outcome }) => outcome !== 'passed' && name !== 'revocation');
  return [outcome, ...left.map(({ name, code }) => `${name}: ${code}`)];
}

t.test('a receipt from the future is undecided until its date has come', async (t) => {
  for (const receipt of [unstamped, stamped]) {
    const soon = sealedAt - STAMPING_TOLERANCE_MS;
    t.strictSame(open(receipt, soon), ['good'], 'the clock of the verifier can be slow');
    t.strictSame(open(receipt, soon - 1), ['unknown', 'times: in_the_future']);
  }
  const ahead = await seal({ stampedAt: sealedAt + STAMPING_TOLERANCE_MS });
  t.strictSame(open(ahead, sealedAt - 2000), ['unknown', 'times: in_the_future'], 'its token is ahead');
});

t.test('a document that was accepted after it was sealed is undecided', async (t) => {
  const acceptedAt = sealedAt + CLOCK_TOLERANCE_MS;
  t.strictSame(open(await seal({ acceptedAt })), ['good']);
  t.strictSame(open(await seal({ acceptedAt: acceptedAt + 1 })), ['unknown', 'times: accepted_after_sealed']);
});

t.test('a cosignature before the seal, or in the future, is undecided', async (t) => {
  const seen = (at: number) => {
    const cosigned = [{ label: 'north', time: at / 1000 }];
    return checkTimes(unstamped.manifest, { stamps: [], cosigned }, sealedAt + DAY_MS);
  };
  const first = sealedAt - CLOCK_TOLERANCE_MS;
  t.match(seen(first), { outcome: 'passed', detail: /^accepted, sealed, cosigned: in this order/ });
  t.match(seen(first - 1), { outcome: 'unknown', reason: 'cosigned_before_sealed', detail: /by north/ });
  t.match(seen(sealedAt + 2 * DAY_MS), { outcome: 'unknown', reason: 'in_the_future' });
});

t.test('a manifest whose date of acceptance is not a date is undecided', async (t) => {
  const dates = { stamps: [], cosigned: [] };
  const manifest = { ...unstamped.manifest, accepted_at: 'yesterday' };
  t.match(checkTimes(manifest, dates, sealedAt), { outcome: 'unknown', reason: 'accepted_after_sealed' });
});

t.test('a receipt stays good after the certificate of its time-stamp has ended, which is said', async (t) => {
  const end = pki.certificate.notAfter;
  t.strictSame(open(stamped, end), ['good']);
  t.strictSame(open(stamped, end + 1), ['good', 'renewal: certificate_expired']);
  t.strictSame(open(unstamped, end + 1), ['good']);
  const notAfter = sealedAt + DAY_MS;
  const timestampAuthorities = trust.timestampAuthorities.map((one) => ({ ...one, notAfter }));
  const verdict = verifyReceipt({
    ...{ document, receipt: stamped, at: notAfter + 1 },
    trust: { ...trust, timestampAuthorities },
  });
  t.match(verdict, { outcome: 'good' });
  t.match(verdict.checks.at(-1), { name: 'renewal', outcome: 'not_shown' }, 'the trust in it has ended');
});

t.test('if the time is required, an expired time-stamp or none leaves the verdict open', async (t) => {
  const end = pki.certificate.notAfter;
  const outcome = (receipt: unknown, at: number) =>
    verifyReceipt({ document, receipt, trust, at, require: ['time'] }).outcome;
  t.equal(outcome(stamped, end), 'good');
  t.equal(outcome(stamped, end + 1), 'unknown');
  t.equal(outcome(unstamped, end), 'unknown');
});

t.test('a text is judged for the same time as a receipt', async (t) => {
  const at = sealedAt - STAMPING_TOLERANCE_MS;
  const outcome = (at: number) =>
    verifyReceiptText(encodeReceipt(stamped), encodeTrust(trust), document, { at }).outcome;
  t.equal(outcome(at), 'good');
  t.equal(outcome(at - 1), 'unknown');
});

t.test('a service does not judge the dates in its own store', async (t) => {
  const verify = createVerifier(trust, { judgesDates: false });
  const receipt = await seal({ acceptedAt: sealedAt + DAY_MS, stampedAt: sealedAt });
  const { outcome, checks } = verify({ document, receipt, at: 0 });
  t.equal(outcome, 'good');
  t.notOk(checks.some(({ name }) => name === 'times' || name === 'renewal'));
});
