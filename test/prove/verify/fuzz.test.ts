/** Receipts that were tampered with, and none that passes: half of them in their text, half in their values. */
import { isDeepStrictEqual } from 'node:util';
import t from 'tap';
import { encodeReceipt, receiptDigest } from '../../../src/manifest/receipt.ts';
import type { TrustFile } from '../../../src/manifest/trustFile.ts';
import { createVerifier, type Verdict } from '../../../src/prove/verify/verify.ts';
import { HeldClock, makeAuthority, makePki } from '../../support/authority.ts';
import { makeContent, makeJob, makeKey, oneEpoch, sealJobs } from '../../support/sealing.ts';
import { fc, mutations } from '../../support/seed.ts';

const RUNS = mutations(20_000);
const origin = 'seal.example.com/sandbox/2026';
const sealedAt = Date.parse('2026-03-04T05:06:07.300Z');
const { privateKey, ...key } = makeKey('ed25519', 'eu-1');
const pki = await makePki();
const sealing = {
  environment: 'sandbox',
  origin,
  keys: [{ ...key, privateKey }],
  sealedAt,
  authority: makeAuthority([pki.unit], new HeldClock(sealedAt)),
} as const;
const [receipt] = await sealJobs({
  ...sealing,
  jobs: [makeJob('job_1', { purpose: 'x' }), makeJob('job_2')],
});
const [other] = await sealJobs({ ...sealing, jobs: [makeJob('job_3'), makeJob('job_4')] });
if (receipt === undefined || other === undefined) throw new Error('nothing was sealed');
const text = encodeReceipt(receipt);
const trust: TrustFile = {
  timestampAuthorities: [{ name: 'built-in', root: pki.root }],
  logs: [oneEpoch({ origin, environment: 'env_sandbox', keys: [key] })],
};
const { document } = makeContent();
const verifier = createVerifier(trust);

function verify(received: unknown): Verdict['outcome'] {
  return verifier({ document, receipt: received }).outcome;
}

t.test('the unchanged receipt passes', async (t) => {
  t.equal(verify(receipt), 'good');
  t.equal(verify(other), 'good');
});

t.test('a receipt with changed text does not pass', async (t) => {
  const edit = fc.record({
    at: fc.nat(text.length - 1),
    drop: fc.integer({ min: 0, max: 2 }),
    put: fc.oneof(
      fc.string({ maxLength: 2, unit: 'binary-ascii' }),
      fc.constantFrom('A', '0', '9', '{', '[', '"', ',', '\\', '\n'),
    ),
  });
  t.doesNotThrow(() =>
    fc.assert(
      fc.property(fc.array(edit, { minLength: 1, maxLength: 2 }), (edits) => {
        const changed = edits.reduce((old, { at, drop, put }) => splice(old, at, drop, put), text);
        const received = parse(changed);
        return received === undefined || verify(received) !== 'good' || isDeepStrictEqual(received, receipt);
      }),
      { numRuns: RUNS },
    ),
  );
  t.equal(verify(receipt), 'good', 'and it still can be');
});

t.test('a receipt with changed values does not pass, even with a matching receipt_sha512', async (t) => {
  const paths = places(receipt).filter((path) => path.length > 0 && !isSpare(path));
  const foreign = places(other).map((path) => valueAt(other, path));
  const by = fc.oneof(
    fc.constantFrom(...foreign),
    fc.string({ maxLength: 4 }),
    fc.nat(9),
    fc.constantFrom(null, true, [], {}, undefined),
  );
  t.doesNotThrow(() =>
    fc.assert(
      fc.property(fc.constantFrom(...paths), by, (path, value) => {
        const forged = Object(withValue(receipt, path, value));
        const digest = digestOf(forged);
        const finished = digest === undefined ? forged : { ...forged, receipt_sha512: digest };
        return verify(finished) !== 'good' || isDeepStrictEqual(finished, receipt);
      }),
      { numRuns: RUNS },
    ),
  );
  t.equal(verify(receipt), 'good', 'and it still can be');
});

function splice(old: string, at: number, drop: number, put: string): string {
  return old.slice(0, at) + put + old.slice(at + drop);
}

function parse(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

function digestOf(forged: object): string | undefined {
  try {
    return receiptDigest(forged);
  } catch {
    return undefined;
  }
}

/** A certificate more than needed proves nothing, and spoils nothing. */
function isSpare(path: string[]): boolean {
  return path.join('.') === 'evidence.certificates';
}

/** Where the values of a JSON document are: a list of keys each. */
function places(value: unknown, path: string[] = []): string[][] {
  if (typeof value !== 'object' || value === null) return [path];
  return [path, ...Object.entries(value).flatMap(([name, member]) => places(member, [...path, name]))];
}

function valueAt(value: unknown, path: string[]): unknown {
  return path.reduce((inner: unknown, name) => Object(inner)[name], value);
}

function withValue(value: unknown, [name, ...rest]: string[], by: unknown): unknown {
  if (name === undefined) return by;
  const copy = Array.isArray(value) ? [...value] : { ...Object(value) };
  copy[name] = withValue(copy[name], rest, by);
  return copy;
}
