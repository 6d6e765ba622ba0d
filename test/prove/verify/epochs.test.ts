import t from 'tap';
import { encodeReceipt, type Receipt } from '../../../src/manifest/receipt.ts';
import { encodeTrust, type TrustedEpoch, type TrustFile } from '../../../src/manifest/trustFile.ts';
import { type CheckName, isOpen } from '../../../src/prove/verify/finding.ts';
import {
  createVerifier,
  type Verdict,
  verifyReceipt,
  verifyReceiptText,
} from '../../../src/prove/verify/verify.ts';
import { HeldClock, makeAuthority, makePki } from '../../support/authority.ts';
import { makeContent, makeJob, makeKey, sealJobs, type TestKey } from '../../support/sealing.ts';

const origin = 'seal.example.com/production';
const pki = await makePki();
const { document } = makeContent();

/** Two keys in Europe, one of them in two places, and one elsewhere; then others. */
const [eu, euTwo, us] = [makeKey('ed25519', 'eu'), makeKey('ed25519', 'eu'), makeKey('ecdsa-p256', 'us')];
const [newEu, newUs] = [makeKey('ed25519', 'eu'), makeKey('ed25519', 'us')];

/** The last millisecond of the first epoch, and the first of the second. */
const LAST = Date.parse('2026-06-30T23:59:59.999Z');
const SWITCH = LAST + 1;
const BEGIN = Date.parse('2026-03-01T00:00:00.000Z');

function publicKeys(...keys: TestKey[]) {
  return keys.map(({ privateKey: _, ...key }) => key);
}

const first: TrustedEpoch = {
  notBefore: BEGIN,
  notAfter: LAST,
  quorum: { needed: 1 },
  timestamps: 'none',
  keys: publicKeys(eu, euTwo, us),
};
const second: TrustedEpoch = {
  notBefore: SWITCH,
  quorum: { needed: 2, regions: ['eu', 'us'] },
  timestamps: 'required',
  keys: publicKeys(newEu, newUs, euTwo),
};

function trusting(...epochs: TrustedEpoch[]): TrustFile {
  return {
    timestampAuthorities: [{ name: 'built-in', root: pki.root }],
    logs: [{ origin, environment: 'env_production', epochs }],
  };
}

const trust = trusting(first, second);

async function seal(
  keys: readonly [TestKey, ...TestKey[]],
  sealedAt: number,
  stampedAt?: number,
): Promise<Receipt> {
  const authority = stampedAt === undefined ? undefined : makeAuthority([pki.unit], new HeldClock(stampedAt));
  const [receipt] = await sealJobs({
    jobs: [makeJob('job_1'), makeJob('job_2')],
    environment: 'production',
    origin,
    keys,
    sealedAt,
    ...(authority && { authority }),
  });
  if (receipt === undefined) throw new Error('nothing was sealed');
  return receipt;
}

function notPassed({ checks }: Verdict): CheckName[] {
  return checks.filter(({ outcome }) => isOpen(outcome)).map(({ name }) => name);
}

function detailOf({ checks }: Verdict, name: CheckName): string {
  return checks.find((check) => check.name === name)?.detail ?? '';
}

t.test('receipts of both epochs verify with one trust file, each by its own rule', async (t) => {
  for (const receipt of [
    await seal([us], BEGIN),
    await seal([eu, euTwo, us], LAST),
    await seal([eu], LAST, LAST),
    await seal([newEu, newUs], SWITCH, SWITCH),
    await seal([newUs, euTwo], SWITCH + 1, SWITCH + 500),
  ]) {
    const verdict = verifyReceiptText(encodeReceipt(receipt), encodeTrust(trust), document);
    t.strictSame([verdict.outcome, notPassed(verdict)], ['good', []], verdict);
  }
});

/** Who signs, when, and when it is stamped; the checks that must not pass. */
const wrong: Record<string, [readonly [TestKey, ...TestKey[]], number, number | undefined, CheckName[]]> = {
  'an old key, after its epoch': [[eu, us], SWITCH, SWITCH, ['quorum']],
  'a new key, before its epoch': [[newEu, newUs], LAST, LAST, ['quorum']],
  'an old key beside one of the new': [[newEu, us], SWITCH, SWITCH, ['quorum']],
  'too few regions, though enough keys': [[newEu, euTwo], SWITCH, SWITCH, ['quorum']],
  'without the time-stamp that the epoch requires': [[newEu, newUs], SWITCH, undefined, ['time-stamp']],
  'sealed in one epoch, stamped in the next': [[eu], LAST, SWITCH, ['epoch']],
  'sealed in one epoch, stamped in the one before': [[newEu, newUs], SWITCH, LAST, ['epoch']],
  'sealed before the log was': [[eu], BEGIN - 1, BEGIN - 1, ['quorum', 'epoch']],
  'stamped before the log was': [[eu], BEGIN, BEGIN - 1, ['epoch']],
};
for (const [name, [keys, sealedAt, stampedAt, checks]] of Object.entries(wrong)) {
  t.test(`refused: ${name}`, async (t) => {
    const verdict = verifyReceipt({ document, receipt: await seal(keys, sealedAt, stampedAt), trust });
    t.strictSame([verdict.outcome, notPassed(verdict)], ['bad', checks], verdict);
  });
}

