/** What is presented as a fact is no more than the checks prove. */
import t from 'tap';
import { claimedDigests, provenBy } from '../../../src/prove/verify/proven.ts';
import { verifyReceiptText } from '../../../src/prove/verify/verify.ts';
import { digestsOf, makeFixtures, ORIGIN, SEALED_AT } from '../../support/receipts.ts';

const fixtures = await makeFixtures();

function provenOf(name: string) {
  const fixture = fixtures.find((one) => one.name === name);
  if (fixture === undefined) throw new Error(`no ${name}`);
  const { receipt, trust, document } = fixture;
  return provenBy(receipt, trust, verifyReceiptText(receipt, trust, digestsOf(document)));
}

t.test('every fixture has its verdict, and facts if the log signed them', async (t) => {
  const without = [];
  for (const { name, receipt, trust, document, outcome } of fixtures) {
    const verdict = verifyReceiptText(receipt, trust, digestsOf(document));
    t.equal(verdict.outcome, outcome, name);
    const proven = provenBy(receipt, trust, verdict);
    if (proven === undefined) without.push(name);
    else t.ok(claimedDigests(receipt).includes(proven.statement.document.sha256), name);
  }
  t.strictSame(without, [
    'time-stamp missing',
    'altered',
    'forged',
    'too few',
    'other environment',
    'no receipt',
    'newer',
    'other log',
    'no trust file',
  ]);
});

t.test('the statement, the signers and the time are shown', async (t) => {
  t.match(provenOf('good'), {
    statement: {
      jobId: 'job_01a20125',
      environment: 'env_production',
      source: 'upload',
      reference: 'Contract 2026/117 – Müller & Söhne',
      purpose: 'signed contract',
      visibility: 'organization',
      scan: { verdict: 'clean', engine: 'ClamAV 1.4.3', signatures: '27830' },
    },
    origin: ORIGIN,
    treeSize: 3,
    leafIndex: 0,
    keys: [{ region: 'eu-1' }, { region: 'us-1', software: true }],
    quorum: { needed: 2 },
    time: { stamps: [{ name: 'built-in', timestamp: { genTime: SEALED_AT } }] },
    witnesses: [],
  });
  t.match(provenOf('copy'), { statement: { copy: { bytes: 36 } } });
  t.match(provenOf('no time-stamp'), { time: { stamps: [] } });
  t.match(provenOf('witnessed'), { witnesses: [{ label: 'auditor', time: SEALED_AT / 1000 + 30 }] });
});

t.test('the time is not a fact unless an authority confirms it', async (t) => {
  for (const name of ['proof', 'other authority']) {
    const proven = provenOf(name);
    t.match(proven, { origin: ORIGIN }, name);
    t.equal(proven?.time, undefined, name);
  }
});

t.test(
  'another document, or a receipt that contradicts its manifest, does not change the facts',
  async (t) => {
    t.match(provenOf('other document'), { statement: { document: { bytes: 28 } } });
    t.match(provenOf('other reference'), { statement: { reference: /^Contract/ } });
    t.match(provenOf('canary'), { statement: { source: 'canary' } });
  },
);

t.test('an unreadable text claims no digests', async (t) => {
  for (const text of ['', '{}', 'c2sp.org/tlog-proof@v1\n', '{"receipt_sha512": ""}'])
    t.strictSame(claimedDigests(text), [], text);
});
