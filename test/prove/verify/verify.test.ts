import { isDeepStrictEqual } from 'node:util';
import t from 'tap';
import { encodeCheckpoint, parseCheckpoint } from '../../../src/log/checkpoint.ts';
import { parseNote } from '../../../src/log/note.ts';
import type { LogKey } from '../../../src/log/verifierKey.ts';
import { encodeReceipt, type Receipt, receiptDigest } from '../../../src/manifest/receipt.ts';
import { encodeTrust, type TrustedEpoch, type TrustFile } from '../../../src/manifest/trustFile.ts';
import type { CheckName } from '../../../src/prove/verify/finding.ts';
import { RECEIPT_LENGTH_MAX } from '../../../src/prove/verify/receiptText.ts';
import { type Verdict, verifyReceipt, verifyReceiptText } from '../../../src/prove/verify/verify.ts';
import { makeJob, makeKey, oneEpoch, sealJobs, signNote, type TestKey } from '../../support/sealing.ts';
import { fc, tries } from '../../support/seed.ts';

const origin = 'seal.example.com/sandbox/2026';
const sealedAt = Date.parse('2026-03-04T05:06:07.300Z');
const one = makeKey('ed25519', 'eu-1');
const two = makeKey('ecdsa-p256', 'eu-2');
const stranger = makeKey('ed25519', 'eu-1');
const job = makeJob('job_1', { customerReference: 'order ñ 7', purpose: 'invoices' });
const document = job.content.document;
const others = Array.from({ length: 6 }, (_, i) => makeJob(`job_x${i}`));

function trustedKey({ privateKey: _, ...key }: TestKey): LogKey {
  return key;
}

function trusting(
  keys: LogKey[],
  quorum: number,
  change: Partial<Omit<TrustedEpoch, 'quorum'>> = {},
): TrustFile {
  return {
    timestampAuthorities: [],
    logs: [oneEpoch({ origin, environment: 'env_sandbox', quorum, keys, ...change })],
  };
}

async function seal(
  keys: readonly [TestKey, ...TestKey[]],
  log = origin,
  environment = 'sandbox',
): Promise<Receipt> {
  const [receipt] = await sealJobs({ jobs: [job, ...others], environment, origin: log, keys, sealedAt });
  if (receipt === undefined) throw new Error('nothing was sealed');
  return receipt;
}

/** What a forger does last: receipt_sha512 is no secret. */
function finish(receipt: object): object {
  return { ...receipt, receipt_sha512: receiptDigest(receipt) };
}

function notPassed({ checks }: Verdict): CheckName[] {
  return checks.filter(({ outcome }) => outcome !== 'passed').map(({ name }) => name);
}

const both = trusting([trustedKey(one), trustedKey(two)], 2);
const receipt = await seal([one, two]);
const { evidence, manifest } = receipt;
const note = parseNote(evidence.checkpoint);
const checkpoint = note && parseCheckpoint(note.text);
if (!note || !checkpoint) throw new Error('the checkpoint does not read back');

t.test('an unchanged receipt is good, with one line per check', async (t) => {
  const verdict = verifyReceiptText(encodeReceipt(receipt), encodeTrust(both), document);
  t.match(verdict, { outcome: 'good' });
  t.strictSame(
    verdict.checks.map(({ name }) => name),
    ['receipt', 'document', 'manifest', 'leaf', 'checkpoint', 'quorum', 'time-stamp', 'epoch', 'times'],
  );
  for (const { detail } of verdict.checks) t.match(detail, /^[^\n]+$/);
});