t.test(
  'a failing check says who signed, what is needed, and which keys were out of their time',
  async (t) => {
    const verdict = verifyReceipt({ document, receipt: await seal([newEu, us], SWITCH, SWITCH), trust });
    t.equal(
      detailOf(verdict, 'quorum'),
      'signed by 1 key (regions: eu); needed: 2 of eu, us; us/log signed, but not in an epoch of that key',
    );
    const straddling = verifyReceipt({ document, receipt: await seal([eu], LAST, SWITCH), trust });
    t.equal(
      detailOf(straddling, 'epoch'),
      'sealed in the epoch from 2026-03-01T00:00:00.000Z to 2026-06-30T23:59:59.999Z, but stamped outside of it, at 2026-07-01T00:00:00.000Z',
    );
  },
);

t.test('an epoch that was ended early covers nothing after its end', async (t) => {
  const ended = trusting({ ...first, notAfter: BEGIN + 1000 }, second);
  const verify = async (sealedAt: number) =>
    notPassed(verifyReceipt({ document, receipt: await seal([eu], sealedAt), trust: ended }));
  t.strictSame(await verify(BEGIN + 1000), []);
  t.strictSame(await verify(BEGIN + 1001), ['quorum', 'time-stamp', 'epoch']);
});

t.test('an older trust file cannot judge a receipt of a later epoch', async (t) => {
  const older = trusting({ ...first, notAfter: SWITCH + 1_000_000_000 });
  const { notAfter: _, ...open } = first;
  const outdated = trusting(open);
  const later = await seal([newEu, newUs], SWITCH, SWITCH);
  for (const trust of [older, outdated]) {
    const verdict = verifyReceipt({ document, receipt: later, trust });
    t.strictSame([verdict.outcome, notPassed(verdict)], ['unknown', ['quorum', 'epoch']]);
    t.match(verdict.checks.find(({ name }) => name === 'epoch')?.code, 'epoch_unknown');
    t.match(detailOf(verdict, 'epoch'), /get a newer trust file/);
  }
  t.equal(verifyReceipt({ document, receipt: later, trust }).outcome, 'good', 'with the newer one');
  const retained = await seal([euTwo, newUs], SWITCH, SWITCH);
  const two = trusting({ ...open, quorum: { needed: 2 } });
  t.equal(verifyReceipt({ document, receipt: retained, trust: two }).outcome, 'unknown', 'one key is kept');
});

t.test('what no later epoch explains stays bad', async (t) => {
  const { notAfter: _, ...open } = first;
  const outcome = async (keys: readonly [TestKey, ...TestKey[]], at: number, trust: TrustFile) => {
    const verdict = verifyReceipt({ document, receipt: await seal(keys, at, at), trust });
    t.match(
      verdict.checks.find(({ name }) => name === 'quorum'),
      { code: 'below_quorum' },
    );
    return verdict.outcome;
  };
  t.equal(await outcome([eu], SWITCH, trusting({ ...open, quorum: { needed: 2 } })), 'bad', 'too few');
  t.equal(await outcome([newEu, newUs], LAST, trust), 'bad', 'the next epoch had not begun');
});

t.test('an authority counts only within its time', async (t) => {
  const receipt = await seal([eu], LAST, LAST);
  for (const [validity, checks] of [
    [{ notBefore: LAST, notAfter: LAST }, []],
    [{ notAfter: LAST - 1 }, ['time-stamp']],
    [{ notBefore: LAST + 1 }, ['time-stamp']],
  ] as const) {
    const timestampAuthorities = [{ name: 'built-in', root: pki.root, ...validity }];
    const verdict = verifyReceipt({ document, receipt, trust: { ...trust, timestampAuthorities } });
    t.strictSame([verdict.outcome, notPassed(verdict)], [checks.length === 0 ? 'good' : 'bad', checks]);
  }
  const again = [
    { name: 'built-in', root: pki.root, notAfter: BEGIN },
    { name: 'built-in', root: pki.root, notBefore: LAST },
  ];
  t.equal(
    verifyReceipt({ document, receipt, trust: { ...trust, timestampAuthorities: again } }).outcome,
    'good',
  );
});

t.test('what the receipts of a batch share is checked once, and not reused for another batch', async (t) => {
  const verify = createVerifier(trust);
  const outcomes = async (...receipts: Receipt[]) =>
    receipts.map((receipt) => verify({ document, receipt }).outcome);
  const good = await seal([eu], LAST, LAST);
  const bad = await seal([newEu], LAST, LAST);
  const late = { ...good, sealed_at: new Date(SWITCH).toISOString() };
  t.strictSame(await outcomes(good, good, bad, late, good), ['good', 'good', 'bad', 'bad', 'good']);
});