t.test('the copy without metadata is distinguished from the document', async (t) => {
  const sealedDocument = { ...document, sha256: '12'.repeat(32), sha512: '34'.repeat(64) };
  const copied = makeJob('job_2', { content: { ...job.content, sealedDocument } });
  const [sealed] = await sealJobs({
    jobs: [copied, ...others],
    environment: 'sandbox',
    origin,
    keys: [one, two],
    sealedAt,
  });
  const verify = (document: typeof sealedDocument, receipt = sealed) =>
    verifyReceipt({ document, receipt, trust: both });
  t.match(verify(document), { outcome: 'good', matches: 'document' });
  const asCopy = verify(sealedDocument);
  t.match(asCopy, { outcome: 'good', matches: 'sealed_document' });
  t.match(asCopy.checks[1]?.detail, `the document that was received has SHA-256 ${document.sha256}`);
  for (const member of ['sha256', 'sha512'] as const) {
    const changed = verify({ ...sealedDocument, [member]: document[member] });
    t.match(changed, { outcome: 'bad' }, `${member} of the other`);
    t.notOk('matches' in changed);
  }
  t.match(verify(sealedDocument, receipt), { outcome: 'bad' }, 'where no copy was sealed');
});

t.test('a canary is in the log, but is not a client’s document', async (t) => {
  const canary = makeJob('job_canary', { source: 'canary' });
  const [sung] = await sealJobs({
    jobs: [canary, ...others],
    environment: 'sandbox',
    origin,
    keys: [one, two],
    sealedAt,
  });
  const asDocument = verifyReceipt({ document, receipt: sung, trust: both });
  t.equal(asDocument.outcome, 'bad');
  t.strictSame(notPassed(asDocument), ['manifest'], 'everything else of it is in order');
  t.match(asDocument.checks[2]?.detail, /^a canary, .* does not belong to a client$/);
  t.match(verifyReceipt({ document, receipt: sung, trust: both, subject: 'canary' }), { outcome: 'good' });
  const noCanary = verifyReceipt({ document, receipt, trust: both, subject: 'canary' });
  t.strictSame(notPassed(noCanary), ['manifest']);
  t.equal(noCanary.outcome, 'bad');
});

t.test('key order, escapes and white space do not matter', async (t) => {
  const reversed = Object.fromEntries(Object.entries(receipt).reverse());
  const ascii = JSON.stringify(reversed).replace(
    /[^\0-~]/g,
    (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
  t.equal(verifyReceiptText(` ${ascii}\n`, encodeTrust(both), document).outcome, 'good');
});

t.test('a quorum of one is met by either key, and by a log of one key', async (t) => {
  t.equal(
    verifyReceipt({ document, receipt, trust: trusting([trustedKey(two), trustedKey(one)], 1) }).outcome,
    'good',
  );
  t.equal(verifyReceipt({ document, receipt, trust: trusting([trustedKey(one)], 1) }).outcome, 'good');
  const ecdsa = await seal([two]);
  t.equal(verifyReceipt({ document, receipt: ecdsa, trust: trusting([trustedKey(two)], 1) }).outcome, 'good');
});

const { customer_reference: _, ...unnamed } = receipt;
const fewer = signNote(origin, note.text, [one]);
const twice = signNote(origin, note.text, [one, one]);
const extended = signNote(origin, `${note.text}extension\n`, [stranger]);
const reSigned = (change: object, keys: TestKey[]) =>
  signNote(origin, encodeCheckpoint({ ...checkpoint, ...change }), keys);
const swapped = evidence.checkpoint.replace(/^(— .*)\n(— .*)\n$/m, '$2\n$1\n');
const forgedLine = signNote(origin, `${note.text}x\n`, [two]).split('\n').at(-2);
const withEvidence = (change: object) => ({ ...receipt, evidence: { ...evidence, ...change } });
const withManifest = (change: object) => ({ ...receipt, manifest: { ...manifest, ...change } });

/** What is forged, whether receipt_sha512 is made to fit, the verdict, and the checks that must not pass. */
const forgeries: Record<string, [object, Verdict['outcome'], CheckName[]]> = {
  'another customer_reference': [{ ...receipt, customer_reference: 'order 8' }, 'bad', ['manifest']],
  'no customer_reference': [unnamed, 'bad', ['manifest']],
  'another job_id': [{ ...receipt, job_id: 'job_2' }, 'bad', ['manifest']],
  'another document_sha256': [{ ...receipt, document_sha256: 'ee'.repeat(32) }, 'bad', ['manifest']],
  'another sealed_at': [{ ...receipt, sealed_at: '2025-03-04T05:06:07.300Z' }, 'bad', ['manifest']],
  'another kms_key_id': [{ ...receipt, kms_key_id: 'us-1/log' }, 'bad', ['quorum']],
  'the algorithm of no key that has that id': [
    { ...receipt, algorithm: 'pdfseal-v1.ecdsa-p256' },
    'bad',
    ['quorum'],
  ],
  'another manifest purpose': [withManifest({ purpose: 'approved' }), 'bad', ['leaf']],
  'one more manifest member': [withManifest({ approved: true }), 'bad', ['leaf']],
  'another manifest environment': [
    withManifest({ environment: 'env_production' }),
    'bad',
    ['leaf', 'checkpoint'],
  ],
  'the manifest of another document': [
    {
      ...withManifest({ document: { ...manifest.document, sha256: 'ee'.repeat(32) } }),
      document_sha256: 'ee'.repeat(32),
    },
    'bad',
    ['document', 'leaf'],
  ],
  'another leaf': [withEvidence({ leaf_index: 1 }), 'bad', ['leaf']],
  'another tree size': [withEvidence({ tree_size: 8 }), 'bad', ['leaf']],
  'no proof': [withEvidence({ inclusion_proof: [] }), 'bad', ['leaf']],
  'a proof with one hash more': [
    withEvidence({ inclusion_proof: [...evidence.inclusion_proof, evidence.inclusion_proof[0]] }),
    'bad',
    ['leaf'],
  ],
  'a proof with a hash that is no Base64': [
    withEvidence({ inclusion_proof: evidence.inclusion_proof.map((h) => `*${h.slice(1)}`) }),
    'bad',
    ['leaf'],
  ],
  'a proof with something more that is no hash': [
    withEvidence({ inclusion_proof: [...evidence.inclusion_proof, '*'.repeat(44)] }),
    'bad',
    ['leaf'],
  ],
  'a signature under another name than the log’s': [
    withEvidence({ checkpoint: evidence.checkpoint.replace(/— \S+ (?=[^\n]*\n$)/, '— other ') }),
    'bad',
    ['quorum'],
  ],
  'one signature too few': [withEvidence({ checkpoint: fewer }), 'bad', ['quorum']],
  'one key twice for two': [withEvidence({ checkpoint: twice }), 'bad', ['quorum']],
  'signed by a stranger, or by a later epoch': [
    withEvidence({ checkpoint: extended }),
    'unknown',
    ['quorum', 'time-stamp', 'epoch'],
  ],
  'a stranger, beside a wrong signature': [
    withEvidence({ checkpoint: `${extended}${forgedLine}\n` }),
    'bad',
    ['quorum'],
  ],
  'a wrong signature beside enough right ones': [
    withEvidence({ checkpoint: `${evidence.checkpoint}${forgedLine}\n` }),
    'bad',
    ['quorum'],
  ],
  'a checkpoint of another root': [
    withEvidence({ checkpoint: reSigned({ root: new Uint8Array(32) }, [stranger]) }),
    'bad',
    ['leaf', 'quorum', 'time-stamp', 'epoch'],
  ],
  'a checkpoint that is none': [
    withEvidence({ checkpoint: 'checkpoint\n' }),
    'bad',
    ['leaf', 'checkpoint', 'quorum'],
  ],
  'a checkpoint of another origin': [
    withEvidence({ checkpoint: reSigned({ origin: 'other' }, [one, two]) }),
    'bad',
    ['checkpoint'],
  ],
  'a log nobody knows, checkpoint and all': [
    withEvidence({ log_origin: 'other', checkpoint: reSigned({ origin: 'other' }, [stranger]) }),
    'unknown',
    ['checkpoint', 'quorum', 'time-stamp', 'epoch'],
  ],
  'a member nobody knows': [{ ...receipt, approved_by: 'the board' }, 'unknown', ['receipt']],
  'a member of the evidence nobody knows': [withEvidence({ witness: 'x' }), 'unknown', ['receipt']],
  '__proto__ as a member': [
    JSON.parse(JSON.stringify(receipt).replace('{', '{"__proto__":{"a":1},')),
    'unknown',
    ['receipt'],
  ],
  'certificates of nothing': [withEvidence({ certificates: ['AA=='] }), 'bad', ['time-stamp']],
  'a later algorithm': [{ ...receipt, algorithm: 'pdfseal-v2.ml-dsa-65' }, 'unknown', ['receipt']],
  'a later manifest': [withManifest({ schema: 'pdfseal-manifest/2' }), 'unknown', ['receipt']],
  'a token of no known type': [
    withEvidence({ timestamps: [{ type: 'x', token: 'AA==' }] }),
    'bad',
    ['receipt'],
  ],
  'upper-case digest': [{ ...receipt, document_sha256: 'AB'.repeat(32) }, 'bad', ['receipt']],
  'no evidence': [{ ...receipt, evidence: undefined }, 'bad', ['receipt']],
  'a proof too long to be one': [
    withEvidence({ inclusion_proof: Array(64).fill(evidence.inclusion_proof[0]) }),
    'bad',
    ['receipt'],
  ],
  'a leaf index that is no number': [withEvidence({ leaf_index: '0' }), 'bad', ['receipt']],
  'a size beyond counting': [withEvidence({ tree_size: 2 ** 53 }), 'bad', ['receipt']],
};
for (const [name, [forged, outcome, checks]] of Object.entries(forgeries)) {
  t.test(`forged: ${name}`, async (t) => {
    const verdict = verifyReceipt({ document, receipt: finish(forged), trust: both });
    t.strictSame([verdict.outcome, notPassed(verdict)], [outcome, checks]);
  });
}

t.test('one wrong signature of a trusted key spoils the checkpoint, and is named', async (t) => {
  const checkpoint = `${evidence.checkpoint}${forgedLine}\n`;
  const trust = trusting([trustedKey(one), trustedKey(two)], 1);
  const { outcome, checks } = verifyReceipt({
    document,
    receipt: finish(withEvidence({ checkpoint })),
    trust,
  });
  t.equal(outcome, 'bad');
  t.match(checks.find(({ name }) => name === 'quorum')?.detail, /eu-2\/log is wrong/);
});

t.test('the order of the lines and lines of strangers do not matter', async (t) => {
  t.not(swapped, evidence.checkpoint);
  const strangersLine = signNote(origin, note.text, [stranger]).split('\n').at(-2);
  for (const checkpoint of [swapped, `${evidence.checkpoint}${strangersLine}\n`]) {
    t.equal(
      verifyReceipt({ document, receipt: finish(withEvidence({ checkpoint })), trust: both }).outcome,
      'good',
    );
  }
});

t.test('a receipt digest that does not match is bad', async (t) => {
  const verdict = verifyReceipt({ document, receipt: { ...receipt, kms_key_id: 'eu-2/log' }, trust: both });
  t.match(notPassed(verdict), ['receipt']);
  t.equal(verdict.outcome, 'bad');
});

t.test('the document must be the one that was sealed, to the byte', async (t) => {
  const wrong = [
    { ...document, sha256: 'ee'.repeat(32) },
    { ...document, sha512: 'ee'.repeat(64) },
    { ...document, bytes: document.bytes + 1 },
  ];
  for (const document of wrong) {
    const verdict = verifyReceipt({ document, receipt, trust: both });
    t.strictSame([verdict.outcome, notPassed(verdict)], ['bad', ['document']]);
  }
  const without = verifyReceipt({ document: undefined, receipt, trust: both });
  t.strictSame([without.outcome, notPassed(without)], ['unknown', ['document']]);
});

t.test('a receipt of the sandbox is not one of production', async (t) => {
  const trust = trusting([trustedKey(one)], 1);
  const production = { ...trust, logs: trust.logs.map((log) => ({ ...log, environment: 'env_production' })) };
  t.equal(verifyReceipt({ document, receipt, trust: production }).outcome, 'bad');
});

t.test('a key is trusted only for its own log', async (t) => {
  const second = 'seal.example.com/sandbox/2027';
  const logs = [
    ...both.logs,
    oneEpoch({ origin: second, environment: 'env_sandbox', keys: [trustedKey(stranger)] }),
  ];
  const verify = (receipt: Receipt) => verifyReceipt({ document, receipt, trust: { ...both, logs } }).outcome;
  t.equal(verify(await seal([stranger], second)), 'good');
  t.equal(verify(await seal([one, two], second)), 'unknown');
  t.equal(verify(await seal([stranger])), 'unknown');
});

t.test('a missing time-stamp is bad if the trust file requires one', async (t) => {
  const trust = trusting([trustedKey(one), trustedKey(two)], 2, { timestamps: 'required' });
  const verdict = verifyReceipt({ document, receipt, trust });
  t.strictSame([verdict.outcome, notPassed(verdict)], ['bad', ['time-stamp']]);
});

t.test('text that is not a receipt or trust file is bad, or an error', async (t) => {
  const text = encodeReceipt(receipt);
  const trust = encodeTrust(both);
  const doubled = text.replace('"job_id"', '"job_id": "job_9",\n  "job_id"');
  const surrogate = text.replace('order ñ 7', '\\ud800');
  for (const bad of [
    '',
    'null',
    '[]',
    '{}',
    '"x"',
    text.slice(0, -3),
    doubled,
    surrogate,
    ' '.repeat(RECEIPT_LENGTH_MAX + 1),
  ]) {
    t.equal(verifyReceiptText(bad, trust, document).outcome, 'bad', bad.slice(0, 20));
  }
  const depth = 100_000;
  const deep = text.replace('"certificates": []', `"certificates": ${'['.repeat(depth)}${']'.repeat(depth)}`);
  t.equal(verifyReceiptText(deep, trust, document).outcome, 'bad');
  const deepMember = text.replace('{', `{"x": ${'['.repeat(depth)}${']'.repeat(depth)},`);
  t.not(verifyReceiptText(deepMember, trust, document).outcome, 'good');
  t.strictSame(notPassed(verifyReceiptText(text, '{}', document)), ['trust']);
  t.equal(verifyReceiptText(text, '{}', document).outcome, 'unknown');
});

t.test('foreign text is escaped for the terminal', async (t) => {
  const nasty = '\u001b[2J\u009b2J\n\u202e';
  for (const forged of [
    withEvidence({ log_origin: nasty }),
    { ...receipt, [nasty]: 1 },
    { ...receipt, algorithm: nasty },
  ]) {
    for (const { detail } of verifyReceipt({ document, receipt: finish(forged), trust: both }).checks) {
      t.notMatch(detail, /\p{C}/u);
    }
  }
});

t.test('a receipt with any changed character does not pass', async (t) => {
  const text = encodeReceipt(receipt);
  const trust = encodeTrust(both);
  const change = fc.record({
    at: fc.nat(text.length - 1),
    drop: fc.integer({ min: 0, max: 3 }),
    put: fc.oneof(
      fc.string({ maxLength: 3, unit: 'binary-ascii' }),
      fc.constantFrom('"', ',', '{}', '1', 'A', '\\n', '[', ' '),
    ),
  });
  t.doesNotThrow(() =>
    fc.assert(
      fc.property(change, ({ at, drop, put }) => {
        const changed = text.slice(0, at) + put + text.slice(at + drop);
        return verifyReceiptText(changed, trust, document).outcome !== 'good' || sameJson(changed, text);
      }),
      { numRuns: tries(3000) },
    ),
  );
});

function sameJson(a: string, b: string): boolean {
  return isDeepStrictEqual(JSON.parse(a), JSON.parse(b));
}

/** Where the values of a JSON document are: a list of keys each. */
function places(value: unknown, path: string[] = []): string[][] {
  if (typeof value !== 'object' || value === null) return [path];
  return [path, ...Object.entries(value).flatMap(([key, member]) => places(member, [...path, key]))];
}

function replaced(value: unknown, [key, ...rest]: string[], by: unknown): unknown {
  if (key === undefined) return by;
  const copy: Record<string, unknown> = Array.isArray(value)
    ? Object.assign([], value)
    : { ...Object(value) };
  copy[key] = replaced(copy[key], rest, by);
  return copy;
}

t.test('a receipt with any changed value does not pass, even with a matching receipt_sha512', async (t) => {
  const values = places(receipt).filter((path) => path.length > 0);
  const strings = [
    '',
    'x',
    'env_production',
    evidence.inclusion_proof[0],
    evidence.checkpoint,
    document.sha256,
    receipt.sealed_at,
  ];
  const value = fc.oneof(
    fc.jsonValue({ maxDepth: 1 }),
    fc.constantFrom(...strings),
    fc.nat(9),
    fc.constant(undefined),
  );
  t.doesNotThrow(() =>
    fc.assert(
      fc.property(fc.constantFrom(...values), value, fc.boolean(), (path, by, refinish) => {
        const forged = JSON.parse(JSON.stringify(replaced(receipt, path, by)));
        const finished = refinish ? finish(forged) : forged;
        return (
          verifyReceipt({ document, receipt: finished, trust: both }).outcome !== 'good' ||
          isDeepStrictEqual(finished, receipt)
        );
      }),
      { numRuns: tries(3000) },
    ),
  );
});

t.test('a changed signature does not pass or throw', async (t) => {
  const lines = evidence.checkpoint.split('\n');
  const mangled = fc.tuple(
    fc.constantFrom(lines.length - 2, lines.length - 3),
    fc.uint8Array({ minLength: 5, maxLength: 90 }),
  );
  t.doesNotThrow(() =>
    fc.assert(
      fc.property(mangled, fc.boolean(), ([at, noise], keepId) => {
        const bytes = Buffer.from(noise);
        if (keepId) Buffer.from(lines[at]?.split(' ')[2] ?? '', 'base64').copy(bytes, 0, 0, 4);
        const checkpoint = lines.with(at, `— ${origin} ${bytes.toString('base64')}`).join('\n');
        return (
          verifyReceipt({ document, receipt: finish(withEvidence({ checkpoint })), trust: both }).outcome ===
          (keepId ? 'bad' : 'unknown')
        );
      }),
      { numRuns: tries(500) },
    ),
  );
});

t.test('no input throws', async (t) => {
  fc.assert(
    fc.property(fc.anything({ withBigInt: true, withMap: true, withNullPrototype: true }), (anything) => {
      t.not(verifyReceipt({ document, receipt: anything, trust: both }).outcome, 'good');
      t.not(
        verifyReceipt({ document, receipt: { ...receipt, manifest: anything }, trust: both }).outcome,
        'good',
      );
    }),
    { numRuns: tries(500) },
  );
});

t.test('an object with accessors or a proxy cannot mislead', async (t) => {
  const refuse = () => {
    throw new Error('asked');
  };
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  let asked = 0;
  const fickle = {
    ...receipt,
    get customer_reference() {
      asked += 1;
      return asked === 1 ? receipt.customer_reference : 'other';
    },
  };
  for (const [what, hostile] of Object.entries({
    getter: Object.defineProperty({}, 'algorithm', { get: refuse, enumerable: true }),
    proxy: new Proxy({}, { get: refuse, has: refuse, ownKeys: refuse }),
    revoked: proxy,
    function: refuse,
  })) {
    t.match(verifyReceipt({ document, receipt: hostile, trust: both }), { outcome: 'bad' }, what);
  }
  t.match(verifyReceipt({ document, receipt: fickle, trust: both }), { outcome: 'good' });
  t.equal(asked, 1, 'all checks see one and the same receipt');
});
